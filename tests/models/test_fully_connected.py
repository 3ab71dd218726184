"""Fully connected networks: what they start as, and what they compute."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from replicax.models import fully_connected

KEY = jax.random.key(0)


def leaves(params):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(params)]


@pytest.mark.parametrize(
    ("widths", "shapes"),
    [
        ((), [(12, 3)]),
        ((7,), [(12, 7), (7, 3)]),
        ((7, 5, 6), [(12, 7), (7, 5), (5, 6), (6, 3)]),
    ],
)
def test_one_layer_per_width_and_one_for_the_logits(widths, shapes):
    params = fully_connected(12, widths, 3).init(KEY)
    assert [layer.weight.shape for layer in params] == shapes
    assert [layer.bias.shape for layer in params] == [(outputs,) for _, outputs in shapes]
    assert {leaf.dtype for leaf in leaves(params)} == {np.dtype(np.float32)}


@pytest.mark.parametrize(("inputs", "outputs"), [(784, 1024), (1024, 10), (64, 2000)])
def test_weights_start_glorot_uniform_and_biases_zero(inputs, outputs):
    ((weight, bias),) = fully_connected(inputs, (), outputs).init(KEY)
    bound = np.sqrt(6 / (inputs + outputs))
    assert 0.999 * bound < np.abs(weight).max() <= bound
    # Bounds of about five standard deviations: kurtosis of a uniform distribution is 1.8.
    assert np.var(weight) == pytest.approx(bound**2 / 3, rel=5 * np.sqrt(0.8 / weight.size))
    assert abs(np.mean(weight)) < 5 * bound / np.sqrt(3 * weight.size)
    assert not bias.any()


def test_layers_of_equal_shape_start_unequal():
    first, second, _ = fully_connected(6, (6, 6), 6).init(KEY)
    assert not np.isclose(first.weight, second.weight).any()


def test_weights_are_a_function_of_the_key():
    model = fully_connected(12, (7,), 3)
    once, again, compiled = model.init(KEY), model.init(KEY), jax.jit(model.init)(KEY)
    other = model.init(jax.random.key(1))
    for a, b, c in zip(leaves(once), leaves(again), leaves(compiled), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, rtol=1e-6)
    for a, b in zip(once, other, strict=True):
        assert not np.isclose(a.weight, b.weight).any()


@pytest.mark.parametrize("widths", [(), (7,), (7, 5, 6)])
def test_logits_equal_those_of_numpy(widths):
    model = fully_connected(12, widths, 3)
    rng = np.random.default_rng(1)
    params = jax.tree.map(lambda a: rng.normal(size=a.shape), model.init(KEY))
    image = rng.random((9, 3, 4))

    x = image.reshape(9, 12)
    for weight, bias in params[:-1]:
        x = np.maximum(x @ weight + bias, 0)
    expected = x @ params[-1].weight + params[-1].bias

    logits = model.apply(jax.tree.map(jnp.float32, params), jnp.float32(image))
    assert (logits.shape, logits.dtype) == ((9, 3), np.float32)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)
    assert (expected < 0).any()  # the last layer has no ReLU
