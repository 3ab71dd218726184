"""Classification: loss and metrics against NumPy, and what padding may not change."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from replicax import tasks
from replicax.data import Batch

ERROR, ENTROPY = "val/classification_error", "val/cross_entropy_error"


@pytest.fixture(scope="module")
def digits():
    return tasks.get("digits")


@pytest.fixture(scope="module")
def params(digits):
    return digits.init(jax.random.key(5))


@pytest.fixture(scope="module")
def batch(digits):
    return digits.batch(digits.load(None).validation, jnp.arange(50))


def entropy_and_guess(params, batch):
    """Of each example, in NumPy and float64."""
    (w1, b1), (w2, b2) = jax.tree.map(np.float64, tuple(map(tuple, params)))
    image, label = np.asarray(batch.image), np.asarray(batch.label)
    logits = np.maximum(image.reshape(len(label), -1) @ w1 + b1, 0) @ w2 + b2
    entropy = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(label)), label]
    return entropy, logits.argmax(axis=1)


def test_loss_is_the_cross_entropy_of_each_example(digits, params, batch):
    expected, _ = entropy_and_guess(params, batch)
    loss = digits.loss(params, batch)
    assert (loss.shape, loss.dtype) == ((50,), np.float32)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_metrics_are_error_and_cross_entropy(digits, params, batch):
    weight = np.arange(50) % 4
    entropy, guess = entropy_and_guess(params, batch)
    wrong = guess != np.asarray(batch.label)
    assert 0 < wrong.sum() < 50
    metrics = digits.metrics(params, batch._replace(weight=jnp.float32(weight)))
    assert set(metrics) == {ERROR, ENTROPY}
    assert metrics[ERROR] == (weight @ wrong, weight.sum())
    assert metrics[ENTROPY].weight == weight.sum()
    assert metrics[ENTROPY].mean() == pytest.approx(np.average(entropy, weights=weight), rel=1e-5)


def test_padding_changes_no_metric(digits, params, batch):
    junk = Batch(jnp.full((7, 8, 8), 1e3), jnp.arange(7), jnp.zeros(7))
    padded = jax.tree.map(lambda *a: jnp.concatenate(a), batch, junk)
    found = digits.metrics(params, padded)
    for name, expected in digits.metrics(params, batch).items():
        assert found[name].weight == expected.weight == 50
        assert found[name].mean() == pytest.approx(expected.mean(), rel=1e-6)
