"""Which trials a study adds: the first ones, a top-up, and a widening of its search space."""

import math
from dataclasses import replace

import pytest

from replicax.study.points import points
from replicax.study.trials import TrialRow
from replicax.study.waves import MAX_WIDENINGS, Rules, near_edges, next_wave
from replicax.tasks import Parameter

RATE = Parameter(name="learning_rate", scale="log", low=1e-4, high=10.0, limits=(1e-7, 1e4))
MOMENTUM = Parameter(
    name="momentum", scale="reverse_log", low=0.0, high=0.99, limits=(0.0, 0.99999)
)
SPACE = (RATE, MOMENTUM)
RULES = Rules(trials=33, count_feasible=False, widen=True, seed=1, batch_size=64)
COUNTING = RULES._replace(count_feasible=True, widen=False)


def at(rate=0.1, momentum=0.9):
    return TrialRow(
        trial=0, wave="initial", hyperparameters={"learning_rate": rate, "momentum": momentum}
    )


def play(rules, steps, space=SPACE):
    """The waves of a study, one trial of which needs `steps(hyperparameters)`; None diverges."""
    waves, trials = [], []
    reached, best = [], None
    while wave := next_wave(rules, space, trials, best):
        for t in wave.trials:
            needed = steps(t.hyperparameters)
            status = "infeasible" if needed is None else "complete"
            trials.append(replace(t, status=status, reached=needed))
        waves.append(wave)
        space = wave.space
        reached = [(t.reached, t.trial) for t in trials if t.reached is not None]
        best = trials[min(reached)[1]] if reached else None
    return waves


def names(waves):
    return [wave.trials[0].wave for wave in waves]


def middle(h):
    return abs(math.log10(h["learning_rate"]) + 1.5)


def hot(h):
    """Half of the range of learning rates diverges."""
    return None if h["learning_rate"] > 10**-1.5 else middle(h)


# The first wave.


def test_a_study_begins_with_its_points():
    (wave,) = play(RULES, middle)
    drawn = points(SPACE, 33, seed=1, batch_size=64, wave="initial")
    assert [t.hyperparameters for t in wave.trials] == drawn
    assert [t.trial for t in wave.trials] == list(range(33))
    assert {(t.wave, t.status, t.last_step) for t in wave.trials} == {("initial", "running", 0)}
    assert wave.space == SPACE


def test_a_study_that_measured_nothing_ends():
    assert names(play(RULES, lambda h: None)) == ["initial"]  # noqa: ARG005


# Top-up.


def test_every_infeasible_trial_is_replaced_by_the_next_point():
    waves = play(COUNTING, hot)
    trials = [t for wave in waves for t in wave.trials]
    assert set(names(waves)[1:]) == {"top-up"}
    assert sum(hot(t.hyperparameters) is not None for t in trials) == 33
    assert len(waves[1].trials) == sum(hot(t.hyperparameters) is None for t in waves[0].trials) > 9
    drawn = points(SPACE, len(trials), seed=1, batch_size=64, wave="initial")
    assert [t.hyperparameters for t in trials] == drawn
    assert [t.trial for t in trials] == list(range(len(trials)))
    assert {wave.space for wave in waves} == {SPACE}


def test_points_are_topped_up_only_where_feasible_ones_are_counted():
    assert names(play(RULES._replace(widen=False), hot)) == ["initial"]
    assert names(play(COUNTING, middle)) == ["initial"]


def test_topping_up_ends_at_four_times_the_trials():
    waves = play(COUNTING, lambda h: None if h["learning_rate"] > 3e-4 else 1)
    assert sum(len(wave.trials) for wave in waves) == 4 * 33


# Widening.


def faster_at(name, sign):
    return lambda h: (
        100 - sign * math.log10(h[name] if name == "learning_rate" else 1 / (1 - h[name]))
    )


