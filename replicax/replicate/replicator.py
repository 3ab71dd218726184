"""The Replicator: the devices, and what runs on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from math import prod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from replicax.errors import UserError
from replicax.replicate import evaluation, pipelines, processes
from replicax.replicate.checks import check_arrays
from replicax.replicate.cpu_devices import ask_for_cpu_devices
from replicax.replicate.drift import DriftGuard
from replicax.replicate.layout import REPLICA, VIRTUAL, Layout, plan
from replicax.replicate.placement import Rules
from replicax.replicate.program import Program, StepFunction, per_replica

BLOCKS = 8  # of a batch in deterministic mode
MODEL = "model"  # the axis of a replica's devices, unless it is named


class Replicator:
    """Runs a step that is written as for one device on many of them, with the same numbers.

    A context manager: the process group, if a launcher or scheduler has started one, comes up at
    `with` and goes down at its end.
    """

    _active: ClassVar[Replicator | None] = None

    def __init__(
        self,
        batch_size: int,
        *,
        replicas: int | None = None,
        devices: int | None = None,
        devices_per_replica: int | Mapping[str, int] = 1,
        partition_rules: Rules = (),
        shard_state: bool | str = False,
        microbatches: int = 1,
        deterministic: bool | int = False,
        input_mode: pipelines.Mode = "per_worker",
        compare_every: int = 100,
    ) -> None:
        """Says what is wanted; devices are looked at when the context is entered.

        Args:
          batch_size: examples per step, over all replicas, processes and micro-batches.
          replicas: copies of the step; one on each device by default. More than there are devices
            run several on one, with the same numbers.
          devices: how many to use, over all processes; all by default.
          devices_per_replica: how many devices compute one replica: name and size of the axes that
            they form, or the size of one axis named 'model'.
          partition_rules: which leaves of the state are split over these axes: (pattern, spec). The
            first whose regular expression is found in a leaf's path, such as
            `params/hidden/kernel`, decides; a leaf without one is whole on every device. XLA splits
            the computation accordingly.
          shard_state: spreads the state over the replicas between its uses, in 1/N of the memory:
            all of it (as FSDP and ZeRO stage 3 do), or the leaves in whose path this regular
            expression is found (`"optimizer_state"`, as ZeRO stage 1 does).
          microbatches: parts of a replica's examples that are computed one by one, to save memory.
          deterministic: sums are formed in one fixed order, so that every bit is the same for any
            number of replicas that divides the number of blocks of the batch, 8 or the one given.
          input_mode: one input pipeline in all ('one'), for each process ('per_worker') or for each
            replica ('per_replica').
          compare_every: steps after which `run` compares the copies of the state, which must be
            equal; 0 for never.

        Raises:
          UserError: a number below 1, or an unknown mode.
        """
        for name, value in {
            "batch_size": batch_size,
            "replicas": replicas,
            "devices": devices,
            "microbatches": microbatches,
        }.items():
            if value is not None and (not isinstance(value, int) or value < 1):
                raise UserError(f"{name} must be a whole number of at least 1; got {value!r}")
        if input_mode not in pipelines.MODES:
            raise UserError(
                f"the input mode is one of {', '.join(pipelines.MODES)}; got {input_mode!r}"
            )
        self.batch_size = batch_size
        self._replicas, self._devices = replicas, devices
        self._inner = _inner_axes(devices_per_replica)
        self._rules = tuple(partition_rules)
        self._spread = ".*" if shard_state is True else shard_state or None
        self._microbatches = microbatches
        self._blocks = BLOCKS if deterministic is True else int(deterministic)
        self._compare_every = compare_every
        self._input_mode: pipelines.Mode = input_mode
        self._layout: Layout | None = None
        self._started = False

    def __enter__(self) -> Replicator:
        if Replicator._active is not None:
            raise UserError(
                "replicators cannot be nested: their collectives would mix; leave the context of "
                "the first before you enter another"
            )
        self._started = processes.start()
        if self._replicas is not None:
            per_replica = prod(self._inner.values())
            ask_for_cpu_devices(self._devices or self._replicas * per_replica)
        self._layout = self._plan()
        Replicator._active = self
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        Replicator._active = None
        if error is None:
            processes.settle()
        if self._started:
            processes.stop() if error is None else processes.fail(error)

    def _plan(self) -> Layout:
        found = jax.devices()
        wanted = len(found) if self._devices is None else self._devices
        if wanted > len(found):
            raise UserError(
                f"devices must be no more than there are; got {wanted}, and JAX has {len(found)}; "
                "for a trial on CPU devices run `replicax launch --devices N`, or leave devices "
                "out: replicas may share a device"
            )
        workers = jax.process_count()
        if wanted % workers:
            raise UserError(
                f"devices must divide evenly over the processes; got {wanted} devices and "
                f"{workers} processes"
            )
        own = len(found) // workers
        used = tuple(d for i, d in enumerate(found) if i % own < wanted // workers)
        return plan(
            batch_size=self.batch_size,
            replicas=self._replicas,
            devices=used,
            workers=workers,
            inner=self._inner,
            microbatches=self._microbatches,
            blocks=self._blocks,
            rules=self._rules,
            spread=self._spread,
        )

    @property
    def layout(self) -> Layout:
        """Which replica runs on which device. Raises UserError outside of the context."""
        if self._layout is None or Replicator._active is not self:
            raise UserError(
                "a Replicator works inside its context, where devices and processes are known; "
                "write `with Replicator(...) as replicator:`"
            )
        return self._layout

    @property
    def replicas(self) -> int:
        """How many replicas there are, over all processes."""
        return self.layout.replicas

    def init(self, init_fn: Callable[[jax.Array], Any], *, seed: int = 0) -> Any:
        """The state before the first step, equal on all replicas.

        Args:
          init_fn: key -> state, a pytree of arrays.
          seed: of the key.
        """
        key = jax.random.key(seed)
        shapes = jax.eval_shape(init_fn, key)
        check_arrays("state", shapes)
        return jax.jit(init_fn, out_shardings=self.layout.shardings(shapes))(key)

    def place(self, state: Any) -> Any:
        """A state from elsewhere, the same on every process, on the devices of all replicas."""
        check_arrays("state", state)
        return jax.tree.map(self.layout.put, state, self.layout.shardings(state))

    def fetch(self, tree: Any) -> Any:
        """The whole of a state or of values on the host of every process, as NumPy arrays."""
        whole = self.layout.processes == 1
        return jax.device_get(tree if whole else jax.tree.map(self.layout.mirror, tree))

    def inputs(self, input_fn: pipelines.InputFunction) -> Iterator[Any]:
        """Batches on the devices, leaves [batch_size, ...]; ends with the first pipeline that does.

        Args:
          input_fn: context -> an iterable of batches, or a callable that returns the next one. A
            batch is a pytree of arrays [per_pipeline_batch_size, ...]; the last one may be shorter,
            and is padded with examples of weight 0.
        """
        return pipelines.global_batches(input_fn, self.layout, self._input_mode)

    def compile(self, step_fn: StepFunction, *, seed: int = 0, donate: bool = False) -> Program:
        """A step on all replicas: (state, batch, step) -> (state, values).

        Args:
          step_fn: (state, batch) -> (state, values), for the examples of one replica. Values are
            equal on all replicas, or declared by `per_replica`.
          seed: of the random streams.
          donate: reuse the buffers of the state, which is gone after the step.
        """
        key = jax.random.key(seed)
        return Program(step_fn, self.layout, key, donate=donate)

    def run(
        self,
        step_fn: StepFunction,
        state: Any,
        input_fn: pipelines.InputFunction,
        *,
        steps: int | None = None,
        first_step: int = 0,
        seed: int = 0,
    ) -> Iterator[tuple[Any, Any]]:
        """Runs steps, and yields (state, values) after each.

        A state that was yielded is valid until the next step; copy what you want to keep. The state
        that was given stays.

        Args:
          step_fn: as of `compile`.
          state: as `init` or `place` returned it.
          input_fn: as of `inputs`.
          steps: at most so many; until the input ends by default.
          first_step: number of the first step, where a run goes on.
          seed: of the random streams.
        """
        program = self.compile(step_fn, seed=seed, donate=True)
        state = jax.tree.map(jnp.copy, self.place(state))
        numbers = count(first_step) if steps is None else range(first_step, first_step + steps)
        guard = DriftGuard(self.layout, self._compare_every)
        for number, batch in zip(numbers, self.inputs(input_fn), strict=False):
            state, values = program(state, batch, number)
            guard.look(state, number)
            yield state, values
        guard.read()

    def evaluate(
        self, metric_fn: evaluation.MetricFunction, state: Any, input_fn: pipelines.InputFunction
    ) -> evaluation.Evaluation:
        """Metrics over all examples of an input, each counted once.

        Args:
          metric_fn: (state, batch) -> a pytree of metric states, such as `WeightedSum`, over the
            examples of one replica. It uses the weights of the batch.
          state: as of `run`.
          input_fn: as of `inputs`; processes may have different numbers of batches.
        """
        layout, local = self.layout, self.layout.of_process(jax.process_index())
        program = Program(
            evaluation.as_step(metric_fn, per_replica),
            local,
            jax.random.key(0),
            donate=False,
            communicates=False,
        )
        own = self._for_this_process(state, local)
        batches = pipelines.local_batches(input_fn, layout, self._input_mode)
        found = [program(own, jax.device_put(batch, local.split))[1] for batch in batches]
        return evaluation.over_processes(*evaluation.merged(found))

    def _for_this_process(self, state: Any, local: Layout) -> Any:
        """A state on the devices of this process alone; what is spread over all is gathered."""
        layout = self.layout
        if layout.processes == 1:
            return self.place(state)
        whole = replace(layout, spread=None)
        state = jax.tree.map(whole.put, state, whole.shardings(state))
        return jax.tree.map(_own_copy, state, local.shardings(state))


def _inner_axes(devices_per_replica: int | Mapping[str, int]) -> dict[str, int]:
    """Name and size of the axes within a replica; none if it has one device."""
    if isinstance(devices_per_replica, int):
        devices_per_replica = {MODEL: devices_per_replica} if devices_per_replica != 1 else {}
    inner = dict(devices_per_replica)
    for name, size in inner.items():
        if not isinstance(size, int) or size < 1 or name in (REPLICA, VIRTUAL):
            raise UserError(
                "devices_per_replica is a whole number of at least 1, or names of axes (other than "
                f"'{REPLICA}' and '{VIRTUAL}') and their sizes; got {inner}"
            )
    return inner


def _own_copy(x: jax.Array, sharding: NamedSharding) -> jax.Array:
    """The part of an array that lies on the devices of one process, as an array of its own."""
    shards = [shard.data for shard in x.addressable_shards]
    return jax.make_array_from_single_device_arrays(x.shape, sharding, shards)
