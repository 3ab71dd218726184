"""When trials are evaluated: often enough to date the goal, seldom enough to cost little."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicax.study.evaluations import COARSEST, FREE_SECONDS, SHARE, Evaluations, affordable

ALWAYS = 10**9  # more evaluations than any run has


def steps(evaluations, last):
    """The steps of all evaluations of a run; step 0 is evaluated before the first one."""
    found = [0]
    while found[-1] < last:
        found.append(evaluations.next(found[-1], len(found), last))
    return found


def test_every_step_at_first():
    assert steps(Evaluations(ALWAYS, 1), 40) == list(range(41))


def test_three_percent_apart_later():
    later = [s for s in steps(Evaluations(ALWAYS, 500), 100_000) if s >= 1000]
    gaps = [(b - a) / a for a, b in pairwise(later[:-1])]
    assert 0.028 < min(gaps) <= max(gaps) <= 0.03


@given(st.integers(0, 300), st.integers(1, 10_000), st.integers(1, 10**6))
def test_steps_grow_and_the_last_one_is_evaluated(free, min_gap, last):
    found = steps(Evaluations(free, min_gap), last)
    assert all(a < b for a, b in pairwise(found))
    assert found[-1] == last


@given(st.integers(0, 300), st.integers(1, 10_000))
def test_min_gap_holds_only_once_the_free_ones_are_done(free, min_gap):
    plain = steps(Evaluations(ALWAYS, 1), 10**6)
    found = steps(Evaluations(free, min_gap), 10**6)
    free = max(free, 1)
    assert found[:free] == plain[:free]
    for a, b in pairwise(found[free - 1 : -1]):
        assert b - a >= min(min_gap, int(COARSEST * a))


@given(st.integers(0, 300), st.integers(1, 10**6))
def test_the_goal_is_dated_to_a_quarter_at_worst(free, min_gap):
    for a, b in pairwise(steps(Evaluations(free, min_gap), 10**6)):
        assert b - a <= max(1, a / 4)


seconds = st.floats(1e-6, 10)


@given(st.integers(1, 1000), seconds, seconds)
def test_free_evaluations_take_at_most_their_seconds(trials, per_step, per_evaluation):
    free = affordable(trials, per_step, per_evaluation).free
    each = trials * per_evaluation
    assert free * each <= FREE_SECONDS < (free + 1) * each * (1 + 1e-9)


@given(st.integers(1, 1000), seconds, seconds)
def test_the_other_evaluations_take_at_most_a_fifth_of_the_time(trials, per_step, per_evaluation):
    min_gap = affordable(trials, per_step, per_evaluation).min_gap
    share = per_evaluation / (per_evaluation + min_gap * per_step)
    assert share <= SHARE * (1 + 1e-9)
    assert min_gap.bit_count() == 1
    # Nor are they seldomer than that needs, but for the power of two.
    half = per_evaluation / (per_evaluation + min_gap / 2 * per_step)
    assert min_gap == 1 or half >= SHARE * (1 - 1e-9) or min_gap == 2


@pytest.mark.parametrize(
    ("per_step", "per_evaluation", "min_gap"),
    [(1.0, 0.1, 1), (1.0, 0.25, 1), (1.0, 0.3, 2), (1.0, 0.9, 4), (1e-4, 1e-2, 512)],
)
def test_min_gap_by_hand(per_step, per_evaluation, min_gap):
    """An evaluation costs four times its seconds in steps, rounded up to a power of two."""
    assert affordable(10, per_step, per_evaluation).min_gap == min_gap


def test_a_whole_run_spends_a_fifth_on_evaluation():
    """A million steps of 0.1 ms; an evaluation takes 30 ms, so that every step would cost 300."""
    trials, per_step, per_evaluation = 8, 1e-4, 3e-2
    rule = affordable(trials, per_step, per_evaluation)
    found = steps(rule, 10**6)
    assert rule.free == 20
    late = [s for s in found if s >= 4 * rule.min_gap]
    training, evaluation = (late[-1] - late[0]) * per_step, (len(late) - 1) * per_evaluation
    assert evaluation <= SHARE * (training + evaluation)
