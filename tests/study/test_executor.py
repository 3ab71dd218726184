"""Executors as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicax.errors import UserError
from replicax.study.executor import LOOPS, Executor

counts = st.integers(1, 10**9)


@given(st.sampled_from(LOOPS), counts, counts)
def test_an_executor_reads_back_from_its_text(loop, size, streams):
    executor = Executor(loop, size, streams)
    assert Executor.parse(str(executor)) == executor
    assert str(executor) == f"{loop}:{size}:{streams}"


@pytest.mark.parametrize("loop", ["scan", "unrolled", "dispatch"])
def test_there_are_three_loops(loop):
    assert Executor.parse(f"{loop}:4:2") == (loop, 4, 2)
    assert loop in LOOPS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "scan",
        "scan:4",
        "scan:4:",
        "scan:4:2:1",
        "scan:0:2",
        "scan:4:0",
        "scan:-4:2",
        "scan:4.0:2",
        "scan: 4:2",
        "scan:four:2",
        "SCAN:4:2",
        "loop:4:2",
        ":4:2",
        "4:2:scan",
    ],
)
def test_anything_else_is_refused_with_rule_and_value(text):
    with pytest.raises(UserError) as refused:
        Executor.parse(text)
    rule, got = str(refused.value).split("; ")
    assert rule == (
        "an executor is LOOP:SIZE:STREAMS with LOOP one of scan, unrolled, dispatch and two "
        "positive counts, e.g. scan:1:2"
    )
    assert got == f"got {text!r}"
