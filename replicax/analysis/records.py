"""What an analysis says: plain, immutable values that a view can draw and JSON can hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["running", "complete", "infeasible", "stopped"]
Scale = Literal["linear", "log", "reverse_log", "integer", "discrete"]


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """One axis of the search space as it stood at the end, widened or not.

    `low` and `high` are values of the hyperparameter itself, whatever the scale.
    """

    name: str
    scale: Scale
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One training run.

    Attributes:
      trial: number within the study; ties between trials go to the smaller one.
      status: `complete` ran its budget or reached the goal, `infeasible` diverged, `stopped` ended
        early because it could not change the result any more.
      reason: why an infeasible trial is infeasible.
      wave: `initial`, `top-up`, or what was widened, e.g. `learning_rate above 1`.
      last_step: last step that was run, in optimizer updates.
      reached: first evaluated step with the metric strictly better than the goal.
      best: best value of the metric over all evaluated steps; None if never finite.
    """

    trial: int
    status: Status
    reason: str | None
    wave: str
    hyperparameters: dict[str, float]
    last_step: int
    reached: int | None
    best: float | None


@dataclass(frozen=True, kw_only=True)
class TrialCounts:
    complete: int
    infeasible: int
    stopped: int


@dataclass(frozen=True, kw_only=True)
class Point:
    """Steps to result of one study, i.e. at one batch size.

    Attributes:
      batch_size: examples per step.
      steps: steps to result, None where no trial reached the goal.
      trial: the trial that owns it.
      value: its metric at that step.
      interval: 90 % interval of `steps`; an end is None where it cannot be known.
      interval_note: why an end is None.
      at_edge: the best trial lies near a bound of the search space that could not be widened away.
      edges: which bounds, e.g. `learning_rate above`.
      best: best value of the metric over all trials and steps.
      trials: how the trials ended.
      runs: every trial, by number.
      space: the search space at the end.
    """

    batch_size: int
    steps: int | None
    trial: int | None
    value: float | None
    interval: tuple[int | None, int | None]
    interval_note: str | None
    at_edge: bool
    edges: tuple[str, ...]
    best: float | None
    trials: TrialCounts
    runs: tuple[Trial, ...]
    space: tuple[Dimension, ...]


@dataclass(frozen=True, kw_only=True)
class Fit:
    """S(B) = S_min (1 + B_crit / B), least squares in log steps (McCandlish et al. 2018).

    Attributes:
      s_min: steps to which S falls as B grows without bound.
      b_crit: batch size, in examples, at which S is twice `s_min`.
      rms_octaves: root mean square residual of log2 steps.
    """

    s_min: float
    b_crit: float
    rms_octaves: float


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number with its 90 % interval, or a refusal (`value` None) with its `reason`."""

    value: float | None
    low: float | None
    high: float | None
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The scaling curve of one workload and what follows from it.

    All four batch sizes are in examples per step; their definitions are in `analysis.scaling`.
    """

    task: str
    optimizer: str
    metric: str
    maximize: bool
    goal: float
    points: tuple[Point, ...]
    fit: Fit | None
    end_of_perfect_scaling: Estimate
    critical_batch_size: Estimate
    overhead_20_batch_size: Estimate
    maximum_useful_batch_size: Estimate