@pytest.mark.parametrize(
    ("name", "sign", "waves", "low", "high"),
    [
        ("learning_rate", 1, ["learning_rate above 10", "learning_rate above 100"], 1e-4, 1000),
        (
            "learning_rate",
            -1,
            ["learning_rate below 0.0001", "learning_rate below 1e-05"],
            1e-6,
            10,
        ),
        ("momentum", 1, ["momentum above 0.99", "momentum above 0.999"], 0, 0.9999),
        ("momentum", -1, [], 0, 0.99),  # there is nothing below a momentum of 0
    ],
)
def test_an_optimum_at_a_bound_widens_that_side_twice_at_most(name, sign, waves, low, high):
    found = play(RULES, faster_at(name, sign))
    assert names(found) == ["initial", *waves]
    assert len(waves) <= MAX_WIDENINGS == 2
    ranges = {p.name: p for p in found[-1].space}
    assert (ranges[name].low, ranges[name].high) == pytest.approx((low, high), abs=1e-12)
    (other,) = {RATE, MOMENTUM} - {p for p in SPACE if p.name == name}
    assert ranges[other.name] == other
    trials = [t.trial for wave in found for t in wave.trials]
    assert trials == list(range(len(trials)))


@pytest.mark.parametrize(
    ("best", "name", "slab", "share"),
    [
        (at(rate=9.0), "learning_rate above 10", RATE.beyond("above"), 1 / 5),
        (at(rate=1.1e-4), "learning_rate below 0.0001", RATE.beyond("below"), 1 / 5),
        (at(momentum=0.989), "momentum above 0.99", MOMENTUM.beyond("above"), 1 / 2),
    ],
)
def test_the_range_beyond_is_searched_as_densely_as_the_space_so_far(best, name, slab, share):
    trials = [replace(best, trial=i) for i in range(33)]
    wave = next_wave(RULES, SPACE, trials, best)
    assert {t.wave for t in wave.trials} == {name}
    assert len(wave.trials) == math.ceil(33 * share)
    sampled = tuple(slab if p.name == slab.name else p for p in SPACE)
    drawn = points(sampled, len(wave.trials), seed=1, batch_size=64, wave=name)
    assert [t.hyperparameters for t in wave.trials] == drawn
    for t in wave.trials:
        assert slab.low <= t.hyperparameters[slab.name] <= slab.high


def test_limits_are_no_edge():
    fixed = (replace(RATE, limits=(RATE.low, RATE.high)), MOMENTUM)
    for sign in (1, -1):
        assert names(play(RULES, faster_at("learning_rate", sign), fixed)) == ["initial"]


def test_widening_stops_at_the_limit():
    near = (replace(RATE, limits=(1e-7, 20.0)), MOMENTUM)
    waves = play(RULES, faster_at("learning_rate", 1), near)
    assert names(waves) == ["initial", "learning_rate above 10"]
    assert waves[-1].space[0].high == 20


def test_no_widening_unless_asked_for():
    assert names(play(RULES._replace(widen=False), faster_at("learning_rate", 1))) == ["initial"]


def test_one_side_is_widened_at_a_time():
    best = at(rate=9.0, momentum=0.989)
    wave = next_wave(RULES, SPACE, [best], best)
    assert [p.high for p in wave.space] == [pytest.approx(100), 0.99]


def test_a_widening_follows_the_top_up_and_is_not_topped_up_itself():
    def steps(h):
        rate = h["learning_rate"]
        return None if rate > 50 or rate < 1e-3 else 100 - math.log10(rate)

    waves = play(COUNTING._replace(widen=True), steps)
    order = names(waves)
    first = order.index("learning_rate above 10")
    assert set(order[1:first]) == {"top-up"}
    assert "top-up" not in order[first:]
    assert any(steps(t.hyperparameters) is None for t in waves[first].trials)


def test_near_edges():
    assert near_edges(SPACE, None) == []
    assert near_edges(SPACE, at()) == []
    assert near_edges(SPACE, at(momentum=0.0)) == []
    both = at(rate=1e-4, momentum=0.989)
    assert near_edges(SPACE, both) == [(0, "below"), (1, "above")]
