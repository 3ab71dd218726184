"""Budgets and the best measurement within them."""

import polars as pl
import pytest

from replicax.analysis.budget import apply_example_budget, apply_step_budget, best_measurement

NAN, INF = float("nan"), float("inf")
TABLE = pl.DataFrame(
    [
        (2, 0, 1, 0.5),
        (2, 0, 10, 0.2),
        (2, 1, 8, 0.2),
        (2, 1, 9, -INF),
        (4, 0, 3, NAN),
        (4, 0, 6, 0.4),
        (4, 2, 6, 0.4),
        (8, 0, 6, None),
        (8, 0, 7, NAN),
    ],
    schema={"batch_size": pl.Int64, "trial": pl.Int64, "step": pl.Int64, "m": pl.Float64},
    orient="row",
)


def test_budgets_include_their_limit():
    assert apply_step_budget(TABLE, 6)["step"].to_list() == [1, 3, 6, 6, 6]
    kept = apply_example_budget(TABLE, 20)
    assert kept.select("batch_size", "step").rows() == [(2, 1), (2, 10), (2, 8), (2, 9), (4, 3)]


@pytest.mark.parametrize("budget", [apply_step_budget, apply_example_budget])
def test_negative_budget_is_refused(budget):
    with pytest.raises(ValueError, match="-1"):
        budget(TABLE, -1)


def test_best_is_finite_and_ties_go_to_the_smaller_step_then_trial():
    assert best_measurement(TABLE, metric="m").rows() == [(2, 8, 1, 0.2), (4, 6, 0, 0.4)]


def test_best_within_a_budget_and_when_larger_is_better():
    within = apply_example_budget(TABLE, 15)
    assert best_measurement(within, metric="m").rows() == [(2, 1, 0, 0.5)]
    found = best_measurement(TABLE, metric="m", maximize=True)
    assert found.rows() == [(2, 1, 0, 0.5), (4, 6, 0, 0.4)]


def test_best_of_each_trial():
    found = best_measurement(TABLE, metric="m", by=("batch_size", "trial"))
    assert found["trial"].to_list() == [0, 1, 0, 2]
    assert found["value"].to_list() == [0.2, 0.2, 0.4, 0.4]
