"""From tables to the curve: counts, refusals, and what racing may not change."""

import numpy as np
import polars as pl
import pytest

from replicax.analysis.curve import analyse
from replicax.analysis.quadratic import NoisyQuadratic
from replicax.analysis.quadratic_grid import measure, tune
from replicax.analysis.records import Dimension, TrialCounts

NAN = float("nan")
SPACE = (Dimension(name="learning_rate", scale="log", low=0.01, high=1.0),)
MEASUREMENTS = pl.DataFrame(
    [
        (8, 0, 10, 0.5),
        (8, 0, 20, 0.2),
        (8, 1, 10, 0.4),
        (8, 1, 20, 0.2),
        (8, 2, 10, 0.25),  # reaches the goal, then diverges
        (8, 2, 20, NAN),
        (8, 3, 10, 0.35),
        (8, 4, 10, 0.9),
        (16, 0, 10, 0.31),
        (16, 1, 10, NAN),
    ],
    schema={"batch_size": pl.Int64, "trial": pl.Int64, "step": pl.Int64, "val/error": pl.Float64},
    orient="row",
)
TRIALS = pl.DataFrame(
    [
        (8, 4, "running", None, "top-up", 10, 0.2, 0.9),
        (8, 0, "complete", None, "initial", 20, 0.1, 0.9),
        (8, 1, "complete", None, "initial", 20, 0.1, None),
        (8, 2, "infeasible", "loss is NaN", "initial", 20, 0.9, 0.9),
        (8, 3, "stopped", None, "initial", 10, 0.3, 0.9),
        (16, 0, "complete", None, "initial", 10, 0.1, 0.9),
        (16, 1, "infeasible", "loss is NaN", "initial", 10, 0.1, 0.9),
    ],
    schema={
        "batch_size": pl.Int64,
        "trial": pl.Int64,
        "status": pl.String,
        "reason": pl.String,
        "wave": pl.String,
        "last_step": pl.Int64,
        "learning_rate": pl.Float64,
        "momentum": pl.Float64,
    },
    orient="row",
)


def small(measurements=MEASUREMENTS, trials=TRIALS, **options):
    given = {
        "task": "toy",
        "optimizer": "momentum",
        "goal": 0.3,
        "metric": "val/error",
        "spaces": {8: SPACE, 16: SPACE},
        "edges": {16: ("learning_rate above",)},
        "batch_sizes": [16, 8, 32],
    }
    return analyse(measurements, trials, **(given | options))


def test_points_of_a_table_small_enough_to_read():
    curve = small()
    assert [p.batch_size for p in curve.points] == [8, 16, 32]
    eight, sixteen, absent = curve.points
    assert (eight.steps, eight.trial, eight.value, eight.best) == (10, 2, 0.25, 0.2)
    assert eight.interval == (1, 20)  # third of the three that reached it, of four that ended
    assert eight.interval_note is None
    assert eight.trials == TrialCounts(complete=2, infeasible=1, stopped=1)
    assert not eight.at_edge
    assert (sixteen.steps, sixteen.trial, sixteen.value, sixteen.best) == (None, None, None, 0.31)
    assert sixteen.interval == (None, None)
    assert sixteen.interval_note == "no trial reached the goal"
    assert sixteen.at_edge
    assert sixteen.edges == ("learning_rate above",)
    assert sixteen.space == SPACE
    assert (absent.steps, absent.best, absent.runs, absent.space) == (None, None, (), ())
    assert curve.fit is None
    assert "only 1 batch sizes have a usable result" in curve.critical_batch_size.reason


def test_runs_are_every_trial_by_number():
    runs = small().points[0].runs
    assert [r.trial for r in runs] == [0, 1, 2, 3, 4]
    assert [r.reached for r in runs] == [20, 20, 10, None, None]
    assert [r.best for r in runs] == [0.2, 0.2, 0.25, 0.35, 0.9]
    assert runs[1].hyperparameters == {"learning_rate": 0.1}
    assert runs[2].hyperparameters == {"learning_rate": 0.9, "momentum": 0.9}
    assert (runs[2].status, runs[2].reason, runs[2].last_step) == ("infeasible", "loss is NaN", 20)
    assert runs[4].wave == "top-up"
    assert small().points[1].runs[1].best is None


def test_a_running_trial_counts_once_it_has_reached_the_goal():
    first = pl.DataFrame([(8, 4, 5, 0.29)], schema=MEASUREMENTS.schema, orient="row")
    assert small(pl.concat([MEASUREMENTS, first])).points[0].steps == 5
    few = small(
        trials=TRIALS.filter(pl.col("trial") != 3),
        measurements=MEASUREMENTS.filter(pl.col("trial") != 3),
    )
    assert few.points[0].interval_note == "only 3 trials; the upper end needs at least 4"


def test_larger_may_be_better():
    curve = small(goal=0.45, maximize=True)
    assert curve.maximize
    assert [p.steps for p in curve.points] == [10, None, None]
    assert (curve.points[0].trial, curve.points[0].best) == (0, 0.9)


