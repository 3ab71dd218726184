"""curve.png: the values behind it, and that it can be read."""

import subprocess
import sys
from dataclasses import replace

import pytest
from pictures import assert_not_blank, assert_readable, texts
from view_records import CURVES, curve, known, point, resnet_8

from replicax.views import picture
from replicax.views.curve_figure import draw_curve, spread, write_curve
from replicax.views.curve_values import Border, curve_values


def rendered(record):
    values = curve_values(record)
    return picture.render(lambda figure: draw_curve(figure, values))


def test_marks_are_the_points_with_a_result_by_batch_size():
    record = CURVES["flagged"]
    values = curve_values(replace(record, points=record.points[::-1]))
    assert [(m.batch_size, m.steps, m.low, m.high, m.at_edge) for m in values.marks] == [
        (8, 4096, 3500, 5000, True),
        (32, 1100, 900, 1300, False),
        (128, 350, 300, 420, True),
        (512, 180, 150, 260, False),
    ]
    assert values.missed == (1, 2048, 8192)


def test_ideal_line_is_anchored_at_the_smallest_batch_size_with_a_result():
    ideal = curve_values(CURVES["flagged"]).ideal
    assert (ideal.batch_size[0], ideal.steps[0]) == (8, 4096)
    assert ideal.batch_size[1] * ideal.steps[1] == pytest.approx(8 * 4096)


def test_fit_line_is_the_formula_over_the_measured_range():
    fit = curve_values(resnet_8()).fit
    assert fit.batch_size[0] == pytest.approx(2)
    assert fit.batch_size[-1] == pytest.approx(8192)
    assert fit.steps[0] == pytest.approx(614 * (1 + 324 / 2))
    assert fit.steps[-1] == pytest.approx(614 * (1 + 324 / 8192))


def test_regimes_meet_at_the_estimates():
    values = curve_values(resnet_8())
    low, high = values.batch_range
    assert [(b.regime, b.low, b.high) for b in values.bands] == [
        ("perfect scaling", low, 256),
        ("diminishing returns", 256, 1024),
        ("maximal data parallelism", 1024, high),
    ]
    assert values.borders == (Border(256, 130, 410), Border(1024, 512, 2048))
    assert values.refusals == ()


def test_without_a_plateau_returns_diminish_to_the_end():
    values = curve_values(CURVES["few"])
    assert [band.regime for band in values.bands] == ["perfect scaling", "diminishing returns"]
    assert values.bands[-1].high == values.batch_range[1]
    assert values.refusals == (
        "maximum useful batch size refused: the largest batch is not on a plateau",
    )


def test_refused_borders_leave_all_unshaded():
    values = curve_values(CURVES["one"])
    assert values.bands == ()
    assert values.refusals == (
        "borders of the regimes refused: the largest batch is not on a plateau",
    )


def test_contradicting_borders_shade_neither_claim():
    values = curve_values(CURVES["contradiction"])
    low, high = values.batch_range
    assert [(b.regime, b.low, b.high) for b in values.bands] == [
        ("perfect scaling", low, 512),
        ("maximal data parallelism", 900, high),
    ]


def test_borders_outside_the_picture_are_left_out():
    values = curve_values(resnet_8(maximum_useful_batch_size=known(1e6)))
    assert [border.batch_size for border in values.borders] == [256]
    assert [band.regime for band in values.bands] == ["perfect scaling", "diminishing returns"]


@pytest.mark.parametrize("name", CURVES)
def test_ranges_hold_everything_and_at_least_two_octaves(name):
    record = CURVES[name]
    values = curve_values(record)
    for low, high in (values.batch_range, values.steps_range):
        assert high >= 3.999 * low > 0
    for mark in values.marks:
        assert values.batch_range[0] < mark.batch_size < values.batch_range[1]
        for end in (mark.low, mark.steps, mark.high):
            assert end is None or values.steps_range[0] < end < values.steps_range[1]


def test_a_goal_reached_before_the_first_step_is_not_drawn_on_a_logarithmic_axis():
    at_once = replace(point(4, None), steps=0, interval=(0, 0))
    values = curve_values(curve([at_once, point(8, 10, interval=(0, 12))]))
    assert [mark.batch_size for mark in values.marks] == [8]
    assert values.missed == ()
    assert_readable(picture.render(lambda figure: draw_curve(figure, values)))


@pytest.mark.parametrize("name", CURVES)
def test_no_text_overlaps(name):
    assert_readable(rendered(CURVES[name]))


@pytest.mark.parametrize("number", range(3, 15))
def test_no_text_overlaps_at_any_number_of_batch_sizes(number):
    points = [point(2**k, max(2**13 >> k, 20), number=3) for k in range(number)]
    record = curve(
        points,
        end_of_perfect_scaling=known(2.1, 1.0, 3.0),
        maximum_useful_batch_size=known(2.2, 1.5, None),
    )
    assert_readable(rendered(record))


def test_regimes_are_named_and_the_title_is_taken_literally():
    words = [text.get_text() for text in texts(rendered(CURVES["huge"]))]
    assert "perfect\nscaling" in words
    assert "diminishing\nreturns" in words
    assert "maximal data\nparallelism" in words
    assert any("$100$" in word for word in words)


def test_legend_lists_what_is_drawn():
    words = {text.get_text() for text in texts(rendered(CURVES["flagged"]))}
    assert {"measured", "best trial at an edge of the space", "goal not reached"} <= words
    words = {text.get_text() for text in texts(rendered(resnet_8()))}
    assert "goal not reached" not in words


def test_spread_keeps_order_and_room():
    placed = spread([0.5, 0.5, 0.5], [0.1, 0.2, 0.2])
    assert placed == pytest.approx([0.5, 0.65, 0.85])
    placed = spread([0.97, 0.98, 0.99], [0.1, 0.2, 0.2])
    assert placed == pytest.approx([0.55, 0.7, 0.9])
    assert spread([0.0], [0.2]) == [0.1]


def test_png_is_written_whole(tmp_path):
    path = tmp_path / "curve.png"
    path.write_text("old")
    write_curve(resnet_8(), path)
    assert_not_blank(path)
    assert [file.name for file in tmp_path.iterdir()] == ["curve.png"]


def test_the_same_record_gives_the_same_bytes(tmp_path):
    for name in ("a.png", "b.png"):
        write_curve(CURVES["few"], tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_failed_write_leaves_the_old_picture(tmp_path, monkeypatch):
    from pathlib import Path

    path = tmp_path / "curve.png"
    path.write_text("old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_curve(CURVES["one"], path)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["curve.png"]


def test_matplotlib_is_imported_only_to_draw_and_never_pyplot(tmp_path):
    code = (
        "import sys\n"
        "from replicax.views import curve_figure, live, result, table, terminal, tuning_figure\n"
        "assert 'matplotlib' not in sys.modules\n"
        "assert 'jax' not in sys.modules\n"
        "from replicax.views.picture import write_png\n"
        f"write_png(lambda figure: None, {str(tmp_path / 'x.png')!r})\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
