"""The plain values behind a picture of a scaling curve, on paper or in the terminal."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from replicax.analysis.records import Curve, Point
from replicax.views import wording

Regime = Literal["perfect scaling", "diminishing returns", "maximal data parallelism"]

_SAMPLES = 100  # of the fitted line
_FOOT = 0.07  # share of the height kept free below the marks, for the intervals of the borders


class Mark(NamedTuple):
    """A measured point and the 90 % interval of its steps; an end is None if unknown."""

    batch_size: int
    steps: int
    low: int | None
    high: int | None
    at_edge: bool


class Line(NamedTuple):
    batch_size: tuple[float, ...]
    steps: tuple[float, ...]


class Band(NamedTuple):
    """A range of batch sizes in one regime."""

    regime: Regime
    low: float
    high: float


class Border(NamedTuple):
    """Where one regime passes into the next, with its 90 % interval."""

    batch_size: float
    low: float | None
    high: float | None


class CurveValues(NamedTuple):
    """All that is drawn.

    Attributes:
      marks: points with a result of at least one step, by batch size.
      missed: batch sizes at which no trial reached the goal; unfinished studies are not among them.
      ideal: perfect scaling, `steps[0] * batch_size[0] / B`, from the first mark on.
      fit: the fitted curve, over the batch sizes of the marks.
      fit_label: the fit as a formula.
      bands, borders: the regimes as far as they are known; what was refused is not shaded.
      refusals: why a border is missing.
      batch_range, steps_range: extent of the axes, both on log2 scales.
      title: workload and goal, one line each.
    """

    marks: tuple[Mark, ...]
    missed: tuple[int, ...]
    ideal: Line | None
    fit: Line | None
    fit_label: str
    bands: tuple[Band, ...]
    borders: tuple[Border, ...]
    refusals: tuple[str, ...]
    batch_range: tuple[float, float]
    steps_range: tuple[float, float]
    title: tuple[str, str]


def curve_values(curve: Curve) -> CurveValues:
    """What a picture of the curve shows."""
    points = sorted(curve.points, key=lambda point: point.batch_size)
    marks = tuple(Mark(p.batch_size, p.steps, *p.interval, p.at_edge) for p in points if p.steps)
    batch_range = _padded([float(point.batch_size) for point in points], octaves=0.5)
    bands, borders = _regimes(curve, batch_range) if marks else ((), ())
    return CurveValues(
        marks=marks,
        missed=tuple(point.batch_size for point in points if wording.missed(point)),
        ideal=_ideal(marks, batch_range[1]),
        fit=_fit(curve, marks),
        fit_label=_fit_label(curve),
        bands=bands,
        borders=borders,
        refusals=_refusals(curve),
        batch_range=batch_range,
        steps_range=_steps_range(marks, points),
        title=(f"{curve.task}, {curve.optimizer}", f"steps to {wording.goal(curve)}"),
    )


def _ideal(marks: tuple[Mark, ...], until: float) -> Line | None:
    if not marks:
        return None
    first = marks[0]
    return Line(
        (float(first.batch_size), until),
        (float(first.steps), first.steps * first.batch_size / until),
    )


def _fit(curve: Curve, marks: tuple[Mark, ...]) -> Line | None:
    if curve.fit is None or len(marks) < 2:
        return None
    low, high = math.log2(marks[0].batch_size), math.log2(marks[-1].batch_size)
    batch = tuple(2 ** (low + (high - low) * i / (_SAMPLES - 1)) for i in range(_SAMPLES))
    s_min, b_crit = curve.fit.s_min, curve.fit.b_crit
    return Line(batch, tuple(s_min * (1 + b_crit / b) for b in batch))


def _fit_label(curve: Curve) -> str:
    if curve.fit is None:
        return ""
    return f"fit {wording.hyperbola(curve.fit, 'B')}"


def _regimes(
    curve: Curve, extent: tuple[float, float]
) -> tuple[tuple[Band, ...], tuple[Border, ...]]:
    """Bands between known borders; nothing where the two borders contradict each other.

    Where no plateau is shown, returns diminish up to the last batch size.
    """
    end, useful = curve.end_of_perfect_scaling, curve.maximum_useful_batch_size
    low, high = extent
    spans: list[tuple[Regime, float | None, float | None]] = [
        ("perfect scaling", low, _smaller(end.value, useful.value)),
        ("diminishing returns", end.value, high if useful.value is None else useful.value),
        ("maximal data parallelism", _larger(end.value, useful.value), high),
    ]
    bands = tuple(
        Band(regime, max(start, low), min(stop, high))
        for regime, start, stop in spans
        if start is not None and stop is not None and max(start, low) < min(stop, high)
    )
    borders = tuple(
        Border(known.value, known.low, known.high)
        for known in (end, useful)
        if known.value is not None and low < known.value < high
    )
    return bands, borders


def _smaller(end: float | None, useful: float | None) -> float | None:
    return end if end is None or useful is None else min(end, useful)


def _larger(end: float | None, useful: float | None) -> float | None:
    return useful if end is None or useful is None else max(end, useful)


def _refusals(curve: Curve) -> tuple[str, ...]:
    end, useful = curve.end_of_perfect_scaling, curve.maximum_useful_batch_size
    if end.value is None and useful.value is None and end.reason == useful.reason:
        return (f"borders of the regimes {wording.estimate(end)}",)
    named = (("end of perfect scaling", end), ("maximum useful batch size", useful))
    return tuple(
        f"{name} {wording.estimate(value)}" for name, value in named if value.value is None
    )


def _steps_range(marks: tuple[Mark, ...], points: list[Point]) -> tuple[float, float]:
    """Holds the marks and their intervals; where there are none, the steps that were run."""
    if marks:
        ends = [float(end) for m in marks for end in (m.low, m.steps, m.high) if end]
        low, high = _padded(ends, octaves=1.0)
        return low / (high / low) ** _FOOT, high
    run = [float(trial.last_step) for point in points for trial in point.runs if trial.last_step]
    return _padded(run, octaves=1.0)


def _padded(values: list[float], octaves: float) -> tuple[float, float]:
    """The range of some positive values, widened on both sides, at least two octaves in all."""
    low, high = (min(values), max(values)) if values else (1.0, 1.0)
    missing = max(2 - math.log2(high / low) - 2 * octaves, 0) / 2
    factor = 2 ** (octaves + missing)
    return low / factor, high * factor
