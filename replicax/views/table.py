"""The result of a scaling study as tables and one plain statement, in a terminal or a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from replicax.analysis.records import Curve, Point
from replicax.views import numerals, wording

_PIPED_WIDTH = 100


def report_console(stream: TextIO) -> Console:
    """A console for a stream: as wide as the terminal, or plain and of fixed width in a pipe."""
    return Console(
        file=stream,
        width=None if stream.isatty() else _PIPED_WIDTH,
        highlight=False,
        emoji=False,
        markup=False,
    )


def print_report(curve: Curve, console: Console) -> None:
    """Prints what was measured, which trials won, the four batch sizes and what they mean."""
    if console.is_terminal:
        _print(curve, console)
        return
    with console.capture() as capture:  # a pipe gets no padding at the ends of its lines
        _print(curve, console)
    lines = (line.rstrip() for line in capture.get().splitlines())
    console.file.write("\n".join(lines) + "\n")


def _print(curve: Curve, console: Console) -> None:
    title = f"{curve.task}, {curve.optimizer}, goal {wording.goal(curve)}"
    console.print(Text(printable(title, console), style="bold"))
    console.print(_spaced(steps_table(curve)))
    for note in _notes(curve):
        console.print(Text(printable(note, console)))
    if any(point.trial is not None for point in curve.points):
        console.print(_spaced(winners_table(curve)))
    console.print(_spaced(estimates_table(curve, console)))
    if curve.fit is not None:
        console.print(
            f"Fit: steps = {wording.hyperbola(curve.fit, 'batch size')}, off by "
            f"{curve.fit.rms_octaves:.2f} octaves (root mean square)."
        )
    console.print()
    console.print(Text(printable(wording.summary(curve), console), style="bold"))


def steps_table(curve: Curve) -> Table:
    """Per batch size: steps to result, their interval, examples, best metric, how trials ended."""
    table = _table("Steps to result")
    headers = ("batch\nsize", "steps", "90 % interval", "examples", "best")
    for header in (*headers, "complete /\ninfeasible /\nstopped"):
        table.add_column(header, justify="right", overflow="fold")
    table.add_column("edge", overflow="fold")
    for point in _sorted(curve):
        steps, ended = point.steps, point.trials
        table.add_row(
            numerals.count(point.batch_size),
            wording.steps(point).removesuffix(" steps").removeprefix("goal "),
            wording.interval(*point.interval),
            numerals.count(None if steps is None else steps * point.batch_size),
            numerals.significant(point.best),
            f"{ended.complete} / {ended.infeasible} / {ended.stopped}",
            "yes" if point.at_edge else "",
        )
    return table


def winners_table(curve: Curve) -> Table:
    """Per batch size: the trial that owns the result and its hyperparameters."""
    winners = [(point, winning(point)) for point in _sorted(curve)]
    found = [(point, h) for point, h in winners if h is not None]
    names = {name: None for _, h in found for name in h}
    others = [name for name in names if name not in ("learning_rate", "momentum")]
    table = _table("Winning trials")
    headers = ["batch\nsize", "trial"]
    if "learning_rate" in names:
        headers.append("learning\nrate")
    if "momentum" in names:
        headers += ["momentum", "1 - momentum"]
    if {"learning_rate", "momentum"} <= set(names):
        headers.append("effective\nlearning rate")
    for header in [*headers, *(name.replace("_", " ") for name in others)]:
        table.add_column(header, justify="right", overflow="fold")
    for point, h in found:
        cells = [numerals.count(point.batch_size), numerals.count(point.trial)]
        if "learning_rate" in names:
            cells.append(numerals.significant(h.get("learning_rate")))
        if "momentum" in names:
            momentum = h.get("momentum")
            cells.append(numerals.momentum(momentum))
            cells.append(numerals.significant(None if momentum is None else 1 - momentum, 2))
        if {"learning_rate", "momentum"} <= set(names):
            cells.append(numerals.significant(effective_learning_rate(h)))
        table.add_row(*cells, *(numerals.significant(h.get(name), 4) for name in others))
    return table


def estimates_table(curve: Curve, console: Console) -> Table:
    """The four batch sizes that follow from the curve, or why they do not."""
    table = _table("What follows, in examples per step")
    table.add_column("estimate", no_wrap=True)
    table.add_column("batch size", overflow="fold")
    for name, label in wording.ESTIMATES.items():
        table.add_row(label, printable(wording.estimate(getattr(curve, name)), console))
    return table


def winning(point: Point) -> dict[str, float] | None:
    """Hyperparameters of the trial that owns the result of a point."""
    if point.trial is None:
        return None
    return next((run.hyperparameters for run in point.runs if run.trial == point.trial), None)


def effective_learning_rate(hyperparameters: dict[str, float]) -> float | None:
    """learning_rate / (1 - momentum) (Shallue et al. 2019, section 4.7)."""
    rate, momentum = (hyperparameters.get(name) for name in ("learning_rate", "momentum"))
    if rate is None or momentum is None or momentum >= 1:
        return None
    return rate / (1 - momentum)


def printable(text: str, console: Console) -> str:
    """The text without what the console's stream cannot encode."""
    encoding = console.encoding or "ascii"
    return text.encode(encoding, "replace").decode(encoding)


def _notes(curve: Curve) -> Iterator[str]:
    """What stands behind the marks in the table of steps, each reason once."""
    reasons: dict[str, list[str]] = {}
    for point in _sorted(curve):
        batch_size = numerals.count(point.batch_size)
        if point.at_edge:
            reasons.setdefault(f"edge: {wording.edge_note(point)}", []).append(batch_size)
        if point.interval_note:
            reasons.setdefault(f"interval: {point.interval_note}", []).append(batch_size)
    for reason, batch_sizes in reasons.items():
        everywhere = len(batch_sizes) == len(curve.points) > 1
        where = (
            "every batch size" if everywhere else f"batch size {numerals.comma_list(batch_sizes)}"
        )
        yield f"At {where}, {reason}."


def _sorted(curve: Curve) -> list[Point]:
    return sorted(curve.points, key=lambda point: point.batch_size)


def _table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="",
        header_style="",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )


def _spaced(table: Table) -> Padding:
    return Padding(table, (1, 0, 0, 0))
