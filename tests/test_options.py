"""Command-line values: what is read, and what is refused with the rule and the value received."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicax.errors import UserError
from replicax.options import batch_sizes_option, seconds_option


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("64", (64,)),
        ("4,16,64", (4, 16, 64)),
        (" 4 , 16,64 ", (4, 16, 64)),
        ("64,4", (64, 4)),  # the order is the user's
        ("4..64", (4, 8, 16, 32, 64)),
        ("4..64x4", (4, 16, 64)),
        ("4..63x4", (4, 16)),  # a bound between two powers
        ("3..50", (3, 6, 12, 24, 48)),
        ("8..8", (8,)),
        ("1..1000x10", (1, 10, 100, 1000)),
        ("  4..16  ", (4, 8, 16)),
        ("-4,0", (-4, 0)),  # read here, refused by the study, which knows the data
    ],
)
def test_batch_sizes(text: str, expected: tuple[int, ...]) -> None:
    assert batch_sizes_option(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "four",
        "4,",
        ",4",
        "4,,16",
        "4 16",
        "4.5",
        "1e3",
        "4,16,x",
        "4..",
        "..64",
        "64..4",
        "0..64",
        "-4..64",
        "4..64x1",
        "4..64x0",
        "4..64x",
        "4...64",
        "4..8,64",
    ],
)
def test_bad_batch_sizes_are_refused_with_rule_and_value(text: str) -> None:
    with pytest.raises(UserError, match="batch sizes are whole numbers") as refused:
        batch_sizes_option(text)
    assert repr(text) in str(refused.value)
    assert "\n" not in str(refused.value)


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=20))
def test_a_list_of_batch_sizes_reads_back(sizes: list[int]) -> None:
    assert batch_sizes_option(",".join(map(str, sizes))) == tuple(sizes)


@given(st.integers(1, 10**6), st.integers(1, 10**9), st.integers(2, 100))
def test_a_range_grows_by_its_factor_to_its_bound(low: int, span: int, factor: int) -> None:
    high = low + span
    sizes = batch_sizes_option(f"{low}..{high}x{factor}")
    assert sizes[0] == low
    assert all(b == a * factor for a, b in pairwise(sizes))
    assert sizes[-1] <= high < sizes[-1] * factor


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90.0),
        ("10m", 600.0),
        ("2h", 7200.0),
        ("90", 90.0),
        ("1.5h", 5400.0),
        ("0.25s", 0.25),
        (" 10 m ", 600.0),
    ],
)
def test_seconds(text: str, expected: float) -> None:
    assert seconds_option("--time-limit", text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "s", "0", "0s", "0.0h", "-5s", "5d", "5ms", "1h30m", "ten", ".5s", "5.", "inf", "nan"],
)
def test_bad_seconds_are_refused_with_option_and_value(text: str) -> None:
    with pytest.raises(UserError, match="--time-limit is a positive time") as refused:
        seconds_option("--time-limit", text)
    assert repr(text) in str(refused.value)
    assert "\n" not in str(refused.value)
