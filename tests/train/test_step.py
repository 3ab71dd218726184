"""The one step against a gradient written out in NumPy; evaluation as a merge of its parts."""

import re
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from replicax import tasks
from replicax.data import Batch, Examples
from replicax.replicate import TrainState, WeightedSum
from replicax.train import make_evaluate, make_init, make_optimizer, make_step

H = {"learning_rate": 0.5, "momentum": 0.7}
KEY = jax.random.key(11)


@pytest.fixture(scope="module")
def digits():
    return tasks.get("digits")


@pytest.fixture(scope="module")
def data(digits):
    return digits.load(None)


@pytest.fixture(scope="module")
def batch(digits, data):
    """Examples of unequal weights, some of them 0."""
    return digits.batch(data.train, jnp.arange(24))._replace(weight=jnp.arange(24.0) % 3)


def loss_and_gradient(params, batch):
    """Of the weighted mean cross-entropy of a network with one hidden layer, in float64."""
    (w1, b1), (w2, b2) = params
    image, label, weight = (np.asarray(array) for array in batch)
    x = np.float64(image).reshape(len(label), -1)
    share = np.float64(weight) / weight.sum()
    hidden = np.maximum(x @ w1 + b1, 0)
    odds = np.exp(hidden @ w2 + b2)
    probability = odds / odds.sum(axis=1, keepdims=True)
    right = np.eye(10)[label]
    loss = -share @ np.log((probability * right).sum(axis=1))
    d_logits = share[:, None] * (probability - right)
    d_hidden = (d_logits @ w2.T) * (hidden > 0)
    return loss, ((x.T @ d_hidden, d_hidden.sum(0)), (hidden.T @ d_logits, d_logits.sum(0)))


def assert_close(found, expected, **tolerance):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


@pytest.mark.parametrize("name", ["sgd", "momentum", "nesterov"])
def test_steps_equal_those_of_numpy(digits, batch, name):
    optimizer = make_optimizer(name)
    state, step = make_init(digits, optimizer)(KEY, H), jax.jit(make_step(digits, optimizer))
    params = jax.tree.map(lambda a: np.asarray(a, np.float64), tuple(map(tuple, state.params)))
    velocity = jax.tree.map(np.zeros_like, params)
    eta, gamma = H["learning_rate"], H["momentum"]
    for _ in range(3):
        before, gradient = loss_and_gradient(params, batch)
        velocity = jax.tree.map(lambda v, g: gamma * v + g, velocity, gradient)
        change = {
            "sgd": gradient,
            "momentum": velocity,
            "nesterov": jax.tree.map(lambda v, g: g + gamma * v, velocity, gradient),
        }[name]
        params = jax.tree.map(lambda p, c: p - eta * c, params, change)
        state, loss = step(state, H, batch)
        assert float(loss) == pytest.approx(before, rel=1e-5)  # the loss before the update
        assert_close(state.params, params, rtol=1e-4, atol=1e-6)
    assert loss_and_gradient(params, batch)[0] < 0.99 * before


def test_padding_changes_no_step(digits, batch):
    optimizer = make_optimizer("nesterov")
    state, step = make_init(digits, optimizer)(KEY, H), jax.jit(make_step(digits, optimizer))
    junk = Batch(jnp.full((8, 8, 8), 50.0), jnp.arange(8), jnp.zeros(8))
    padded = jax.tree.map(lambda *a: jnp.concatenate(a), batch, junk)
    (expected, loss), (found, padded_loss) = step(state, H, batch), step(state, H, padded)
    assert float(padded_loss) == pytest.approx(float(loss), rel=1e-6)
    assert_close(found, expected, rtol=1e-5, atol=1e-7)


def test_a_step_is_that_of_the_whole_batch_whatever_its_scale(digits, batch):
    """Doubling every weight changes neither the mean nor the step."""
    optimizer = make_optimizer("sgd")
    state, step = make_init(digits, optimizer)(KEY, H), jax.jit(make_step(digits, optimizer))
    double = batch._replace(weight=2 * batch.weight)
    assert_close(step(state, H, double), step(state, H, batch), rtol=1e-5, atol=1e-7)


def test_the_first_state_is_a_function_of_the_key(digits):
    optimizer = make_optimizer("momentum")
    init = make_init(digits, optimizer)
    state = init(KEY, H)
    assert_close(state, init(KEY, H), rtol=0)
    assert_close(state.params, digits.init(KEY), rtol=0)
    assert not np.isclose(
        state.params[0].weight, init(jax.random.key(12), H).params[0].weight
    ).any()
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(state.optimizer_state))


def test_a_loop_of_steps_copies_no_weight_matrix():
    """For a large net and a small batch such a copy is a good part of the time."""
    task, optimizer = tasks.get("mnist/fc_1024_1024"), make_optimizer("nesterov")
    step = make_step(task, optimizer)

    def steps(state, h, batches):
        return jax.lax.scan(lambda state, batch: step(state, h, batch), state, batches)

    state = jax.eval_shape(make_init(task, optimizer), KEY, H)
    batches = Batch(jnp.zeros((9, 8, 28, 28)), jnp.zeros((9, 8), int), jnp.ones((9, 8)))
    program = jax.jit(steps, donate_argnums=0).lower(state, H, batches).compile().as_text()
    loop, _ = program.split("\nENTRY ")
    assert "f32[1024,1024]" in loop
    assert not re.findall(r"= f32\[(?:784|1024),1024\]\S* copy\(", loop)


@pytest.mark.parametrize("size", [100, 299])
def test_evaluation_is_the_merge_of_its_parts(digits, data, size):
    evaluate, state = jax.jit(make_evaluate(digits)), TrainState(digits.init(KEY), None)
    image, label = data.validation
    parts = [
        evaluate(state, Examples(image[i : i + size], label[i : i + size]))
        for i in range(0, 299, size)
    ]
    for name, whole in evaluate(state, data.validation).items():
        merged = reduce(WeightedSum.merge, (part[name] for part in parts))
        assert whole.weight == merged.weight == 299
        assert merged.mean() == pytest.approx(whole.mean(), rel=1e-6)
