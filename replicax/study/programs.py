"""The compiled programs that advance a group of trials.

One group is `size` trials side by side: the one step, vectorised. Three ways of running several
steps are equal in meaning and differ in speed by up to tenfold either way, depending on model,
batch size and hardware: a compiled loop (`scan`), a chunk of steps without a loop (`unrolled`) and
one call per step (`dispatch`). `study.measure` picks one per study.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from replicax.data import Dataset, Examples
from replicax.data.order import Position, advance, example_indices, position
from replicax.replicate import TrainState, WeightedSum
from replicax.study.executor import Loop
from replicax.tasks import Task
from replicax.train import Optimizer, make_evaluate, make_init, make_step

UNROLL = 8


class Slots(NamedTuple):
    """The state of a group; every leaf has a leading axis of the group's size.

    In a group of one that axis is missing: squeezing it in the program made a step of
    784-1024-1024-10 at batch size 1 four times slower.

    Attributes:
      train: what the step changes.
      hyperparameters: name -> float32 [size].
      diverged_at: int32 [size], first step whose loss was not finite, 0 if none.
    """

    train: TrainState
    hyperparameters: dict[str, jax.Array]
    diverged_at: jax.Array


class Order(NamedTuple):
    """Examples, and the seed of the order in which they are seen."""

    examples: Examples
    seed: Any


class Programs:
    """What a study needs of one workload at one batch size; compiled on first use."""

    def __init__(
        self, task: Task, optimizer: Optimizer, data: Dataset, *, batch_size: int, seed: int
    ) -> None:
        self.batch_size = batch_size
        self._n = len(data.train.label)
        self._validation: Examples = jax.device_put(data.validation)
        # both are arguments of the programs, no constants: all seeds share what is compiled
        self._order = Order(jax.device_put(data.train), np.uint32(seed % 2**32))
        self._key = jax.random.key(seed)
        init, step, evaluate = (
            make_init(task, optimizer),
            make_step(task, optimizer),
            make_evaluate(task),
        )

        def one_step(slots: Slots, at: Position, number: jax.Array, order: Order) -> Slots:
            indices = example_indices(order.seed, at, batch_size, self._n, jnp)
            batch = task.batch(order.examples, indices)
            over_group = _over_group(slots, lambda train, h: step(train, h, batch))
            train, loss = over_group(slots.train, slots.hyperparameters)
            fresh = (slots.diverged_at == 0) & ~jnp.isfinite(loss)
            diverged_at = jnp.where(fresh, number, slots.diverged_at)
            return Slots(train, slots.hyperparameters, diverged_at)

        def body(i: jax.Array, carry: tuple[Slots, Position], step: Any, order: Order) -> Any:
            slots, at = carry
            slots = one_step(slots, at, step + i + 1, order)
            return slots, advance(at, batch_size, self._n)

        @partial(jax.jit, donate_argnums=0)
        def scan(slots: Slots, at: Position, step: Any, count: Any, order: Order) -> Any:
            run = partial(body, step=step, order=order)
            return jax.lax.fori_loop(0, count, run, (slots, at))

        @partial(jax.jit, donate_argnums=0, static_argnames="count")
        def straight(slots: Slots, at: Position, step: Any, count: int, order: Order) -> Any:
            carry = slots, at
            for i in range(count):
                carry = body(jnp.int32(i), carry, step, order)
            return carry

        @jax.jit
        def measure(slots: Slots, examples: Examples) -> dict[str, WeightedSum]:
            return _over_group(slots, lambda train: evaluate(train, examples))(slots.train)

        @jax.jit
        def start(key: jax.Array, trials: jax.Array, h: dict[str, jax.Array]) -> Slots:
            keys = jax.vmap(partial(jax.random.fold_in, key))(trials)
            slots = Slots(jax.vmap(init)(keys, h), h, jnp.zeros(trials.shape, jnp.int32))
            return slots if trials.size > 1 else jax.tree.map(lambda a: a[0], slots)

        self._scan, self._straight, self._measure, self._start = scan, straight, measure, start

    def start(self, trials: list[int], hyperparameters: list[dict[str, float]]) -> Slots:
        """The state before the first step; a trial's weights are a function of seed and number."""
        h = {
            name: jnp.asarray([p[name] for p in hyperparameters], jnp.float32)
            for name in hyperparameters[0]
        }
        return self._start(self._key, jnp.asarray(trials, jnp.int32), h)

    def advance(self, slots: Slots, step: int, to: int, loop: Loop) -> Slots:
        """Runs the steps `step + 1` .. `to`. The argument's buffers are given up."""
        if loop == "scan":
            return self._scan(slots, *self._at(step), to - step, self._order)[0]
        stride = UNROLL if loop == "unrolled" else 1
        while step < to:
            count = stride if step + stride <= to else 1
            slots, _ = self._straight(slots, *self._at(step), count=count, order=self._order)
            step += count
        return slots

    def evaluate(self, slots: Slots) -> dict[str, np.ndarray]:
        """Each metric on the whole validation split, float64 [size]."""
        sums = jax.device_get(self._measure(slots, self._validation))
        return {name: np.atleast_1d(weighted.mean()) for name, weighted in sums.items()}

    def _at(self, step: int) -> tuple[Position, np.int32]:
        at = position(step * self.batch_size, self._n)
        return Position(np.int32(at.epoch), np.int32(at.offset)), np.int32(step)


def _over_group(slots: Slots, f: Callable[..., Any]) -> Callable[..., Any]:
    """f of one trial, for every trial of a group."""
    return jax.vmap(f) if slots.diverged_at.ndim else f
