"""What cannot work is refused with the rule, the value received and the remedy."""

import math
import re

import pytest
from small_studies import configuration, task

from replicax.errors import UserError
from replicax.study.checks import check

TRAIN = 1199  # examples


@pytest.mark.parametrize(
    ("changes", "rule", "got"),
    [
        ({"optimizer": "adam"}, "known: sgd, momentum, nesterov", "unknown optimizer 'adam'"),
        ({"schedule": "cosine"}, "known: constant, linear", "unknown schedule 'cosine'"),
        ({"trials": 0}, "--trials must be at least 1", "got 0"),
        ({"trials": -3}, "--trials must be at least 1", "got -3"),
        ({"max_steps": 0}, "--max-steps must be at least 1", "got 0"),
        ({"max_examples": 0}, "--max-examples must be at least 1", "got 0"),
        ({"batch_sizes": ()}, "at least one batch size", "give --batch-sizes 16,64,256"),
        ({"batch_sizes": (64, 16, 64)}, "every batch size may stand once", "given twice: [64]"),
    ],
)
def test_a_choice_is_refused(changes, rule, got):
    with pytest.raises(UserError) as refused:
        check(configuration(**changes), task(), TRAIN)
    assert rule in str(refused.value)
    assert got in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("goal", [0.0, 1.0, -0.1, 1.5, math.nan, math.inf])
def test_a_goal_outside_of_what_the_metric_can_be_is_refused(goal):
    message = (
        "the goal must lie between 0 and 1, the range of val/classification_error; "
        f"got {goal:g}; give another --goal (default {task().goal:g})"
    )
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        check(configuration(goal=goal), task(), TRAIN)


@pytest.mark.parametrize("batch_size", [0, -4, 1200])
def test_a_batch_size_outside_of_the_data_is_refused(batch_size):
    message = (
        "a batch size must be between 1 and 1199, the training examples of digits/fc_64; "
        f"got {batch_size}; change --batch-sizes"
    )
    with pytest.raises(UserError, match=f"^{message}$"):
        check(configuration(batch_sizes=(64, batch_size)), task(), TRAIN)


def test_an_example_budget_below_one_step_is_refused():
    message = (
        "the example budget must cover one step at every batch size; got --max-examples 255 at "
        "batch size 256; raise it or drop that size"
    )
    with pytest.raises(UserError, match=f"^{message}$"):
        check(configuration(batch_sizes=(16, 256), max_examples=255), task(), TRAIN)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"goal": 1e-9},
        {"goal": 0.999},
        {"trials": 1, "max_steps": 1},
        {"batch_sizes": (1199, 1)},
        {"batch_sizes": (16, 256), "max_examples": 256},
        {"optimizer": "sgd", "schedule": "linear"},
    ],
)
def test_what_can_just_work_is_accepted(changes):
    check(configuration(**changes), task(), TRAIN)
