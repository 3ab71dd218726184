"""Search spaces: where a point lies, what is refused, and what widening makes of a range."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from replicax.tasks.space import EDGE, Parameter, values

ALMOST_1 = math.nextafter(1.0, 0.0)


def parameter(scale, low, high, limits=(-math.inf, math.inf)):
    return Parameter(name="x", scale=scale, low=low, high=high, limits=limits)


LINEAR = parameter("linear", -2.0, 6.0)
LOG = parameter("log", 1e-4, 10.0)
REVERSE_LOG = parameter("reverse_log", 0.0, 0.999)
INTEGER = parameter("integer", 3, 9)
DISCRETE = Parameter(name="x", scale="discrete", low=0, high=0, points=(0.0, 0.01, 0.1))

units = st.floats(0, ALMOST_1)


@st.composite
def continuous(draw):
    scale = draw(st.sampled_from(["linear", "log", "reverse_log"]))
    ends = {
        "linear": st.floats(-1e6, 1e6),
        "log": st.floats(1e-9, 1e6),
        "reverse_log": st.floats(-10, 1 - 1e-6),
    }[scale]
    low, high = sorted(draw(st.tuples(ends, ends)))
    assume(high - low > 1e-6 * max(1.0, abs(low), abs(high)))
    return parameter(scale, low, high)


@st.composite
def integers(draw):
    low, span = draw(st.integers(-1000, 10**6)), draw(st.integers(1, 10**6))
    return parameter("integer", low, low + span)


# Values and positions.


@given(st.one_of(continuous(), integers()), units)
def test_a_value_lies_within_the_bounds(p, u):
    assert p.low <= p.value(u) <= p.high
    assert p.value(0.0) == pytest.approx(p.low, abs=1e-9, rel=1e-9)


@given(st.one_of(continuous(), integers()), units, units)
def test_a_value_grows_with_its_position(p, u, v):
    u, v = sorted((u, v))
    assert p.value(u) <= p.value(v)
    assert p.value(0.0) < p.value(ALMOST_1)


@given(continuous(), units)
def test_position_is_the_inverse_of_value(p, u):
    assert p.position(p.value(u)) == pytest.approx(u, abs=1e-6)


@given(integers(), st.data())
def test_the_position_of_an_integer_gives_it_back(p, data):
    k = data.draw(st.integers(int(p.low), int(p.high)))
    assert p.value(p.position(k)) == k


@pytest.mark.parametrize("p", [LINEAR, LOG, REVERSE_LOG, INTEGER], ids=lambda p: p.scale)
def test_positions_of_the_bounds_are_0_and_1(p):
    assert (p.position(p.low), p.position(p.high)) == (0, 1)


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (LINEAR, [-2, 0, 2, 4]),
        (parameter("log", 1e-4, 1.0), [1e-4, 1e-3, 1e-2, 1e-1]),
        (parameter("reverse_log", 0.0, 0.9999), [0, 0.9, 0.99, 0.999]),
        (parameter("integer", 1, 4), [1, 2, 3, 4]),
    ],
    ids=lambda p: getattr(p, "scale", None),
)
def test_equal_distances_on_the_scale(p, expected):
    found = [p.value(u) for u in (0, 0.25, 0.5, 0.75)]
    assert found == pytest.approx(expected, abs=1e-12)


def test_every_integer_is_hit_equally_often():
    found = [INTEGER.value((i + 0.5) / 700) for i in range(700)]
    assert all(isinstance(value, float) for value in found)
    assert np.unique(found, return_counts=True)[1].tolist() == [100] * 7


def test_every_discrete_point_is_hit_equally_often_and_in_order():
    found = [DISCRETE.value((i + 0.5) / 300) for i in range(300)]
    assert found == sorted(found)
    assert [found.count(value) for value in DISCRETE.points] == [100] * 3
    assert DISCRETE.value(ALMOST_1) == 0.1


def test_values_of_a_point_bear_their_names():
    space = (replace(LOG, name="learning_rate"), replace(LINEAR, name="momentum"))
    assert values(space, (0.0, 0.5)) == {"learning_rate": 1e-4, "momentum": 2.0}
    with pytest.raises(ValueError, match="shorter"):
        values(space, (0.5,))


# Bounds.


@pytest.mark.parametrize("p", [LINEAR, LOG, REVERSE_LOG], ids=lambda p: p.scale)
def test_near_is_the_outer_twentieth_of_the_scale(p):
    inside, outside = EDGE + 1e-9, EDGE - 1e-9
    sides = [p.near(p.value(u)) for u in (0, outside, inside, 0.5, 1 - inside, 1 - outside)]
    assert sides == ["below", "below", None, None, None, "above"]
    assert p.near(p.high) == "above"
    assert EDGE == 0.05


@pytest.mark.parametrize("p", [LINEAR, LOG, REVERSE_LOG, INTEGER], ids=lambda p: p.scale)
def test_a_bound_at_its_limit_is_no_edge(p):
    closed_below = replace(p, limits=(p.low, math.inf))
    closed_above = replace(p, limits=(-math.inf, p.high))
    assert [p.near(p.low), p.near(p.high)] == ["below", "above"]
    assert [closed_below.near(p.low), closed_below.near(p.high)] == [None, "above"]
    assert [closed_above.near(p.low), closed_above.near(p.high)] == ["below", None]


def test_a_discrete_set_has_no_edge():
    assert [DISCRETE.near(value) for value in DISCRETE.points] == [None] * 3


@pytest.mark.parametrize(
    ("p", "side", "low", "high"),
    [
        (LINEAR, "below", -6, -2),
        (LINEAR, "above", 6, 10),
        (LOG, "below", 1e-5, 1e-4),
        (LOG, "above", 10, 100),
        (REVERSE_LOG, "above", 0.999, 0.9999),
        (parameter("reverse_log", 0.9, 0.99), "below", 0, 0.9),
        (INTEGER, "below", 0, 3),
        (INTEGER, "above", 9, 12),
        (parameter("linear", 0, 8, (-1, 9)), "below", -1, 0),
        (parameter("linear", 0, 8, (-1, 9)), "above", 8, 9),
        (parameter("log", 1e-4, 10, (5e-5, 20)), "below", 5e-5, 1e-4),
        (parameter("log", 1e-4, 10, (5e-5, 20)), "above", 10, 20),
        (parameter("reverse_log", 0.5, 0.99, (0.0, 0.995)), "below", 0, 0.5),
        (parameter("reverse_log", 0.5, 0.99, (0.0, 0.995)), "above", 0.99, 0.995),
        (parameter("integer", 5, 9, (4, 10)), "below", 4, 5),
        (parameter("integer", 5, 9, (4, 10)), "above", 9, 10),
    ],
)
def test_beyond_is_the_next_decade_or_half_span_within_the_limits(p, side, low, high):
    beyond = p.beyond(side)
    assert (beyond.low, beyond.high) == pytest.approx((low, high), abs=1e-12)
    assert (beyond.name, beyond.scale, beyond.limits) == (p.name, p.scale, p.limits)


@given(continuous(), st.sampled_from(["below", "above"]))
def test_a_range_and_the_one_beyond_join_without_gap(p, side):
    beyond = p.beyond(side)
    whole = p.joined(beyond)
    assert whole == beyond.joined(p)
    assert {p.low, p.high} & {beyond.low, beyond.high} == {p.low if side == "below" else p.high}
    assert (whole.low, whole.high) == (min(p.low, beyond.low), max(p.high, beyond.high))


# Refusals.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scale": "discrete"}, "'discrete': a discrete parameter needs at least one point"),
        ({"low": 2.0, "high": 2.0}, "needs low < high; got low=2.0, high=2.0"),
        ({"low": 3.0}, "needs low < high; got low=3.0, high=2.0"),
        ({"high": math.inf}, "needs low < high; got low=1.0, high=inf"),
        ({"low": math.nan}, "needs low < high; got low=nan"),
        ({"scale": "log", "low": 0.0}, "'log': needs low > 0; got low=0.0"),
        ({"scale": "log", "low": -1.0}, "'log': needs low > 0; got low=-1.0"),
        ({"scale": "reverse_log", "low": 0.5, "high": 1.0}, "needs high < 1; got high=1.0"),
        ({"limits": (1.5, 9.0)}, r"\[1.0, 2.0\] must lie within its limits \(1.5, 9.0\)"),
        ({"limits": (0.0, 1.5)}, r"\[1.0, 2.0\] must lie within its limits \(0.0, 1.5\)"),
    ],
)
def test_impossible_ranges_are_refused_with_name_rule_and_value(changes, message):
    possible = {"name": "x", "scale": "linear", "low": 1.0, "high": 2.0}
    Parameter(**possible)
    with pytest.raises(ValueError, match=f"^parameter 'x', scale .*{message}"):
        Parameter(**(possible | changes))
