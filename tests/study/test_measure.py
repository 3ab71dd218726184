"""The fastest executor: by what was measured on a real task, and by the rule for what pays."""

import pytest
from small_studies import task

from replicax.study.executor import Executor
from replicax.study.measure import _GAIN, Speed, _climb, _cores, fastest_executor
from replicax.study.programs import Programs
from replicax.train import make_optimizer

POINT = {"learning_rate": 0.01}


@pytest.fixture(scope="module")
def programs():
    digits = task()
    return Programs(digits, make_optimizer("sgd"), digits.load(None), batch_size=16, seed=0)


# Measured.


@pytest.fixture(scope="module", params=[1, 4])
def trials(request):
    return request.param


@pytest.fixture(scope="module")
def speed(programs, trials):
    return fastest_executor(programs, POINT, trials)


def test_no_candidate_is_faster_by_more_than_what_pays(speed):
    measured = speed.candidates[str(speed.executor)]
    assert measured == pytest.approx(speed.trial_steps_per_second, abs=0.06)
    assert max(speed.candidates.values()) <= _GAIN * measured + 0.1


def test_the_simplest_are_tried_and_no_group_exceeds_the_trials(speed, trials):
    tried = {Executor.parse(text) for text in speed.candidates}
    assert {Executor("scan", 1, 1), Executor("dispatch", 1, 1)} <= tried
    assert max(e.size for e in tried) == trials
    assert max(e.streams for e in tried) == min(trials, _cores())


def test_seconds_are_of_one_trial(speed):
    assert speed.seconds_per_step == 1 / speed.trial_steps_per_second
    # 299 evaluated examples cost more than the forward pass of one batch of 16, less than 1,000.
    assert 0 < speed.seconds_per_evaluation < 1000 * speed.seconds_per_step


@pytest.mark.parametrize("fixed", [Executor("dispatch", 2, 1), Executor("unrolled", 1, 2)], ids=str)
def test_a_fixed_executor_is_measured_alone(programs, fixed):
    speed = fastest_executor(programs, POINT, trials=8, fixed=fixed)
    assert speed.executor == fixed
    assert list(speed.candidates) == [str(fixed)]
    assert speed.trial_steps_per_second > 0


def test_a_speed_says_what_was_chosen_and_what_else_was_tried():
    tried = {"scan:1:1": 12_345.6, "dispatch:1:1": 400.0}
    speed = Speed(Executor("scan", 1, 1), 12_345.6, 1 / 12_345.6, 1e-3, tried)
    assert str(speed) == "scan:1:1 makes 12,346 trial steps/s (dispatch:1:1 400)"
    alone = speed._replace(candidates={"scan:1:1": 12_345.6})
    assert str(alone) == "scan:1:1 makes 12,346 trial steps/s"


# The rule, on speeds that are given.


def climb(trials, **factors):
    """What is chosen if one stream of one trial does 100 steps per second, times some factors."""
    tried = []

    def speed(executor):
        tried.append(executor)
        loop = {"scan": 1.0, "dispatch": 0.5, "unrolled": 0.8}[executor.loop]
        loop = factors.get(executor.loop, loop)
        size = factors.get("per_trial", 1.0) ** (executor.size - 1)
        streams = factors.get("per_stream", 1.0) ** (executor.streams - 1)
        return 100 * loop * size * streams

    return _climb(speed, trials), tried


@pytest.mark.parametrize(
    ("factors", "loop"),
    [
        ({}, "scan"),
        ({"dispatch": 1.2}, "dispatch"),
        ({"dispatch": 1.2, "unrolled": 1.3}, "unrolled"),
        ({"dispatch": 0.9, "unrolled": 1.3}, "scan"),
    ],
)
def test_the_fastest_loop_is_taken(factors, loop):
    """Chunks without a loop are tried only where single calls beat the loop."""
    best, tried = climb(1, **factors)
    assert best == Executor(loop, 1, 1)
    assert ("unrolled" in {e.loop for e in tried}) == (factors.get("dispatch", 0) > 1)


@pytest.mark.parametrize(
    ("per_trial", "trials", "size"),
    [(1.5, 64, 64), (1.5, 63, 16), (1.5, 3, 1), (1.5, 4, 4), (1.01, 64, 1), (0.9, 64, 1)],
)
def test_groups_grow_fourfold_while_it_pays(per_trial, trials, size):
    best, _ = climb(trials, per_trial=per_trial)
    assert best == Executor("scan", size, 1)


@pytest.mark.parametrize("trials", [1, 2, 3])
@pytest.mark.parametrize(("per_stream", "pays"), [(1.9, True), (1.04, False), (0.6, False)])
def test_streams_are_used_if_they_pay(trials, per_stream, pays):
    most = min(trials, _cores())
    gain = per_stream ** (most - 1)
    best, _ = climb(trials, per_stream=per_stream)
    assert best.streams == (most if pays or gain > _GAIN else 1)


def test_larger_groups_may_do_without_streams():
    """Where a group of four beats one stream and two of them fight, one stream is left."""

    def speed(executor):
        return {(1, 1): 100, (4, 1): 300}.get((executor.size, executor.streams), 110)

    assert _climb(speed, 4) == Executor("scan", 4, 1)
