"""The chart made of characters."""

import io

import pytest
from view_records import CURVES

from replicax.views.terminal import ASCII, UNICODE, chart, print_chart, signs_for


def rows(text):
    """The cells of the plot, without axes."""
    lines = text.splitlines()
    foot = next(i for i, line in enumerate(lines) if line.strip()[:1] in ("└", "+"))
    return [line[11:] for line in lines[1:foot]]


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("signs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("width", [40, 80, 100])
def test_fits_its_width(name, signs, width):
    text = chart(CURVES[name], width=width, signs=signs)
    assert max(len(line) for line in text.splitlines()) <= max(width, 60)
    assert signs is UNICODE or text.isascii()


def test_every_point_is_there():
    text = chart(CURVES["resnet_8"])
    assert sum(row.count("●") for row in rows(text)) == 13
    text = chart(CURVES["flagged"])
    assert sum(row.count("○") for row in rows(text)) == 2
    assert rows(text)[0].count("x") == 3


def test_points_fall_from_left_to_right_where_steps_do():
    found = [(row.index("●"), i) for i, row in enumerate(rows(chart(CURVES["sgd"]))) if "●" in row]
    assert found == sorted(found)
    assert len(found) == 4


def test_ideal_line_reaches_the_bottom_and_the_fit_does_not():
    text = rows(chart(CURVES["resnet_8"], signs=ASCII))
    assert "." in "".join(text[-2:])
    assert "-" not in text[-1]


def test_axes_are_labelled_with_powers_of_two():
    text = chart(CURVES["resnet_8"])
    labels = next(line.split() for line in text.splitlines() if "8,192" in line)
    assert labels == ["2", "8", "32", "128", "512", "2,048", "8,192"]
    assert "1,024 ┤" in text
    assert "2^20" in chart(CURVES["huge"])


def test_legend_names_only_what_is_drawn():
    assert "goal not reached" not in chart(CURVES["resnet_8"])
    assert "goal not reached" in chart(CURVES["unsolved"])
    assert "fit" not in chart(CURVES["sgd"])


def test_nothing_to_draw():
    assert chart(CURVES["empty"]) == "nothing to draw: no batch size has a result"


@pytest.mark.parametrize(
    ("encoding", "signs"),
    [("utf-8", UNICODE), ("ascii", ASCII), ("latin-1", ASCII), (None, ASCII), ("none", ASCII)],
)
def test_signs_follow_the_encoding(encoding, signs):
    assert signs_for(encoding) is signs


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252"])
def test_prints_on_any_stream(encoding):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    for record in CURVES.values():
        print_chart(record, stream)
    stream.flush()
