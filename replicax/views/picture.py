"""From a drawing function to a PNG: Matplotlib's Agg objects, no state of pyplot's."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replicax.views.files import replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DOTS_PER_INCH = 150
_ENTRY, _CHARACTER = 0.6, 0.068  # inches of a legend's sign and of one character of its text


def render(draw: Callable[[Figure], None]) -> Figure:
    """A figure after `draw`, laid out and painted.

    The reader's own Matplotlib settings are left aside, so that a picture looks alike everywhere.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = Figure(layout="constrained", dpi=_DOTS_PER_INCH)
        FigureCanvasAgg(figure)
        draw(figure)
        figure.canvas.draw()
    return figure


def write_png(draw: Callable[[Figure], None], path: Path | str) -> None:
    """Draws a picture and writes it as PNG."""
    buffer = io.BytesIO()
    render(draw).savefig(buffer, format="png", metadata={"Software": "replicax"})
    replace_file(path, buffer.getvalue())


def log_axis(axis: Any, ticks: list[float], label: Callable[[float], str]) -> None:
    """Puts labelled ticks at the given values of a logarithmic axis, and no others."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter([label(tick) for tick in ticks]))
    axis.set_minor_locator(NullLocator())


def legend(figure: Figure, order: Sequence[str] = ()) -> None:
    """One legend for all axes, below them, in as many columns as the figure is wide.

    Entries named in `order` come first.
    """
    found: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        found.update(zip(labels, handles, strict=True))
    if not found:
        return
    labels = [*(name for name in order if name in found), *(n for n in found if n not in order)]
    figure.legend(
        [found[label] for label in labels],
        labels,
        loc="outside lower center",
        ncols=legend_columns([len(label) for label in labels], figure.get_size_inches()[0]),
        fontsize=9,
        frameon=False,
    )


def legend_columns(lengths: Sequence[int], width: float) -> int:
    """How many columns of labels of some lengths, in characters, fit a width in inches."""
    for columns in range(min(len(lengths), 4), 1, -1):
        rows, longer = divmod(len(lengths), columns)  # Matplotlib fills by column like this
        starts = [i * rows + min(i, longer) for i in range(columns + 1)]
        longest = [max(lengths[a:b]) for a, b in pairwise(starts)]
        if sum(_ENTRY + _CHARACTER * length for length in longest) < width:
            return columns
    return 1
