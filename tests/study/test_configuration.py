"""A configuration survives its JSON, says how it differs, and bounds a trial by both budgets."""

import json
from dataclasses import FrozenInstanceError, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_studies import configuration, task

from replicax.study.configuration import Configuration
from replicax.study.executor import LOOPS, Executor

positive = st.integers(1, 10**9)
executors = st.builds(Executor, st.sampled_from(LOOPS), positive, positive)
configurations = st.builds(
    Configuration,
    task=st.text(),
    optimizer=st.text(),
    schedule=st.text(),
    metric=st.text(),
    maximize=st.booleans(),
    goal=st.floats(allow_nan=False),
    batch_sizes=st.lists(positive).map(tuple),
    trials=positive,
    count_feasible=st.booleans(),
    max_steps=positive,
    max_examples=positive,
    exhaustive=st.booleans(),
    widen=st.booleans(),
    seed=st.integers(),
    executor=st.none() | executors,
    min_gap=st.none() | positive,
)


def test_a_task_suggests_its_study():
    digits = task()
    config = Configuration.of(digits, trials=5, seed=2)
    assert (config.task, config.metric, config.maximize) == (
        "digits/fc_64",
        "val/classification_error",
        False,
    )
    for name in ("optimizer", "schedule", "goal", "batch_sizes", "max_steps", "max_examples"):
        assert getattr(config, name) == getattr(digits, name)
    assert (config.trials, config.seed) == (5, 2)
    assert (config.count_feasible, config.exhaustive, config.widen) == (False, False, True)
    assert (config.executor, config.min_gap) == (None, None)


@given(configurations)
def test_json_gives_the_same_configuration_back(config):
    text = config.to_json()
    back = Configuration.from_json(text)
    assert back == config
    assert hash(back) == hash(config)
    assert back.differences(config) == []
    assert back.to_json() == text
    assert set(json.loads(text)) == {f.name for f in fields(Configuration)}


@given(configurations, configurations)
def test_every_choice_that_differs_is_named_once(one, other):
    named = [line.split(": ")[0] for line in one.differences(other)]
    names = [f.name for f in fields(Configuration)]
    assert named == [name for name in names if getattr(one, name) != getattr(other, name)]


def test_a_difference_shows_both_values():
    here = configuration()
    there = replace(here, seed=7, batch_sizes=(4, 16), executor=None)
    assert here.differences(there) == [
        "batch_sizes: (64,), not (4, 16)",
        "seed: 0, not 7",
        "executor: scan:4:2, not None",
    ]


@given(st.integers(1, 10**7), st.integers(1, 10**7), st.integers(1, 10**5))
def test_the_step_budget_is_the_most_that_both_budgets_allow(max_steps, max_examples, batch_size):
    config = configuration(max_steps=max_steps, max_examples=max_examples)
    budget = config.step_budget(batch_size)
    assert budget <= max_steps
    assert budget * batch_size <= max_examples
    assert budget == max_steps or (budget + 1) * batch_size > max_examples


def test_a_configuration_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        configuration().seed = 1
