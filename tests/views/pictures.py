"""Checks that every picture has to pass."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text


def texts(figure: Figure) -> list[Text]:
    """The texts that are painted, tick labels only where their tick lies in view."""
    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low <= tick.get_loc() <= high:
                    hidden |= {tick.label1, tick.label2}
    return [
        text
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text().strip() and text not in hidden
    ]


def assert_readable(figure: Figure) -> None:
    """No text overlaps another, and none leaves the picture."""
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
    assert boxes
    for text, box in boxes:
        assert box.x0 >= 0, text
        assert box.y0 >= 0, text
        assert box.x1 <= figure.bbox.width, text
        assert box.y1 <= figure.bbox.height, text
    for (text_a, a), (text_b, b) in combinations(boxes, 2):
        width = min(a.x1, b.x1) - max(a.x0, b.x0)
        height = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert min(width, height) < 1, (text_a, text_b)


def assert_not_blank(path) -> None:
    """A PNG with white paper and something on it, also in grey."""
    from matplotlib.image import imread

    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    grey = imread(path)[..., :3].mean(axis=-1)
    assert grey.max() == 1
    assert np.mean(grey < 0.5) > 0.001
