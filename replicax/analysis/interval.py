"""How far steps to result can be trusted: a bootstrap over trials without Monte Carlo.

Steps to result S are the minimum of N trials' first steps at the goal. The bootstrap draws N trials
with replacement and takes their minimum again. Sort the first steps, S_(1) <= S_(2) <= ...; the
drawn minimum exceeds S_(j) only if all N draws miss the j fastest trials, so

    P(min* <= S_(j)) = 1 - (1 - j/N)^N,

about 1 - exp(-j). Its quantiles are therefore order statistics: the 95 % quantile is S_(3) for
every N >= 4, and only the three fastest trials of a study need to be known. A study that runs until
three trials have reached the goal gives the interval of the study that runs every trial to its end.

A bootstrapped minimum is never below S_(1), so the lower end comes from the resolution instead: the
goal was crossed somewhere after the winner's previous evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replicax.analysis.result import first_reached

MIN_TRIALS = 4
"""With fewer trials the bootstrap draws the same few again and says nothing about others."""


@dataclass(frozen=True)
class Finishers:
    """The trials of one study that reached the goal, in the order of (step, trial).

    Attributes:
      steps: int64 [finishers], first evaluated step better than the goal, ascending.
      previous: int64 [finishers], the evaluated step before it, as in `crossings`.
      n_trials: number of trials, N; all of those that count, diverged ones included.
      last_step: last step that any trial ran.
    """

    steps: NDArray[np.int64]
    previous: NDArray[np.int64]
    n_trials: int
    last_step: int


class Interval(NamedTuple):
    """Both ends in steps; an end is None where it cannot be known, and `note` says why."""

    low: int | None
    high: int | None
    note: str | None


def crossings(
    measurements: pl.DataFrame, goal: float, *, metric: str, maximize: bool = False
) -> pl.DataFrame:
    """Between which evaluations each trial reached the goal.

    Returns:
      columns batch_size, trial, previous, step, sorted by (batch_size, step, trial), a row for
      each trial that reached the goal. `previous` is the last step before `step` at which the
      metric was measured (NaN is a measurement, null is not); without one it is 0, or -1 if the
      goal was reached at step 0.
    """
    reached = first_reached(measurements, goal, metric=metric, maximize=maximize)
    evaluated = measurements.filter(pl.col(metric).is_not_null())
    before = (
        evaluated.select("batch_size", "trial", pl.col("step").alias("previous"))
        .join(reached.select("batch_size", "trial", "step"), on=["batch_size", "trial"])
        .filter(pl.col("previous") < pl.col("step"))
        .group_by("batch_size", "trial")
        .agg(pl.col("previous").max())
    )
    none = pl.when(pl.col("step") == 0).then(-1).otherwise(0)
    return (
        reached.join(before, on=["batch_size", "trial"], how="left")
        .with_columns(pl.col("previous").fill_null(none).cast(pl.Int64))
        .select("batch_size", "trial", "previous", pl.col("step").cast(pl.Int64))
        .sort("batch_size", "step", "trial")
    )


def finishers_needed(n_trials: int, level: float = 0.90) -> int:
    """How many trials must reach the goal before the upper end of the interval is known.

    The smallest j with 1 - (1 - j/N)^N >= (1 + level)/2: at level 0.90 it is 3 for N >= 4. A
    study that stops after that many gives the same row and the same interval as one that does not.
    """
    if n_trials < 1 or not 0 < level < 1:
        raise ValueError(
            f"need n_trials >= 1 and a level in (0, 1); got n_trials={n_trials}, level={level}"
        )
    j = np.arange(1, n_trials + 1)
    return int(j[1 - (1 - j / n_trials) ** n_trials >= (1 + level) / 2][0])


def steps_interval(study: Finishers, level: float = 0.90) -> Interval:
    """The interval of steps to result of one study.

    Args:
      study: the finishers of one batch size.
      level: its coverage, e.g. 0.90.

    Returns:
      low: the step after the winner's previous evaluation. high: S_(k), k = finishers_needed;
      None with fewer finishers or fewer than `MIN_TRIALS` trials.
    """
    if study.steps.size == 0:
        return Interval(None, None, "no trial reached the goal")
    low = int(study.previous[0]) + 1
    if study.n_trials < MIN_TRIALS:
        return Interval(
            low, None, f"{_trials(study.n_trials)}; the upper end needs at least {MIN_TRIALS}"
        )
    needed = finishers_needed(study.n_trials, level)
    if study.steps.size < needed:
        note = (
            f"{study.steps.size} of {study.n_trials} trials reached the goal;"
            f" the upper end needs {needed}"
        )
        return Interval(low, None, note)
    return Interval(low, int(study.steps[needed - 1]), None)


def resample_steps(
    studies: Sequence[Finishers], count: int, *, seed: int, level: float = 0.90
) -> NDArray[np.float64]:
    """Draws steps to result from the bootstrap over trials, each study by itself.

    A rank j is drawn from its exact distribution, then a step uniformly from those after the
    previous evaluation of the trial of that rank, up to its own. Only the `finishers_needed`
    fastest trials, k of them, are used, so that a study that stopped after them gives the same
    draws as one that ran every trial to its end. Ranks beyond (5 % of the draws if all k finished)
    are censored: they get S_(k), or the last step run if fewer than k finished. Censoring makes the
    upper tail too short, never too long.

    Args:
      studies: one for each batch size, each with a finisher.
      count: number of draws.
      seed: any integer >= 0; the draws are a pure function of it.
      level: the level of the interval that the study was run for.

    Returns:
      float64 [count, studies], whole steps.
    """
    rng = np.random.default_rng(seed)
    if not studies:
        return np.empty((count, 0))
    return np.stack([_resample(s, count, rng, level) for s in studies], axis=1)


def _resample(
    study: Finishers, count: int, rng: np.random.Generator, level: float
) -> NDArray[np.float64]:
    if study.steps.size == 0:
        raise ValueError("a study without a finisher has no steps to result to resample")
    n = study.n_trials
    uniform = rng.random((2, count))
    rank = np.ceil(n * (1 - (1 - uniform[0]) ** (1 / n))).clip(1, n).astype(np.int64)
    needed = finishers_needed(n, level)
    known = min(needed, study.steps.size)
    index = np.minimum(rank, known) - 1
    low, high = study.previous[index], study.steps[index]
    drawn = low + np.ceil((1 - uniform[1]) * (high - low))
    last = study.steps[known - 1] if known == needed else study.last_step
    return np.where(rank > known, float(last), drawn)


def _trials(n: int) -> str:
    return f"only {n} trial" + ("s" if n != 1 else "")
