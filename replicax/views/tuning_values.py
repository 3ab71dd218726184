"""The plain values behind a picture of the search: one panel per batch size."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from replicax.analysis.records import Curve, Dimension, Point, Trial
from replicax.views import numerals, wording

Outcome = Literal["reached the goal", "complete", "stopped", "running", "infeasible"]
Vertical = Literal["1 - momentum", "steps", "best"]


class Dot(NamedTuple):
    trial: int
    x: float
    y: float
    outcome: Outcome


class Box(NamedTuple):
    """Bounds of the search space at the end; None where an axis was not searched."""

    x: tuple[float, float] | None
    y: tuple[float, float] | None


class Panel(NamedTuple):
    """One study.

    Attributes:
      title: lines of text.
      vertical: what y is. `steps` is the step at which a trial reached the goal or ended; `best`
        is its best metric, for studies in which no trial reached the goal.
      winner: the trial with the fewest steps to the goal; else the one with the best metric.
    """

    title: tuple[str, ...]
    vertical: Vertical
    dots: tuple[Dot, ...]
    winner: Dot | None
    box: Box


class TuningValues(NamedTuple):
    """All that is drawn, under a title of two lines.

    `x_range` and `y_range` hold every dot and bound; `y_range` is None where panels do not share
    one, that is, without momentum.
    """

    title: tuple[str, str]
    metric: str
    panels: tuple[Panel, ...]
    x_range: tuple[float, float]
    y_range: tuple[float, float] | None


def tuning_values(curve: Curve) -> TuningValues:
    """What a picture of the search shows; trials without a positive learning rate are left out."""
    points = sorted(curve.points, key=lambda point: point.batch_size)
    momentum = any("momentum" in run.hyperparameters for point in points for run in point.runs)
    panels = tuple(_panel(curve, point, momentum) for point in points)
    return TuningValues(
        title=(f"{curve.task}, {curve.optimizer}", f"every trial; goal {wording.goal(curve)}"),
        metric=curve.metric,
        panels=panels,
        x_range=log_range([x for p in panels for x in (*(d.x for d in p.dots), *(p.box.x or ()))]),
        y_range=log_range([y for p in panels for y in (*(d.y for d in p.dots), *(p.box.y or ()))])
        if momentum
        else None,
    )


def log_range(values: list[float]) -> tuple[float, float]:
    """The range of some positive values with a margin, on a logarithmic axis."""
    low, high = (min(values), max(values)) if values else (0.1, 1.0)
    margin = max((high / low) ** 0.06, 1.15)
    return low / margin, high * margin


def _panel(curve: Curve, point: Point, momentum: bool) -> Panel:
    vertical: Vertical = "1 - momentum" if momentum else "best" if point.steps is None else "steps"
    dots = tuple(dot for run in point.runs if (dot := _dot(run, vertical)) is not None)
    winner = point.trial if point.trial is not None else _best_trial(curve, point)
    bounds = {dimension.name: dimension for dimension in point.space}
    return Panel(
        title=_title(point),
        vertical=vertical,
        dots=dots,
        winner=next((dot for dot in dots if dot.trial == winner), None),
        box=Box(
            _bounds(bounds.get("learning_rate")),
            _mirrored(bounds.get("momentum")) if momentum else None,
        ),
    )


def _title(point: Point) -> tuple[str, ...]:
    lines = [f"batch size {numerals.count(point.batch_size)}: {wording.steps(point)}"]
    if point.at_edge:
        lines.append(f"at edge: {', '.join(point.edges)}" if point.edges else "at edge")
    return tuple(lines)


def _dot(run: Trial, vertical: Vertical) -> Dot | None:
    x = run.hyperparameters.get("learning_rate")
    y = _height(run, vertical)
    if x is None or y is None or not (_drawable(x) and _drawable(y)):
        return None
    outcome: Outcome = "reached the goal" if run.reached is not None else run.status
    return Dot(run.trial, x, y, outcome)


def _height(run: Trial, vertical: Vertical) -> float | None:
    if vertical == "1 - momentum":
        return 1 - run.hyperparameters.get("momentum", 0.0)
    if vertical == "steps":
        return float(run.reached if run.reached is not None else run.last_step)
    return run.best


def _drawable(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _best_trial(curve: Curve, point: Point) -> int | None:
    sign = -1 if curve.maximize else 1
    scored = [(sign * run.best, run.trial) for run in point.runs if run.best is not None]
    return min(scored)[1] if scored else None


def _bounds(dimension: Dimension | None) -> tuple[float, float] | None:
    if dimension is None or not (_drawable(dimension.low) and _drawable(dimension.high)):
        return None
    return dimension.low, dimension.high


def _mirrored(dimension: Dimension | None) -> tuple[float, float] | None:
    if dimension is None or not (_drawable(1 - dimension.high) and _drawable(1 - dimension.low)):
        return None
    return 1 - dimension.high, 1 - dimension.low
