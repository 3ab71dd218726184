"""Optimizers and schedules against the formulas of Shallue et al. 2019, written out in NumPy."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from replicax.train import OPTIMIZERS, SCHEDULES, make_optimizer

WORKLOADS = list(product(OPTIMIZERS, SCHEDULES))
STEPS = 7
POINT = {
    "learning_rate": 0.3,
    "momentum": 0.8,
    "end_learning_rate_factor": 0.1,
    "learning_rate_decay_steps": 4.0,
}
START = np.array([1.0, -2.0, 0.5])
GRADIENTS = np.random.default_rng(0).normal(size=(STEPS, 3))


def rate(schedule, h, t):
    eta_0, alpha, T = (
        h["learning_rate"],
        h["end_learning_rate_factor"],
        h["learning_rate_decay_steps"],
    )
    if schedule == "constant":
        return eta_0
    return eta_0 - (1 - alpha) * eta_0 * t / T if t <= T else alpha * eta_0


def recursion(optimizer, schedule, h):
    """Parameters after every step."""
    theta, v, gamma = START, np.zeros(3), h["momentum"]
    for t, g in enumerate(GRADIENTS):
        eta = rate(schedule, h, t)
        v = gamma * v + g
        change = {"sgd": g, "momentum": v, "nesterov": g + gamma * v}[optimizer]
        theta = theta - eta * change
        yield theta


def trajectory(optimizer, h):
    transformation = optimizer.build({name: h[name] for name in optimizer.hyperparameters})
    theta = jnp.asarray(START, jnp.float32)
    state = transformation.init(theta)
    for g in jnp.asarray(GRADIENTS, jnp.float32):
        update, state = transformation.update(g, state, theta)
        theta = optax.apply_updates(theta, update)
        yield theta


@pytest.mark.parametrize(("name", "schedule"), WORKLOADS)
@pytest.mark.parametrize("gamma", [0.0, 0.8, 0.99])
def test_updates_follow_the_published_recursion(name, schedule, gamma):
    h = POINT | {"momentum": gamma}
    found = list(trajectory(make_optimizer(name, schedule), h))
    np.testing.assert_allclose(found, list(recursion(name, schedule, h)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["momentum", "nesterov"])
def test_momentum_0_is_plain_gradient_descent(name):
    h = POINT | {"momentum": 0.0}
    plain = list(trajectory(make_optimizer("sgd"), h))
    np.testing.assert_array_equal(list(trajectory(make_optimizer(name), h)), plain)


@pytest.mark.parametrize(
    ("t", "expected"),
    [(0, 2.0), (1, 1.96), (25, 1.0), (40, 0.4), (50, 0.0), (51, 0.0), (10**6, 0.0)],
)
@pytest.mark.parametrize("alpha", [0.0, 0.25, 1.0])
def test_linear_decay_ends_at_its_factor_and_stays_there(t, expected, alpha):
    h = {"learning_rate": 2.0, "end_learning_rate_factor": alpha, "learning_rate_decay_steps": 50}
    eta = SCHEDULES["linear"].rate(h)
    expected = alpha * 2.0 + (1 - alpha) * expected
    assert float(eta(jnp.int32(t))) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_the_constant_rate_is_the_learning_rate():
    assert SCHEDULES["constant"].rate(POINT) == 0.3


@pytest.mark.parametrize(
    ("name", "schedule", "expected"),
    [
        ("sgd", "constant", {"learning_rate"}),
        ("momentum", "constant", {"learning_rate", "momentum"}),
        ("nesterov", "linear", set(POINT)),
        ("sgd", "linear", set(POINT) - {"momentum"}),
    ],
)
def test_an_optimizer_names_what_it_needs(name, schedule, expected):
    wanted = make_optimizer(name, schedule).hyperparameters
    assert len(wanted) == len(expected)
    assert set(wanted) == expected


@pytest.mark.parametrize(("name", "schedule"), WORKLOADS)
def test_one_program_serves_all_hyperparameters(name, schedule):
    optimizer = make_optimizer(name, schedule)
    traced = 0

    @jax.jit
    def run(h):
        nonlocal traced
        traced += 1
        return list(trajectory(optimizer, h))[-1]

    for factor in (1.0, 0.5, 0.1):
        h = {key: factor * value for key, value in POINT.items()}
        *_, expected = recursion(name, schedule, h)
        np.testing.assert_allclose(run(h), expected, rtol=1e-5, atol=1e-6)
    assert traced == 1
