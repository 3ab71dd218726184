"""A log-log chart of a curve from characters: braille dots, or ASCII where nothing else prints."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple, TextIO

from replicax.analysis.records import Curve
from replicax.views import numerals
from replicax.views.curve_values import CurveValues, Line, curve_values

_HEIGHT = 18  # lines of the plot itself
_MARGIN = 10  # characters left of the axis
_BRAILLE = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # bit of a dot, [row][column]


class Signs(NamedTuple):
    """Characters of a chart; a cell of lines holds `dots` = (columns, rows) dots."""

    dots: tuple[int, int]
    measured: str
    at_edge: str
    missed: str
    ideal: str
    fit: str
    axes: tuple[str, str, str, str, str]  # horizontal, vertical, corner, tick on x, tick on y


UNICODE = Signs((2, 4), "●", "○", "x", "⠂⠐", "⠤⠤", ("─", "│", "└", "┬", "┤"))
ASCII = Signs((1, 1), "@", "O", "x", "..", "--", ("-", "|", "+", "+", "+"))


def print_chart(curve: Curve, stream: TextIO) -> None:
    """Prints the chart as wide as the terminal, in what the stream can encode."""
    width = min(shutil.get_terminal_size().columns, 100) if stream.isatty() else 80
    stream.write(chart(curve, width=width, signs=signs_for(stream.encoding)) + "\n")


def signs_for(encoding: str | None) -> Signs:
    """The signs that an encoding can write."""
    try:
        "".join((UNICODE.measured, UNICODE.at_edge, *UNICODE.axes, "⣿")).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def chart(curve: Curve, *, width: int = 80, height: int = _HEIGHT, signs: Signs = UNICODE) -> str:
    """Steps against batch size, both on log2 scales, with ideal scaling and the fit."""
    values = curve_values(curve)
    if not values.marks and not values.missed:
        return "nothing to draw: no batch size has a result"
    plot = _Plot(values, max(width - _MARGIN - 2, 20), height, signs)
    if values.ideal:
        plot.line(values.ideal, signs.ideal, dashed=True)
    if values.fit:
        plot.line(values.fit, signs.fit, dashed=False)
    for mark in values.marks:
        plot.put(mark.batch_size, mark.steps, signs.at_edge if mark.at_edge else signs.measured)
    for batch_size in values.missed:
        plot.put(batch_size, values.steps_range[1], signs.missed)
    return "\n".join(line.rstrip() for line in (*plot.lines(), "", *_legend(values, signs, width)))


class _Plot:
    """A grid of characters over two logarithmic axes."""

    def __init__(self, values: CurveValues, width: int, height: int, signs: Signs) -> None:
        self._x_range, self._y_range = values.batch_range, values.steps_range
        self._width, self._height, self._signs = width, height, signs
        self._cells = [[" "] * width for _ in range(height)]

    def put(self, batch_size: float, steps: float, sign: str) -> None:
        """Puts one sign on top of all else."""
        column, row = self._place(batch_size, steps, (1, 1))
        if 0 <= row < self._height and 0 <= column < self._width:
            self._cells[row][column] = sign

    def line(self, line: Line, sign: str, *, dashed: bool) -> None:
        """Draws straight pieces between the points of a line."""
        columns, rows = self._signs.dots
        at = [self._place(x, y, self._signs.dots) for x, y in zip(*line, strict=True)]
        for (x0, y0), (x1, y1) in pairwise(at):
            for x in range(x0, x1 + 1):
                y = round(y0 + (y1 - y0) * (x - x0) / max(x1 - x0, 1))
                row, column = y // rows, x // columns
                hidden = dashed and x % (2 * columns) >= columns
                if hidden or not (0 <= row < self._height and 0 <= column < self._width):
                    continue
                bit = _BRAILLE[y % rows][x % columns]
                self._cells[row][column] = (
                    sign[0] if columns == 1 else _add_dot(self._cells[row][column], bit)
                )

    def _place(self, x: float, y: float, dots: tuple[int, int]) -> tuple[int, int]:
        """Column and row, counted in dots from the upper left corner."""
        columns, rows = self._width * dots[0] - 1, self._height * dots[1] - 1
        return (
            round(_share(x, self._x_range) * columns),
            round((1 - _share(y, self._y_range)) * rows),
        )

    def lines(self) -> list[str]:
        """The plot with its axes and labels."""
        horizontal, vertical, corner, x_tick, y_tick = self._signs.axes
        y_ticks = self._ticks(
            self._y_range, self._height // 3, lambda tick: self._place(1, tick, (1, 1))[1]
        )
        lines = [f"{'steps':>{_MARGIN - 1}}"]
        for row, cells in enumerate(self._cells):
            label = y_ticks.get(row, "")
            axis = y_tick if label else vertical
            lines.append(f"{label:>{_MARGIN - 1}} {axis}{''.join(cells)}")
        x_ticks = self._ticks(
            self._x_range, self._width // 9, lambda tick: self._place(tick, 1, (1, 1))[0]
        )
        axis = "".join(x_tick if i in x_ticks else horizontal for i in range(self._width))
        lines.append(f"{'':{_MARGIN}}{corner}{axis}")
        labels = [" "] * (self._width + _MARGIN + 8)
        for column, label in x_ticks.items():
            start = _MARGIN + 1 + column - (len(label) - 1) // 2
            labels[start : start + len(label)] = label
        return [*lines, "".join(labels), "batch size (examples per step)".center(len(labels))]

    def _ticks(
        self, extent: tuple[float, float], at_most: int, place: Callable[[float], int]
    ) -> dict[int, str]:
        ticks = numerals.power_ticks(*extent, at_most=max(at_most, 2))
        return {place(tick): _label(tick) for tick in ticks}


def _add_dot(cell: str, bit: int) -> str:
    present = ord(cell) - 0x2800 if 0x2800 <= ord(cell) < 0x2900 else 0
    return chr(0x2800 + (present | bit))


def _share(value: float, extent: tuple[float, float]) -> float:
    low, high = extent
    return math.log2(value / low) / math.log2(high / low)


def _label(tick: float) -> str:
    return f"{tick:,.0f}" if 1 <= tick < 2**17 else f"2^{round(math.log2(tick))}"


def _legend(values: CurveValues, signs: Signs, width: int) -> list[str]:
    """What the signs mean, those that occur, as many on a line as fit."""
    edges = {mark.at_edge for mark in values.marks}
    entries = [
        (False in edges, f"{signs.measured} measured"),
        (True in edges, f"{signs.at_edge} best trial at an edge"),
        (bool(values.missed), f"{signs.missed} goal not reached"),
        (values.ideal is not None, f"{signs.ideal} ideal: batch doubles, steps halve"),
        (values.fit is not None, f"{signs.fit} {values.fit_label}"),
    ]
    lines = [""]
    for text in (text for present, text in entries if present):
        longer = f"{lines[-1]}   {text}" if lines[-1] else text
        if len(longer) > width:
            lines.append(text)
        else:
            lines[-1] = longer
    return lines
