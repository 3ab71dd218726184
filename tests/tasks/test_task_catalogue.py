"""The catalogue of tasks: what each name means, and that its defaults fit."""

from itertools import product

import jax
import numpy as np
import pytest

from replicax import data, tasks
from replicax.errors import UserError
from replicax.train import OPTIMIZERS, SCHEDULES, make_optimizer

SIZES = {entry.name: entry.sizes for entry in data.entries()}  # train, validation, test


# Names.


def test_names_are_of_data_sets_and_models():
    assert len(tasks.names()) == len(set(tasks.names()))
    assert {name.split("/")[0] for name in tasks.names()} == set(data.names())


@pytest.mark.parametrize("name", tasks.names())
def test_a_name_gives_its_task(name):
    dataset, model = name.split("/")
    task = tasks.get(name)
    assert task.name == tasks.full_name(name) == name
    shape = {"digits": (8, 8)}.get(dataset, (28, 28))
    params = jax.eval_shape(task.init, jax.random.key(0))
    assert params[0].weight.shape[0] == np.prod(shape)
    assert [layer.bias.shape[0] for layer in params] == [*map(int, model.split("_")[1:]), 10]


@pytest.mark.parametrize(
    ("dataset", "full"),
    [
        ("digits", "digits/fc_64"),
        ("mnist", "mnist/fc_1024"),
        ("fashion_mnist", "fashion_mnist/fc_100"),
    ],
)
def test_a_bare_data_set_means_its_default_model(dataset, full):
    assert tasks.full_name(dataset) == tasks.get(dataset).name == full


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("mnits", "mnist"),
        ("digit", "digits"),
        ("fashion-mnist", "fashion_mnist"),
        ("mnist/fc_64_64", "mnist/fc_64_64_64"),
        ("digits/fc_1024", "digits/fc_64"),
    ],
)
@pytest.mark.parametrize("ask", [tasks.get, tasks.full_name])
def test_an_unknown_name_is_answered_with_the_nearest(ask, name, near):
    with pytest.raises(UserError, match=f"^unknown task '{name}'; did you mean ") as refused:
        ask(name)
    offered = str(refused.value).partition("did you mean ")[2].rstrip("?").split(", ")
    assert near in offered
    assert len(offered) <= 3


def test_a_name_like_no_other_is_answered_with_all():
    with pytest.raises(UserError) as refused:
        tasks.get("?")
    assert all(name in str(refused.value) for name in (*data.names(), *tasks.names()))


# Defaults.


@pytest.mark.parametrize("name", tasks.names())
def test_defaults_fit_the_data_and_both_budgets(name):
    task = tasks.get(name)
    train = SIZES[name.split("/")[0]][0]
    assert sorted(set(task.batch_sizes)) == list(task.batch_sizes)
    for batch_size in task.batch_sizes:
        steps = min(task.max_steps, task.max_examples // batch_size)
        assert 1 <= batch_size <= train <= batch_size * steps  # an epoch at least


@pytest.mark.parametrize("name", tasks.names())
def test_the_goal_can_be_reached_and_must_be_learned(name):
    task = tasks.get(name)
    assert task.metric == "val/classification_error"
    assert (task.metric_range, task.maximize) == ((0, 1), False)
    assert 0 < task.goal < 0.5
    validation = SIZES[name.split("/")[0]][1]
    assert task.goal * validation > 1  # so few errors can be counted


@pytest.mark.parametrize("name", tasks.names())
def test_every_optimizer_and_schedule_finds_its_range(name):
    task = tasks.get(name)
    assert task.optimizer in OPTIMIZERS
    assert task.schedule in SCHEDULES
    for optimizer, schedule in product(OPTIMIZERS, SCHEDULES):
        wanted = make_optimizer(optimizer, schedule).hyperparameters
        of_the_study = {"learning_rate_decay_steps"}  # depends on the step budget
        assert set(wanted) - of_the_study <= set(task.space)
    assert all(name == parameter.name for name, parameter in task.space.items())
    assert task.space["learning_rate"].scale == "log"
    assert task.space["momentum"].near(0.0) is None  # plain gradient descent is inside
