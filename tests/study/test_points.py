"""Points are a pure function of (seed, batch size, wave, index), and spread better than chance."""

import numpy as np
import pytest
from small_studies import configuration, task

from replicax.study.points import points, search_space
from replicax.tasks import Parameter

SPACE = (
    Parameter(name="learning_rate", scale="log", low=1e-4, high=10.0),
    Parameter(name="momentum", scale="reverse_log", low=0.0, high=0.99),
)
WIDE = (
    *SPACE,
    Parameter(name="end_learning_rate_factor", scale="log", low=1e-4, high=0.1),
    Parameter(name="learning_rate_decay_steps", scale="integer", low=5000, high=10_000),
)


def draw(count, start=0, space=SPACE, **changes):
    chosen = {"seed": 3, "batch_size": 64, "wave": "initial"}
    return points(space, count, start=start, **(chosen | changes))


def positions(drawn, space=SPACE):
    """In the unit cube, [points, parameters]."""
    return np.array([[p.position(h[p.name]) for p in space] for h in drawn])


def test_points_are_the_same_every_time():
    assert draw(20) == draw(20)
    # What version 0.1 draws: a study that goes on must find its points again.
    assert draw(2) == [
        pytest.approx(
            {"learning_rate": 0.00040528720116075477, "momentum": 0.8357987569032315}, rel=1e-12
        ),
        pytest.approx(
            {"learning_rate": 0.1281630662182823, "momentum": 0.9646239145725964}, rel=1e-12
        ),
    ]


@pytest.mark.parametrize("space", [SPACE, WIDE], ids=len)
@pytest.mark.parametrize("cut", [0, 1, 7, 19])
def test_a_later_start_continues_the_same_sequence(space, cut):
    assert draw(cut, space=space) + draw(20 - cut, cut, space) == draw(20, space=space)


def test_more_points_change_no_earlier_ones():
    assert [draw(count) for count in range(10)] == [draw(50)[:count] for count in range(10)]


@pytest.mark.parametrize(
    "changes", [{"seed": 4}, {"batch_size": 128}, {"wave": "learning_rate above 10"}], ids=str
)
def test_another_seed_batch_size_or_wave_draws_other_points(changes):
    here, there = positions(draw(16)), positions(draw(16, **changes))
    assert not np.isclose(here, there).any()


def test_seed_and_batch_size_do_not_stand_for_each_other():
    assert draw(4, seed=1, batch_size=2) != draw(4, seed=2, batch_size=1)


def test_points_bear_the_names_of_the_space_and_lie_in_its_bounds():
    for h in draw(200, space=WIDE):
        assert list(h) == [p.name for p in WIDE]
        assert all(p.low <= h[p.name] <= p.high for p in WIDE)
        assert h["learning_rate_decay_steps"].is_integer()


@pytest.mark.parametrize("seed", range(20))
def test_32_points_leave_no_eighth_of_a_range_empty(seed):
    """Chance would leave one empty in one of ten ranges."""
    for u in positions(draw(32, seed=seed)).T:
        assert (np.histogram(u, bins=8, range=(0, 1))[0] > 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_points_fill_the_plane_not_only_its_axes(seed):
    """36 points in 9 squares: four in each on average; chance leaves all with three for 4 %."""
    u = positions(draw(36, seed=seed))
    counts, _, _ = np.histogram2d(*u.T, bins=3, range=((0, 1), (0, 1)))
    assert counts.min() >= 3


@pytest.mark.parametrize(
    ("optimizer", "schedule", "expected"),
    [
        ("sgd", "constant", ["learning_rate"]),
        ("nesterov", "constant", ["learning_rate", "momentum"]),
        (
            "momentum",
            "linear",
            [
                "learning_rate",
                "end_learning_rate_factor",
                "learning_rate_decay_steps",
                "momentum",
            ],
        ),
    ],
)
def test_the_space_has_what_optimizer_and_schedule_ask_for(optimizer, schedule, expected):
    space = search_space(task(), configuration(optimizer=optimizer, schedule=schedule), 64)
    assert [p.name for p in space] == expected
    ranges = task().space
    assert [p for p in space if p.name in ranges] == [ranges[n] for n in expected if n in ranges]


def test_learning_rates_decay_over_at_least_half_of_the_step_budget():
    config = configuration(schedule="linear", max_steps=1000, max_examples=64 * 300)
    for batch_size, budget in [(16, 1000), (64, 300), (64 * 300, 2)]:
        space = {p.name: p for p in search_space(task(), config, batch_size)}
        decay = space["learning_rate_decay_steps"]
        assert (decay.scale, decay.low, decay.high) == ("integer", budget // 2, budget)
        assert decay.near(decay.high) is None


def test_a_task_may_have_a_range_of_its_own_for_the_decay():
    own = Parameter(name="learning_rate_decay_steps", scale="log", low=10, high=20)
    learned = task(space={**task().space, own.name: own})
    assert own in search_space(learned, configuration(schedule="linear"), 64)
