"""curve.png: steps to result against batch size (Shallue et al. 2019, figure 1, with regimes)."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from replicax.analysis.records import Curve
from replicax.views import numerals, picture
from replicax.views.curve_values import CurveValues, Regime, curve_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (8.0, 6.0)  # inches
_SHADES: dict[Regime, str] = {  # one hue, darker to the right, so that grey prints differ too
    "perfect scaling": "#e4eef8",
    "diminishing returns": "#c9d8e8",
    "maximal data parallelism": "#a9bdd4",
}
_LABEL_WIDTHS: dict[Regime, float] = {  # of the name on two lines, as a share of the axes
    "perfect scaling": 0.10,
    "diminishing returns": 0.15,
    "maximal data parallelism": 0.16,
}
_OPEN_END = 1.6  # factor by which an arrow stands for an unknown end


def write_curve(curve: Curve, path: Path | str) -> None:
    """Writes the picture of a curve."""
    values = curve_values(curve)
    picture.write_png(lambda figure: draw_curve(figure, values), path)


def draw_curve(figure: Figure, values: CurveValues) -> None:
    """Draws the values of a curve on an empty figure."""
    figure.set_size_inches(*_SIZE)
    axes = figure.add_subplot()
    _axes(axes, values)
    _regimes(axes, values)
    _marks(axes, values)
    _intervals(axes, values)
    _lines(axes, values)
    _border_intervals(axes, values)
    title = "\n".join(line for part in values.title for line in textwrap.wrap(part, 78))
    figure.suptitle(title, fontsize=11, parse_math=False)
    picture.legend(figure)


def _axes(axes: Axes, values: CurveValues) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xlim(*values.batch_range)
    axes.set_ylim(*values.steps_range)
    for axis, extent, longest in (
        (axes.xaxis, values.batch_range, 2**17),
        (axes.yaxis, values.steps_range, 2**24),
    ):
        ticks = numerals.power_ticks(*extent, at_most=10)
        picture.log_axis(axis, ticks, _power_label(ticks, longest))
    axes.grid(color="black", alpha=0.08, linewidth=0.6)
    axes.set_axisbelow(True)
    notes = [line for note in values.refusals for line in textwrap.wrap(f"({note})", 105)]
    axes.set_xlabel("\n".join(["batch size (examples per step)", *notes]), parse_math=False)
    axes.set_ylabel("steps to result")
    if notes:
        axes.xaxis.label.set_fontsize(9)


def _power_label(ticks: list[float], longest: int) -> numerals.Label:
    """Plain numbers if all are below `longest`, otherwise powers of two throughout."""
    if ticks and (ticks[-1] >= longest or ticks[0] < 1):
        return lambda tick: f"$2^{{{round(math.log2(tick))}}}$"
    return lambda tick: f"{tick:,.0f}"


def _regimes(axes: Axes, values: CurveValues) -> None:
    """Shades the regimes and names them in a strip above, each on its own shade."""
    for band in values.bands:
        axes.axvspan(band.low, band.high, color=_SHADES[band.regime], linewidth=0, zorder=0)
    for border in values.borders:
        axes.axvline(border.batch_size, color="0.45", linewidth=0.8, zorder=1)
    to_share = axes.transScale.transform
    (left, _), (right, _) = (to_share((x, 1)) for x in values.batch_range)
    centres = [
        (to_share(((band.low * band.high) ** 0.5, 1))[0] - left) / (right - left)
        for band in values.bands
    ]
    widths = [_LABEL_WIDTHS[band.regime] for band in values.bands]
    for band, x in zip(values.bands, spread(centres, widths), strict=True):
        axes.text(
            x,
            1.02,
            "\n".join(textwrap.wrap(band.regime, 13)),
            transform=axes.transAxes,
            ha="center",
            va="bottom",
            fontsize=9,
            bbox={"facecolor": _SHADES[band.regime], "linewidth": 0, "pad": 2.5},
        )


def _border_intervals(axes: Axes, values: CurveValues) -> None:
    """A bar near the bottom for the 90 % interval of a border."""
    for border, y in zip(values.borders, (0.03, 0.06), strict=False):
        if (border.low, border.high) == (None, None):
            continue
        for end, factor, arrow in ((border.low, 1 / _OPEN_END, "<"), (border.high, _OPEN_END, ">")):
            known = end is not None
            axes.plot(
                [border.batch_size, end if end is not None else border.batch_size * factor],
                [y, y],
                color="0.25",
                linewidth=1.2,
                linestyle="-" if known else ":",
                marker="|" if known else arrow,
                markevery=[1],
                markersize=7 if known else 5,
                transform=axes.get_xaxis_transform(),
                label="border of regimes, 90 % interval" if known else None,
            )


def spread(centres: list[float], widths: list[float]) -> list[float]:
    """Moves labels of given widths apart, keeping their order and keeping all within 0..1."""
    placed: list[float] = []
    edge = 0.0
    for centre, width in zip(centres, widths, strict=True):
        placed.append(max(centre, edge + width / 2))
        edge = placed[-1] + width / 2
    edge = 1.0
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], edge - widths[i] / 2)
        edge = placed[i] - widths[i] / 2
    return placed


def _lines(axes: Axes, values: CurveValues) -> None:
    if values.ideal:
        label = "ideal: batch doubles, steps halve"
        axes.plot(*values.ideal, "--", color="0.25", linewidth=1.2, label=label, zorder=2)
    if values.fit:
        axes.plot(*values.fit, "-", color="#e07b39", alpha=0.6, linewidth=4, label=values.fit_label)


def _intervals(axes: Axes, values: CurveValues) -> None:
    """Bars with caps; an end that cannot be known is an arrow."""
    for mark in values.marks:
        for end, factor, arrow in ((mark.low, 1 / _OPEN_END, "v"), (mark.high, _OPEN_END, "^")):
            if (mark.low, mark.high) == (None, None) or end == mark.steps:
                continue
            known = end is not None
            axes.plot(
                [mark.batch_size] * 2,
                [mark.steps, end or mark.steps * factor],
                color="black",
                linewidth=1.0,
                linestyle="-" if known else ":",
                marker="_" if known else arrow,
                markevery=[1],
                markersize=7 if known else 5,
                markerfacecolor="white",
                zorder=3,
                label="90 % interval" if known else "90 % interval, end unknown",
            )


def _marks(axes: Axes, values: CurveValues) -> None:
    """Measured points, joined by a thin line; flagged ones open; missing ones at the top."""
    batch, steps = [m.batch_size for m in values.marks], [m.steps for m in values.marks]
    axes.plot(batch, steps, color="black", linewidth=0.8, zorder=3)
    for at_edge, face, label in (
        (False, "black", "measured"),
        (True, "white", "best trial at an edge of the space"),
    ):
        chosen = [mark for mark in values.marks if mark.at_edge == at_edge]
        if chosen:
            axes.plot(
                [mark.batch_size for mark in chosen],
                [mark.steps for mark in chosen],
                "^",
                color="black",
                markerfacecolor=face,
                markersize=8,
                label=label,
                zorder=4,
            )
    if values.missed:
        axes.plot(
            values.missed,
            [0.97] * len(values.missed),
            "x",
            transform=axes.get_xaxis_transform(),
            color="black",
            markersize=8,
            markeredgewidth=1.8,
            label="goal not reached",
        )
    if not values.marks:
        text = "no batch size reached the goal" if values.missed else "nothing was measured yet"
        axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center")
