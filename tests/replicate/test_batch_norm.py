"""Batch normalisation: the same for any number of replicas, if groups are counted in examples."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import replicax as rx
from replicax.errors import UserError

N, FEATURES = 32, 5
rng = np.random.default_rng(4)
X = rng.normal(3, 2, (N, 2, FEATURES)).astype(np.float32)
WEIGHT = np.where(np.arange(N) < 27, 1, 0).astype(np.float32)


def plain(x, weight, size, epsilon=1e-5):
    """In float64, one group after the other; the moments are weighted means over groups."""
    out, means, variances, counts = np.empty(x.shape), [], [], []
    for i in range(0, len(x), size):
        seen = x[i : i + size][weight[i : i + size] > 0].reshape(-1, x.shape[-1]).astype(np.float64)
        if not len(seen):
            continue
        mean, variance = seen.mean(0), seen.var(0)
        out[i : i + size] = (x[i : i + size] - mean) / np.sqrt(variance + epsilon)
        means.append(mean), variances.append(variance), counts.append(len(seen))
    moments = [np.average(m, axis=0, weights=counts) for m in (means, variances)]
    return out, moments


def on_replicas(group, x=X, weight=WEIGHT, **options):
    def step(state, batch):
        y, moments = rx.batch_norm(batch["x"], batch["weight"], group=group)
        return state, (rx.per_replica(y), rx.all_mean(moments))

    with rx.Replicator(len(x), **options) as replicator:
        (batch,) = replicator.inputs(lambda _: [{"x": x, "weight": weight}])
        _, (y, moments) = replicator.compile(step)(jnp.zeros(()), batch)
    return np.asarray(y).reshape(x.shape), moments


@pytest.mark.parametrize(("group", "size"), [("global", 32), (4, 4), (8, 8), (16, 16), (32, 32)])
@pytest.mark.parametrize("replicas", [1, 2, 4, 8, 16])
def test_groups_of_examples(replicas, group, size):
    y, moments = on_replicas(group, replicas=replicas)
    expected, (mean, variance) = plain(X, WEIGHT, size)
    real = WEIGHT > 0
    np.testing.assert_allclose(y[real], expected[real], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(moments.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(moments.variance, variance, rtol=1e-4)


def test_the_group_of_a_replica_depends_on_how_many_there_are():
    for replicas in (1, 4):
        y, _ = on_replicas("replica", replicas=replicas)
        expected, _ = plain(X, WEIGHT, N // replicas)
        np.testing.assert_allclose(y[WEIGHT > 0], expected[WEIGHT > 0], rtol=1e-4, atol=1e-5)


def test_a_large_mean_does_not_cancel():
    """E[x^2] - E[x]^2 in float32 would give a variance of 0, or below."""
    x = (rng.normal(0, 1, (N, 1, FEATURES)) + 1e4).astype(np.float32)
    _, moments = on_replicas("global", x, replicas=8)
    _, (_, variance) = plain(x, WEIGHT, N)
    np.testing.assert_allclose(moments.variance, variance, rtol=1e-3)


def loss_fn(params, batch, group):
    y, moments = rx.batch_norm(batch["x"] * params, batch["weight"], group=group)
    return rx.weighted(jnp.square(y).sum((1, 2)) ** 1.5 + y[:, 0, 0], batch["weight"]), moments


@functools.cache
def gradient(group, **options):
    def step(state, batch):
        (loss, moments), g = rx.value_and_grad(loss_fn, has_aux=True)(state, batch, group)
        return g, (loss, rx.all_mean(moments))

    with rx.Replicator(N, **options) as replicator:
        (batch,) = replicator.inputs(lambda _: [{"x": X, "weight": WEIGHT}])
        g, values = replicator.compile(step)(jnp.arange(1.0, FEATURES + 1), batch)
    return jax.device_get((g, values))


@pytest.mark.parametrize(
    ("group", "options"),
    [
        ("global", {"replicas": 8}),
        ("global", {"replicas": 16, "devices": 4}),
        (8, {"replicas": 8}),
        (4, {"replicas": 2, "microbatches": 4}),
        (4, {"replicas": 2, "deterministic": True}),
    ],
)
def test_gradients_do_not_depend_on_the_split(group, options):
    found, expected = gradient(group, **options), gradient(group, replicas=1)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


def test_outside_of_a_replicator_the_batch_is_what_is_given():
    y, _ = rx.batch_norm(jnp.asarray(X), jnp.asarray(WEIGHT), group=8)
    expected, _ = plain(X, WEIGHT, 8)
    np.testing.assert_allclose(y[:24], expected[:24], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("group", "options", "message"),
    [
        (5, {"replicas": 2}, "must divide into groups.*groups of 5, 16 examples at hand and 32"),
        ("all", {"replicas": 2}, "'global', 'replica' or a number of examples; got 'all'"),
        (0, {"replicas": 2}, "got 0"),
    ],
)
def test_groups_that_are_refused(group, options, message):
    with pytest.raises(UserError, match=message):
        on_replicas(group, **options)


def test_a_group_larger_than_a_microbatch_is_refused():
    with pytest.raises(UserError, match=r"within a micro-batch.*groups of 32 and 4 examples"):
        gradient("global", replicas=2, microbatches=4)