@pytest.mark.parametrize(
    ("measurements", "trials", "message"),
    [
        (MEASUREMENTS, TRIALS.drop("wave"), "wave"),
        (MEASUREMENTS, TRIALS.with_columns(status=pl.lit("done")), "done"),
        (MEASUREMENTS, pl.concat([TRIALS, TRIALS[:1]]), "one row for each"),
        (MEASUREMENTS, TRIALS[1:], "'trial': 4"),
        (MEASUREMENTS, TRIALS.with_columns(optimizer=pl.lit("adam")), "'optimizer' is String"),
        (MEASUREMENTS.drop("val/error"), TRIALS, "val/error"),
    ],
)
def test_malformed_tables_are_refused(measurements, trials, message):
    with pytest.raises(ValueError, match=message):
        small(measurements, trials)


MODEL, GOAL = NoisyQuadratic(100), 0.01
SIZES = [int(b) for b in 2 ** np.arange(1, 19)]
GRID = {"learning_rates": np.geomspace(1e-2, 2.2, 40), "momenta": (0.0, 0.6)}


@pytest.fixture(scope="module")
def study():
    return measure(MODEL, SIZES, **GRID, max_steps=50_000)


def quadratic(measurements, trials, **options):
    given = {
        "task": "noisy quadratic",
        "optimizer": "sgd",
        "goal": GOAL,
        "metric": "val/loss",
        "spaces": {},
        "batch_sizes": SIZES,
    }
    return analyse(measurements, trials, **(given | options))


def estimates(curve):
    return (
        curve.end_of_perfect_scaling,
        curve.critical_batch_size,
        curve.overhead_20_batch_size,
        curve.maximum_useful_batch_size,
    )


def test_three_regimes_are_answered_with_intervals(study):
    curve = quadratic(*study)
    exact = tune(MODEL, GOAL, SIZES, **GRID).steps
    for point, steps in zip(curve.points, exact, strict=True):
        low, high = point.interval
        assert low <= steps <= point.steps <= high
    for estimate in estimates(curve):
        assert estimate.low <= estimate.value <= estimate.high
        assert SIZES[0] <= estimate.value <= SIZES[-1]
    assert estimates(curve)[0].value < estimates(curve)[1].value < estimates(curve)[3].value


def race(measurements, trials, curve):
    """The tables of a study that stopped every trial when the third had reached the goal."""
    ends = {p.batch_size: p.interval[1] for p in curve.points}
    stop = pl.col("batch_size").replace_strict(ends)
    reached = {(p.batch_size, r.trial) for p in curve.points for r in p.runs if r.reached}
    raced = trials.with_columns(
        pl.min_horizontal("last_step", stop).alias("last_step"),
        status=pl.Series(
            "complete" if key in reached else "stopped"
            for key in trials.select("batch_size", "trial").iter_rows()
        ),
    )
    return measurements.filter(pl.col("step") <= stop), raced


def test_racing_changes_neither_steps_nor_intervals_nor_estimates(study):
    full = quadratic(*study)
    raced_tables = race(*study, full)
    assert raced_tables[0].height < study[0].height / 2
    raced = quadratic(*raced_tables)
    for a, b in zip(full.points, raced.points, strict=True):
        assert (a.steps, a.trial, a.value, a.interval) == (b.steps, b.trial, b.value, b.interval)
    assert full.fit == raced.fit
    assert estimates(full) == estimates(raced)


def test_the_seed_decides_the_intervals_and_nothing_else(study):
    first, again, other = (quadratic(*study, seed=s) for s in (0, 0, 1))
    assert first == again
    assert first.fit == other.fit
    assert first.critical_batch_size.value == other.critical_batch_size.value
    assert first.critical_batch_size != other.critical_batch_size


def test_perfect_scaling_alone_has_no_plateau(study):
    curve = quadratic(*study, batch_sizes=SIZES[:4])
    for estimate in estimates(curve)[1::2]:
        assert estimate.value is None
        assert "no plateau" in estimate.reason


def test_points_at_an_edge_are_shown_but_not_fitted(study):
    curve = quadratic(*study, edges={SIZES[-1]: ("learning_rate above",)})
    assert curve.points[-1].steps is not None
    assert curve.points[-1].at_edge
    assert curve.fit == quadratic(*study, batch_sizes=SIZES[:-1]).fit
    largest = quadratic(*study, edges=dict.fromkeys(SIZES[6:], ("learning_rate above",)))
    assert largest.maximum_useful_batch_size.value is None
    assert "256, 512, 1024" in largest.maximum_useful_batch_size.reason
    assert largest.maximum_useful_batch_size.reason.endswith("at the edge of the search space")


def test_too_few_trials_refuse_the_estimates_and_keep_the_fit(study):
    measurements, trials = study
    won = [p.trial for p in quadratic(measurements, trials).points]
    keep = pl.col("batch_size").replace_strict(dict(zip(SIZES, won, strict=True)))
    alone = pl.col("trial") == keep
    curve = quadratic(measurements.filter(alone), trials.filter(alone))
    assert curve.fit is not None
    for estimate in estimates(curve):
        assert estimate.reason.startswith("too few trials: fewer than 4 at batch size 2, 4, 8")


def test_other_integer_types_and_other_batch_sizes_are_fine(study):
    measurements, trials = study
    narrow = trials.with_columns(pl.col("batch_size", "trial").cast(pl.Int32))
    curve = quadratic(measurements, narrow, batch_sizes=SIZES[3:9])
    assert curve == quadratic(measurements, trials, batch_sizes=SIZES[3:9])
    assert [p.batch_size for p in curve.points] == SIZES[3:9]
