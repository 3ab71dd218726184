"""Grids over the noisy quadratic model: tuned steps to a goal, and the tables of a study.

The tables have the form of a real scaling study with every trial run to its budget, so that the
whole analysis can be tried on a source whose answer is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from replicax.analysis.quadratic import (
    Array,
    Dynamics,
    NoisyQuadratic,
    dynamics,
    loss_parts,
    steps_to_goal,
)

METRIC = "val/loss"
CHUNK = 50_000  # points times dimensions at a time; momentum takes about 2 kB for each


class Tuned(NamedTuple):
    """The best grid point of each batch size; arrays [batch sizes], steps inf if none reached."""

    steps: Array
    learning_rate: Array
    momentum: Array


def tune(
    model: NoisyQuadratic,
    goal: float,
    batch_sizes: ArrayLike,
    *,
    learning_rates: ArrayLike,
    momenta: ArrayLike = (0.0,),
) -> Tuned:
    """The grid point with the fewest steps to the goal at each batch size; ties to the first.

    Args:
      batch_sizes: [b], examples per step.
      learning_rates, momenta: the two axes of the grid.
    """
    rates, axis = _points(learning_rates, momenta)
    grid = _grid(model, rates, axis)
    steps = np.concatenate([steps_to_goal(g, goal, batch_sizes) for g in grid], axis=1)
    best = steps.argmin(axis=1)
    least = np.take_along_axis(steps, best[:, None], axis=1)[:, 0]
    return Tuned(least, rates[best], axis[best])


def steps_bound(model: NoisyQuadratic, goal: float, batch_sizes: ArrayLike) -> Array:
    """The information-theoretic lower bound d/(2 C B) on steps to loss C (Zhang et al. 2019).

    From the noise of d gradients alone: it disregards that theta starts near its optimum, hence
    holds where the goal is far below the loss at the start.
    """
    return model.dimensions / (2 * goal * np.asarray(batch_sizes, np.float64))


def measure(
    model: NoisyQuadratic,
    batch_sizes: ArrayLike,
    *,
    learning_rates: ArrayLike,
    momenta: ArrayLike = (0.0,),
    max_steps: int,
    spacing: float = 0.03,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Measurements and trials as a scaling study over the grid would have recorded them.

    Evaluations stand at step 0 and then about `spacing` apart relative to the step, up to
    `max_steps`. A trial whose loss at the end exceeds the loss at the start is infeasible.

    Returns:
      measurements: batch_size, trial, step, "val/loss".
      trials: batch_size, trial, status, reason, wave, last_step, learning_rate, momentum.
    """
    sizes = np.asarray(batch_sizes, np.int64)
    rates, axis = _points(learning_rates, momenta)
    marks = evaluation_steps(max_steps, spacing)
    parts = [loss_parts(g, marks) for g in _grid(model, rates, axis)]
    decay, noise = (np.concatenate(p, axis=1).T for p in zip(*parts, strict=True))
    with np.errstate(invalid="ignore"):
        loss = decay + noise / sizes[:, None, None]
    b, n, k = loss.shape
    columns = {
        "batch_size": np.repeat(sizes, n * k),
        "trial": np.tile(np.repeat(np.arange(n), k), b),
        "step": np.tile(marks, b * n),
        METRIC: loss.ravel(),
    }
    failed = ~(loss[..., -1] <= loss[..., 0])
    return pl.DataFrame(columns), _trials(sizes, failed, max_steps, rates, axis)


def evaluation_steps(max_steps: int, spacing: float) -> NDArray[np.int64]:
    """0, then every step while steps are closer than `spacing` of themselves, then thinned."""
    count = int(np.log(max_steps) / np.log1p(spacing)) + 1
    marks = np.round((1 + spacing) ** np.arange(count)).astype(np.int64)
    return np.unique(np.concatenate([[0], marks, [max_steps]]))


def _trials(
    sizes: NDArray[np.int64], failed: NDArray[np.bool_], max_steps: int, rates: Array, axis: Array
) -> pl.DataFrame:
    b, n = failed.shape
    diverged = pl.col("status") == "infeasible"
    return pl.DataFrame(
        {
            "batch_size": np.repeat(sizes, n),
            "trial": np.tile(np.arange(n), b),
            "status": np.where(failed, "infeasible", "complete").ravel().tolist(),
            "wave": ["initial"] * (b * n),
            "last_step": np.full(b * n, max_steps),
            "learning_rate": np.tile(rates, b),
            "momentum": np.tile(axis, b),
        }
    ).with_columns(reason=pl.when(diverged).then(pl.lit(f"{METRIC} ended above its start")))


def _points(learning_rates: ArrayLike, momenta: ArrayLike) -> tuple[Array, Array]:
    """Learning rate and momentum of each trial; momentum varies slowest."""
    rates, axis = np.asarray(learning_rates, np.float64), np.asarray(momenta, np.float64)
    return np.tile(rates, axis.size), np.repeat(axis, rates.size)


def _grid(model: NoisyQuadratic, rates: Array, axis: Array) -> Iterator[Dynamics]:
    """The points in their order, in chunks that fit the memory."""
    size = max(1, CHUNK // model.dimensions)
    for start in range(0, rates.size, size):
        yield dynamics(model, rates[start : start + size], axis[start : start + size])
