"""The one rule for steps to result, on tables small enough to read."""

import time

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicax.analysis.result import better, first_reached, steps_to_result

NAN, INF = float("nan"), float("inf")
METRIC = "val/classification_error"

# batch size 8: trials 1 and 2 cross at step 20, trial 1 wins; trial 0 crosses later and lower.
# batch size 16: only NaN, inf, null and the goal itself, which is not strictly better.
# batch size 32: trial 7 diverges after it reached the goal; trial 3 is worse at every step.
TABLE = [
    (8, 2, 10, 0.50),
    (8, 2, 20, 0.10),
    (8, 1, 10, 0.40),
    (8, 1, 20, 0.29),
    (8, 1, 30, 0.90),
    (8, 0, 10, NAN),
    (8, 0, 30, 0.01),
    (16, 0, 5, NAN),
    (16, 0, 10, INF),
    (16, 1, 5, None),
    (16, 1, 10, 0.30),
    (32, 3, 4, 0.31),
    (32, 7, 6, 0.20),
    (32, 7, 8, NAN),
]


def table(rows: list[tuple]) -> pl.DataFrame:
    schema = {"batch_size": pl.Int64, "trial": pl.Int64, "step": pl.Int64, METRIC: pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def test_first_row_by_step_then_trial_wins():
    found = steps_to_result(table(TABLE), 0.3, metric=METRIC)
    assert found.columns == ["batch_size", "step", "trial", "value"]
    assert found.rows() == [(8, 20, 1, 0.29), (32, 6, 7, 0.20)]


def test_first_reached_keeps_every_trial():
    found = first_reached(table(TABLE), 0.3, metric=METRIC)
    assert found.rows() == [(8, 30, 0, 0.01), (8, 20, 1, 0.29), (8, 20, 2, 0.10), (32, 6, 7, 0.20)]


def test_maximize_never_takes_nan_for_large():
    """polars orders NaN above every number, so this fails for a comparison made there."""
    found = steps_to_result(table(TABLE), 0.45, metric=METRIC, maximize=True)
    assert found.rows() == [(8, 10, 2, 0.50), (16, 10, 0, INF)]


def test_unreached_goal_gives_an_empty_table_with_its_columns():
    found = steps_to_result(table(TABLE), 0.0, metric=METRIC)
    assert found.is_empty()
    assert found.columns == ["batch_size", "step", "trial", "value"]


@pytest.mark.parametrize(
    ("value", "maximize", "expected"),
    [
        (0.29, False, True),
        (0.3, False, False),
        (0.3, True, False),
        (0.31, True, True),
        (NAN, False, False),
        (NAN, True, False),
        (None, False, False),
        (None, True, False),
        (-INF, False, True),
        (INF, False, False),
        (INF, True, True),
    ],
)
def test_better(value, maximize, expected):
    assert bool(better(value, 0.3, maximize)) is expected


def test_better_is_elementwise():
    assert better([0.1, NAN, 0.3, None], 0.3).tolist() == [True, False, False, False]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop("trial"), "must have the columns"),
        (lambda t: t.drop(METRIC), "the metric must be a column"),
        (lambda t: t.with_columns(pl.col("step").cast(pl.Float64)), "'step' must hold integers"),
        (lambda t: t.with_columns(trial=pl.lit(None, pl.Int64)), "'trial' must not be null"),
        (lambda t: t.with_columns(pl.col(METRIC).cast(pl.String)), "must be numeric"),
        (lambda t: pl.concat([t, t[5:6]]), "'trial': 0, 'step': 10"),
    ],
)
def test_malformed_table_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        steps_to_result(change(table(TABLE)), 0.3, metric=METRIC)


def test_duplicates_are_found_whatever_the_size_of_the_keys():
    """The spans of trial and step multiply to 2**64, where packed keys would wrap around."""
    rows = [(1, 0, 0, 0.1), (2, 0, 0, 0.1), (2, 2**32 - 1, 2**32 - 1, 0.1)]
    assert steps_to_result(table(rows), 0.3, metric=METRIC).height == 2
    with pytest.raises(ValueError, match="one row for each"):
        steps_to_result(table(rows + rows[1:2]), 0.3, metric=METRIC)


def test_goal_nan_is_refused():
    with pytest.raises(ValueError, match="goal"):
        steps_to_result(table(TABLE), NAN, metric=METRIC)


metrics = st.one_of(st.none(), st.sampled_from([NAN, INF, -INF]), st.integers(0, 5).map(float))
rows = st.dictionaries(
    st.tuples(st.sampled_from([1, 2, 4]), st.integers(0, 3), st.integers(0, 6)),
    metrics,
    min_size=1,
).map(lambda d: [(*k, v) for k, v in d.items()])


def plain(rows, goal, maximize):
    """The rule again, as slowly and plainly as it can be written."""
    found = {}
    for b, trial, step, value in sorted(rows, key=lambda r: (r[0], r[2], r[1])):
        reached = value is not None and (value > goal if maximize else value < goal)
        if reached and b not in found:
            found[b] = (b, step, trial, value)
    return list(found.values())


@settings(deadline=None)
@given(rows, st.booleans(), st.randoms())
def test_equals_the_plain_rule_in_any_row_order(rows, maximize, random):
    random.shuffle(rows)
    found = steps_to_result(table(rows), 2.5, metric=METRIC, maximize=maximize)
    assert found.rows() == plain(rows, 2.5, maximize)


@settings(deadline=None)
@given(rows)
def test_rows_after_the_result_do_not_matter(rows):
    found = steps_to_result(table(rows), 2.5, metric=METRIC)
    last = dict(found.select("batch_size", "step").rows())
    kept = [r for r in rows if r[2] <= last.get(r[0], r[2])]
    assert steps_to_result(table(kept), 2.5, metric=METRIC).equals(found)


@pytest.mark.slow
def test_small_and_large_tables_are_fast():
    small = table([(8, t, 10, 0.1) for t in range(64)])
    sizes = np.repeat(2 ** np.arange(13), 100_000)
    large = pl.DataFrame(
        {
            "batch_size": sizes,
            "trial": np.tile(np.repeat(np.arange(100), 1000), 13),
            "step": np.tile(np.arange(1000), 1300),
            METRIC: np.tile(np.linspace(1, 0, 1000), 1300),
        }
    )
    for frame, limit in ((small, 0.005), (large, 0.2)):
        seconds = []
        for _ in range(5):
            start = time.perf_counter()
            steps_to_result(frame, 0.3, metric=METRIC)
            seconds.append(time.perf_counter() - start)
        assert min(seconds) < limit
