"""The closed form of the bootstrap over trials."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicax.analysis.interval import (
    Finishers,
    crossings,
    finishers_needed,
    resample_steps,
    steps_interval,
)


def study(steps, n_trials, previous=None, last_step=1000):
    steps = np.array(steps, np.int64)
    before = steps - 1 if previous is None else np.array(previous, np.int64)
    return Finishers(steps=steps, previous=before, n_trials=n_trials, last_step=last_step)


def test_three_finishers_suffice_from_four_trials_on():
    assert [finishers_needed(n) for n in (1, 2, 3, 4, 8, 100, 10_000)] == [1, 2, 2, 3, 3, 3, 3]
    assert finishers_needed(100, 0.98) == 5  # exp(-5) < 0.01 < exp(-4)


@pytest.mark.parametrize(("n", "level"), [(0, 0.9), (5, 0.0), (5, 1.0)])
def test_impossible_level_or_number_is_refused(n, level):
    with pytest.raises(ValueError, match=f"n_trials={n}, level={level}"):
        finishers_needed(n, level)


@settings(max_examples=15, deadline=None)
@given(st.integers(4, 40), st.sampled_from([0.5, 0.8, 0.9]), st.integers(0, 2**32 - 1))
def test_upper_end_is_the_quantile_of_a_monte_carlo_bootstrap(n, level, seed):
    rng = np.random.default_rng(seed)
    steps = np.sort(rng.choice(10_000, n, replace=False)) + 1
    draws = 20_000
    minima = steps[rng.integers(0, n, (draws, n))].min(axis=1)
    high = steps_interval(study(steps, n), level).high
    quantile, noise = (1 + level) / 2, 5 / np.sqrt(draws)
    assert (minima <= high).mean() >= quantile - noise
    assert (minima < high).mean() < quantile + noise


def test_interval_runs_from_after_the_previous_evaluation_to_the_third_finisher():
    found = steps_interval(study([30, 40, 70, 80], 20, previous=[20, 30, 60, 70]))
    assert found == (21, 70, None)


@pytest.mark.parametrize(
    ("finishers", "expected"),
    [
        (study([], 20), (None, None, "no trial reached the goal")),
        (
            study([30, 40], 20),
            (30, None, "2 of 20 trials reached the goal; the upper end needs 3"),
        ),
        (study([5, 6, 7], 3), (5, None, "only 3 trials; the upper end needs at least 4")),
    ],
)
def test_unknown_ends_say_why(finishers, expected):
    assert steps_interval(finishers) == expected


def test_crossings_lie_between_measured_steps_of_the_same_trial():
    nan = float("nan")
    rows = [
        (8, 0, 0, 0.1),  # reached before the first step
        (8, 1, 4, 0.1),  # at its first evaluation
        (8, 2, 2, 0.9),
        (8, 2, 3, nan),  # evaluated, and not a number
        (8, 2, 4, None),  # not measured
        (8, 2, 5, 0.2),
        (8, 2, 6, 0.9),
        (16, 2, 4, 0.9),
        (16, 2, 5, 0.9),
    ]
    table = pl.DataFrame(rows, schema=["batch_size", "trial", "step", "m"], orient="row")
    found = crossings(table, 0.5, metric="m")
    assert found.columns == ["batch_size", "trial", "previous", "step"]
    assert found.rows() == [(8, 0, -1, 0), (8, 1, 0, 4), (8, 2, 3, 5)]


def test_resamples_follow_the_distribution_of_the_minimum():
    n, draws = 10, 40_000
    drawn = resample_steps([study([10, 20, 30, 40, 50], n)], draws, seed=1)[:, 0]
    for j, step in enumerate((10, 20), start=1):
        assert (drawn <= step).mean() == pytest.approx(1 - (1 - j / n) ** n, abs=0.01)
    assert drawn.max() == 30  # ranks beyond the third are censored there


def test_ranks_beyond_too_few_finishers_get_the_last_step_run():
    drawn = resample_steps([study([10], 10, last_step=700)], 10_000, seed=2)[:, 0]
    assert set(drawn) == {10.0, 700.0}
    assert (drawn == 700).mean() == pytest.approx(0.9**10, abs=0.02)


def test_resamples_fill_the_evaluation_interval_evenly():
    drawn = resample_steps([study([8], 4, previous=[4], last_step=8)], 40_000, seed=3)[:, 0]
    steps, counts = np.unique(drawn[drawn < 8], return_counts=True)
    assert steps.tolist() == [5, 6, 7]
    assert counts / 40_000 == pytest.approx((1 - 0.75**4) / 4, abs=0.01)


def test_resamples_are_a_function_of_the_seed_and_independent_between_studies():
    pair = [study([10, 20, 30], 10), study([10, 20, 30], 10)]
    drawn = resample_steps(pair, 2000, seed=4)
    assert np.array_equal(drawn, resample_steps(pair, 2000, seed=4))
    assert not np.array_equal(drawn, resample_steps(pair, 2000, seed=5))
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.1


def test_a_study_without_finisher_cannot_be_resampled():
    with pytest.raises(ValueError, match="without a finisher"):
        resample_steps([study([], 10)], 10, seed=0)
    assert resample_steps([], 10, seed=0).shape == (10, 0)
