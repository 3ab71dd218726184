"""The one training step, and the one evaluation, built from a task and an optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from replicax.data import Batch, Examples
from replicax.replicate import TrainState, WeightedSum
from replicax.tasks import Task
from replicax.train.optimizers import Hyperparameters, Optimizer

Init = Callable[[jax.Array, Hyperparameters], TrainState]
Step = Callable[[TrainState, Hyperparameters, Batch], tuple[TrainState, jax.Array]]
Evaluate = Callable[[TrainState, Examples], dict[str, WeightedSum]]


def make_init(task: Task, optimizer: Optimizer) -> Init:
    """A pure function (key, hyperparameters) -> state before the first step."""

    def init(key: jax.Array, h: Hyperparameters) -> TrainState:
        return TrainState.create(task.init(key), optimizer.build(h))

    return init


def make_step(task: Task, optimizer: Optimizer) -> Step:
    """A pure function (state, hyperparameters, batch) -> (state, loss before the update).

    The loss is the weighted mean over the batch: a sum and a weight, divided once.
    """

    def mean_loss(params: Any, batch: Batch) -> jax.Array:
        return jnp.vdot(task.loss(params, batch), batch.weight) / batch.weight.sum()

    def step(state: TrainState, h: Hyperparameters, batch: Batch) -> tuple[TrainState, jax.Array]:
        loss, gradient = jax.value_and_grad(mean_loss)(state.params, batch)
        h = {**h, "learning_rate": h["learning_rate"] + _zero_after(gradient)}
        return state.update(gradient, optimizer.build(h)), loss

    return step


def _zero_after(gradient: Any) -> jax.Array:
    """The number 0, known only once the backward pass is done (NaN where the gradient is).

    XLA may update a weight matrix while the backward pass still reads it, and then copies it in
    every step. With a learning rate that waits, it updates in place. Looks at vectors only: an
    element taken from a matrix would have XLA compute that matrix twice.
    """
    vectors = [leaf for leaf in jax.tree.leaves(gradient) if leaf.ndim == 1 and leaf.size]
    return sum((jnp.minimum(jnp.abs(leaf[0]), 0) for leaf in vectors), jnp.zeros(()))


def make_evaluate(task: Task) -> Evaluate:
    """A pure function (state, examples) -> weighted sum of each metric over all the examples."""

    def evaluate(state: TrainState, examples: Examples) -> dict[str, WeightedSum]:
        everything = jnp.arange(examples.label.shape[0])
        return task.metrics(state.params, task.batch(examples, everything))

    return evaluate
