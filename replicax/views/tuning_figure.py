"""tuning.png: where in the search space trials reached the goal (Shallue et al. 2019, figure 9)."""

from __future__ import annotations

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicax.analysis.records import Curve
from replicax.views import numerals, picture
from replicax.views.tuning_values import (
    Outcome,
    Panel,
    TuningValues,
    Vertical,
    log_range,
    tuning_values,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL = (3.2, 2.7)  # inches
_MARKERS: dict[Outcome, dict[str, Any]] = {  # drawn in this order
    "infeasible": {"marker": "x", "color": "black", "markersize": 5, "markeredgewidth": 1.0},
    "stopped": {"marker": "v", "color": "0.5", "markerfacecolor": "white", "markersize": 5},
    "complete": {"marker": "^", "color": "#a63d2f", "markersize": 5.5},
    "running": {"marker": ".", "color": "0.4", "markersize": 4},
    "reached the goal": {"marker": "o", "color": "#2b6cb0", "markersize": 6},
}
_LABELS: dict[Outcome, str] = {
    "infeasible": "infeasible",
    "stopped": "stopped, could not win any more",
    "complete": "complete, goal not reached",
    "running": "not finished",
    "reached the goal": "reached the goal",
}
_BEST, _BOUNDS = "best trial", "bounds of the search space"
_VERTICAL_LABELS: dict[Vertical, str] = {
    "1 - momentum": "1 - momentum",
    "steps": "steps to goal or to end",
    "best": "best {metric}",
}


def write_tuning(curve: Curve, path: Path | str) -> None:
    """Writes the picture of the search."""
    values = tuning_values(curve)
    picture.write_png(lambda figure: draw_tuning(figure, values), path)


def draw_tuning(figure: Figure, values: TuningValues) -> None:
    """Draws the values of a search on an empty figure."""
    number = max(len(values.panels), 1)
    columns = grid_columns(number)
    rows = math.ceil(number / columns)
    figure.set_size_inches(max(_PANEL[0] * columns, 6.4), _PANEL[1] * rows + 1.2)
    for i, panel in enumerate(values.panels):
        axes = figure.add_subplot(rows, columns, i + 1)
        _panel(axes, panel, values)
        if i + columns >= number:
            axes.set_xlabel("learning rate")
        if i % columns == 0 or panel.vertical != "1 - momentum":
            axes.set_ylabel(
                textwrap.shorten(_VERTICAL_LABELS[panel.vertical].format(metric=values.metric), 40),
                parse_math=False,
            )
    if not values.panels:
        figure.text(0.5, 0.5, "nothing was measured yet", ha="center")
    width = int(figure.get_size_inches()[0] * 11)
    title = "\n".join(line for part in values.title for line in textwrap.wrap(part, width))
    figure.suptitle(title, fontsize=11, parse_math=False)
    picture.legend(figure, order=[*reversed(_LABELS.values()), _BEST, _BOUNDS])


def grid_columns(panels: int) -> int:
    """Columns of a grid that is about as wide as high, at most four."""
    return panels if panels <= 3 else min(math.ceil(math.sqrt(panels)), 4)


def _panel(axes: Axes, panel: Panel, values: TuningValues) -> None:
    heights = [dot.y for dot in panel.dots] + list(panel.box.y or ())
    y_range = values.y_range or log_range(heights)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*values.x_range)
    axes.set_ylim(*y_range)
    picture.log_axis(axes.xaxis, numerals.decimal_ticks(*values.x_range, 5), _tick)
    picture.log_axis(axes.yaxis, numerals.decimal_ticks(*y_range, 5), _tick)
    axes.tick_params(labelsize=8)
    lines = [line for text in panel.title for line in textwrap.wrap(text, 38)]
    axes.set_title("\n".join(lines), fontsize=9, parse_math=False)
    if panel.vertical == "1 - momentum":
        _effective_rates(axes, values.x_range, y_range)
    _bounds(axes, panel)
    _dots(axes, panel)


def _tick(value: float) -> str:
    size = math.floor(math.log10(value) + 1e-9)
    if -4 <= size <= 4:
        return f"{value:g}"
    mantissa = value / 10**size
    return f"$10^{{{size}}}$" if abs(mantissa - 1) < 1e-9 else f"{numerals.significant(value, 2)}"


def _effective_rates(
    axes: Axes, x_range: tuple[float, float], y_range: tuple[float, float]
) -> None:
    """Lines of equal learning_rate / (1 - momentum), a factor of ten apart."""
    lowest = math.floor(math.log10(x_range[0] / y_range[1]))
    highest = math.ceil(math.log10(x_range[1] / y_range[0]))
    for exponent in range(lowest, highest + 1):
        axes.plot(
            x_range,
            [x / 10.0**exponent for x in x_range],
            color="0.8",
            linewidth=0.7,
            label="equal effective learning rate, tenfold apart",
            zorder=1,
        )


def _bounds(axes: Axes, panel: Panel) -> None:
    x, y = panel.box
    style: dict[str, Any] = {
        "color": "0.35",
        "linestyle": "--",
        "linewidth": 0.9,
        "label": _BOUNDS,
        "zorder": 2,
    }
    if x and y:
        axes.plot([x[0], x[1], x[1], x[0], x[0]], [y[0], y[0], y[1], y[1], y[0]], **style)
    elif x:
        for bound in x:
            axes.axvline(bound, **style)
    elif y:
        for bound in y:
            axes.axhline(bound, **style)


def _dots(axes: Axes, panel: Panel) -> None:
    for outcome, style in _MARKERS.items():
        chosen = [dot for dot in panel.dots if dot.outcome == outcome]
        if chosen:
            axes.plot(
                [dot.x for dot in chosen],
                [dot.y for dot in chosen],
                linestyle="none",
                label=_LABELS[outcome],
                zorder=3,
                **style,
            )
    if panel.winner:
        axes.plot(
            [panel.winner.x],
            [panel.winner.y],
            "o",
            color="black",
            markerfacecolor="none",
            markersize=12,
            markeredgewidth=1.6,
            label=_BEST,
            zorder=4,
        )
