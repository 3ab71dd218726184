"""What a curve says, in words: built only from what is known."""

from __future__ import annotations

from replicax.analysis.records import Curve, Estimate, Fit, Point
from replicax.views import numerals

ESTIMATES = {
    "end_of_perfect_scaling": "end of perfect scaling",
    "critical_batch_size": "critical batch size",
    "overhead_20_batch_size": "20 % overhead batch size",
    "maximum_useful_batch_size": "maximum useful batch size",
}


def goal(curve: Curve) -> str:
    """The goal as a condition: `validation_error < 0.1`."""
    return f"{curve.metric} {'>' if curve.maximize else '<'} {curve.goal:g}"


def interval(low: float | None, high: float | None) -> str:
    """A 90 % interval; an end that cannot be known is a question mark."""
    ends = [numerals.examples_per_step(end) if end is not None else "?" for end in (low, high)]
    return numerals.MISSING if ends == ["?", "?"] else " to ".join(ends)


def estimate(value: Estimate) -> str:
    """`410 (90 %: 300 to 560)`, or the refusal and its reason."""
    if value.value is None:
        return f"refused: {value.reason or 'no reason recorded'}"
    text = numerals.examples_per_step(value.value)
    if value.low is not None or value.high is not None:
        text += f" (90 %: {interval(value.low, value.high)})"
    return f"{text}; {value.reason}" if value.reason else text


def hyperbola(fit: Fit, batch_size: str) -> str:
    """The fitted curve as a formula."""
    s_min, b_crit = numerals.significant(fit.s_min), numerals.significant(fit.b_crit)
    return f"{s_min} (1 + {b_crit} / {batch_size})"


def unfinished(point: Point) -> bool:
    """Whether trials still run and none has reached the goal yet."""
    return point.steps is None and any(run.status == "running" for run in point.runs)


def missed(point: Point) -> bool:
    """Whether the study ended without a result."""
    return point.steps is None and not unfinished(point)


def steps(point: Point) -> str:
    """Steps to result, or why there are none."""
    if point.steps is not None:
        return f"{numerals.count(point.steps)} steps"
    return "not finished" if unfinished(point) else "goal not reached"


def summary(curve: Curve) -> str:
    """What the curve means for someone who has to choose a batch size."""
    solved = [point for point in curve.points if point.steps is not None]
    if not curve.points:
        return "Nothing was measured yet."
    if not solved and all(missed(point) for point in curve.points):
        return (
            f"No trial reached {goal(curve)} at any batch size, so nothing can be said about "
            "scaling; more steps, an easier goal or other bounds may help."
        )
    sentences = _scaling(curve, solved) if solved else []
    for verdict, points in (
        ("The goal was not reached", [point for point in curve.points if missed(point)]),
        ("The study is not finished", [point for point in curve.points if unfinished(point)]),
    ):
        if points:
            sizes = [numerals.count(point.batch_size) for point in points]
            sentences.append(f"{verdict} at batch size {numerals.comma_list(sizes)}.")
    return " ".join(sentences)


def edge_note(point: Point) -> str:
    """Why the result at an edge may not be the best one."""
    where = f" ({numerals.comma_list(point.edges)})" if point.edges else ""
    return (
        f"the best trial lies at the edge of the search space{where}: "
        "fewer steps may be possible beyond it"
    )


def _scaling(curve: Curve, solved: list[Point]) -> list[str]:
    end, useful = curve.end_of_perfect_scaling, curve.maximum_useful_batch_size
    said = []
    if end.value is None or useful.value is None:
        said.append(_fall(solved))
    if end.value is None and useful.value is None and end.reason == useful.reason:
        text = "Neither where perfect scaling ends nor where larger batches stop helping is known"
        return [*said, f"{text}: {_reason(end)}."]
    if end.value is None:
        said.append(f"Where perfect scaling ends is not known: {_reason(end)}.")
    else:
        said.append(
            f"Perfect scaling ends near batch size {_with_interval(end)}: "
            "up to there, doubling the batch about halves the steps."
        )
    if end.value is not None and useful.value is not None and end.value < useful.value:
        said.append("After that each doubling still saves steps, but less and less.")
    if useful.value is None:
        said.append(f"Where larger batches stop helping is not known: {_reason(useful)}.")
    else:
        said.append(
            f"Beyond batch size {_with_interval(useful)} more examples per step buy next to "
            "nothing."
        )
    return said


def _fall(solved: list[Point]) -> str:
    """The plain fact that holds without any fit."""
    first = min(solved, key=lambda point: point.batch_size)
    last = max(solved, key=lambda point: point.batch_size)
    start = f"{numerals.count(first.steps)} steps at batch size {numerals.count(first.batch_size)}"
    if first is last:
        return f"The goal took {start}."
    ratio = numerals.significant(last.batch_size / first.batch_size, 2)
    return (
        f"The goal took {start} and {numerals.count(last.steps)} at "
        f"{numerals.count(last.batch_size)}, {ratio} times the batch."
    )


def _with_interval(known: Estimate) -> str:
    text = numerals.examples_per_step(known.value)
    if known.low is None and known.high is None:
        return text
    return f"{text} (90 %: {interval(known.low, known.high)})"


def _reason(refused: Estimate) -> str:
    return (refused.reason or "no reason recorded").rstrip(".")
