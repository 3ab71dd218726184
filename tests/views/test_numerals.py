"""Numbers as people read them."""

import math

import pytest

from replicax.views import numerals


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123456, "0.0123"),
        (1234.5, "1,230"),
        (0.99951, "1.00"),
        (0.0, "0"),
        (-2.5, "-2.50"),
        (1e-7, "1e-7"),
        (2.3456e9, "2.35e9"),
        (math.nan, "-"),
        (math.inf, "-"),
        (None, "-"),
    ],
)
def test_significant(value, text):
    assert numerals.significant(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.9, "0.90"), (0.99, "0.990"), (0.998734, "0.9987"), (0.5, "0.50"), (0.0, "0"), (1.0, "1")],
)
def test_momentum_shows_two_digits_of_its_complement(value, text):
    assert numerals.momentum(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(2048.0, "2,048"), (324.2, "320"), (51.3, "51"), (1.26, "1.3")]
)
def test_batch_size_is_exact_when_whole_and_rounded_otherwise(value, text):
    assert numerals.examples_per_step(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (950, "950"), (1200, "1.2k"), (34_567, "35k"), (9_960, "10k"), (5.6e6, "5.6M")],
)
def test_short(value, text):
    assert numerals.short(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (59.4, "59s"), (61, "1m01s"), (3 * 3600 + 60, "3h01m"), (90_000, "1d01h")],
)
def test_duration(seconds, text):
    assert numerals.duration(seconds) == text


def test_comma_list():
    assert numerals.comma_list([]) == ""
    assert numerals.comma_list(["a"]) == "a"
    assert numerals.comma_list(["a", "b"]) == "a and b"
    assert numerals.comma_list(["a", "b", "c"]) == "a, b and c"


@pytest.mark.parametrize(
    ("low", "high"), [(1, 4), (0.7, 1.9), (3, 1e9), (60, 70), (1e-6, 1e3), (0.031, 0.034)]
)
def test_decimal_ticks_lie_inside_and_are_two_to_the_limit(low, high):
    ticks = numerals.decimal_ticks(low, high, at_most=5)
    assert 2 <= len(ticks) <= 5
    assert ticks == sorted(ticks)
    assert low * 0.999 <= ticks[0] <= ticks[-1] <= high * 1.001


def test_power_ticks_are_evenly_thinned():
    assert numerals.power_ticks(1.4, 17, at_most=10) == [2, 4, 8, 16]
    assert numerals.power_ticks(1, 2**12, at_most=5) == [1, 8, 64, 512, 4096]
    assert numerals.power_ticks(0.5, 1, at_most=5) == [0.5, 1]
