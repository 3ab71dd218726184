"""tuning.png: the values behind it, and that it can be read."""

from dataclasses import replace

import pytest
from pictures import assert_not_blank, assert_readable, texts
from view_records import CURVES, LEARNING_RATE, curve, point

from replicax.analysis.records import Dimension
from replicax.views import picture
from replicax.views.tuning_figure import draw_tuning, grid_columns, write_tuning
from replicax.views.tuning_values import tuning_values


def rendered(record):
    values = tuning_values(record)
    return picture.render(lambda figure: draw_tuning(figure, values))


def test_panels_are_studies_by_batch_size_with_all_trials():
    values = tuning_values(CURVES["flagged"])
    assert [panel.title[0] for panel in values.panels][:2] == [
        "batch size 1: goal not reached",
        "batch size 8: 4,096 steps",
    ]
    assert values.panels[3].title[1] == "at edge: learning_rate above, momentum above"
    assert all(len(panel.dots) == 24 for panel in values.panels)
    assert all(panel.vertical == "1 - momentum" for panel in values.panels)


def test_dots_are_learning_rate_and_complement_of_momentum():
    record = CURVES["few"]
    for run, dot in zip(record.points[0].runs, tuning_values(record).panels[0].dots, strict=True):
        assert dot.x == run.hyperparameters["learning_rate"]
        assert dot.y == 1 - run.hyperparameters["momentum"]


def test_outcomes():
    record = CURVES["resnet_8"]
    for panel, source in zip(tuning_values(record).panels, record.points, strict=True):
        for dot, run in zip(panel.dots, source.runs, strict=True):
            expected = "reached the goal" if run.reached is not None else run.status
            assert dot.outcome == expected


def test_winner_is_the_trial_of_the_result_or_the_best_one():
    solved, unsolved = CURVES["resnet_8"].points[0], CURVES["unsolved"].points[0]
    panels = tuning_values(curve([solved, unsolved])).panels
    assert panels[0].winner.trial == solved.trial
    best = min(run.best for run in unsolved.runs if run.best is not None)
    assert unsolved.runs[panels[1].winner.trial].best == best


def test_best_trial_follows_the_direction_of_the_metric():
    unsolved = point(4, None)
    winner = tuning_values(curve([unsolved], maximize=True)).panels[0].winner
    best = max(run.best for run in unsolved.runs if run.best is not None)
    assert unsolved.runs[winner.trial].best == best


def test_bounds_are_those_of_the_space_at_the_end():
    box = tuning_values(CURVES["flagged"]).panels[2].box
    assert box.x == (1e-5, 1000)
    assert box.y == pytest.approx((0.001, 0.5))


def test_ranges_are_shared_and_hold_dots_and_bounds():
    values = tuning_values(CURVES["flagged"])
    for panel in values.panels:
        for x in (*(dot.x for dot in panel.dots), *panel.box.x):
            assert values.x_range[0] < x < values.x_range[1]
        for y in (*(dot.y for dot in panel.dots), *panel.box.y):
            assert values.y_range[0] < y < values.y_range[1]


def test_without_momentum_y_is_steps_or_the_best_metric():
    record = CURVES["sgd"]
    values = tuning_values(record)
    assert [panel.vertical for panel in values.panels] == ["steps"] * 4 + ["best"]
    assert values.y_range is None
    first = record.points[0]
    for dot, run in zip(values.panels[0].dots, first.runs, strict=True):
        assert dot.y == (run.reached or run.last_step)
    assert all(dot.y >= values.panels[4].winner.y for dot in values.panels[4].dots)
    assert all(panel.box.y is None for panel in values.panels)


def test_what_a_logarithm_cannot_show_is_left_out():
    momentum = Dimension(name="momentum", scale="linear", low=0.0, high=1.0)
    base = point(4, 100, number=4)
    h = [
        {"learning_rate": 0.1, "momentum": 0.0},
        {"learning_rate": 0.1, "momentum": 1.0},
        {"learning_rate": 0.0, "momentum": 0.5},
        {"momentum": 0.5},
    ]
    runs = tuple(replace(run, hyperparameters=x) for run, x in zip(base.runs, h, strict=True))
    record = curve([replace(base, runs=runs, space=(LEARNING_RATE, momentum))])
    panel = tuning_values(record).panels[0]
    assert [dot.trial for dot in panel.dots] == [0]
    assert panel.box.y is None
    assert_readable(rendered(record))


@pytest.mark.parametrize("name", CURVES)
def test_no_text_overlaps(name):
    assert_readable(rendered(CURVES[name]))


@pytest.mark.parametrize("number", [2, 4, 5, 6, 8, 9, 11, 14])
@pytest.mark.parametrize("space", [(LEARNING_RATE,), None], ids=["sgd", "momentum"])
def test_no_text_overlaps_at_any_number_of_panels(number, space):
    given = {} if space is None else {"space": space}
    points = [point(2**k, max(2**17 >> k, 20), number=4, **given) for k in range(number)]
    assert_readable(rendered(curve(points)))


def test_unfinished_trials_and_short_ranges_can_be_drawn():
    base = point(4, None, number=6)
    runs = tuple(
        replace(run, status="running", hyperparameters={"learning_rate": 0.03 + 0.001 * i})
        for i, run in enumerate(base.runs)
    )
    record = curve([replace(base, runs=runs, space=())])
    figure = rendered(record)
    assert_readable(figure)
    words = {text.get_text() for text in texts(figure)}
    assert "not finished" in words
    assert "batch size 4: not finished" in words


def test_grid():
    assert [grid_columns(n) for n in range(1, 15)] == [1, 2, 3, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4]


def test_png_is_written(tmp_path):
    write_tuning(CURVES["sgd"], tmp_path / "tuning.png")
    assert_not_blank(tmp_path / "tuning.png")
