"""Weighted sums, and the batch that a step sees."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replicax import tasks
from replicax.data import Examples
from replicax.replicate import WeightedSum

# Weighted sums.


@given(
    st.lists(st.tuples(st.integers(-(10**6), 10**6), st.integers(1, 1000)), min_size=1),
    st.randoms(use_true_random=False),
)
def test_parts_merge_to_the_whole_in_any_order(pairs, random):
    parts = [WeightedSum(value * weight, weight) for value, weight in pairs]
    random.shuffle(parts)
    while len(parts) > 1:
        parts.append(parts.pop(0).merge(parts.pop(random.randrange(len(parts)))))
    values, weights = zip(*pairs, strict=True)
    assert parts[0].weight == sum(weights)
    assert parts[0].mean() == np.average(values, weights=weights)


def test_a_mean_is_divided_in_float64():
    """650 errors of 5,000 are not strictly below 0.13; divided in float32 they would be."""
    wrong, weight = np.float32(650), np.float32(5000)
    assert float(wrong / weight) < 0.13
    mean = WeightedSum(wrong, weight).mean()
    assert mean.dtype == np.float64
    assert mean == 0.13
    assert WeightedSum(jnp.float32(649), jnp.float32(5000)).mean() < 0.13


def test_means_of_many_trials_at_once():
    total, weight = jnp.array([1.0, 2.0, jnp.nan]), jnp.array([4.0, 4.0, 4.0])
    np.testing.assert_array_equal(WeightedSum(total, weight).mean(), [0.25, 0.5, np.nan])


# Batches.


def test_a_batch_is_the_scaled_examples_at_some_indices():
    digits = tasks.get("digits")
    validation = digits.load(None).validation
    indices = jnp.array([7, 0, 7, 298])
    batch = digits.batch(validation, indices)
    np.testing.assert_array_equal(batch.image, validation.image[indices] / np.float32(16))
    np.testing.assert_array_equal(batch.label, validation.label[indices])
    np.testing.assert_array_equal(batch.weight, np.ones(4))
    assert [leaf.dtype for leaf in batch] == [np.float32, np.int32, np.float32]
    compiled = jax.jit(digits.batch)(validation, indices)
    np.testing.assert_allclose(compiled.image, batch.image, rtol=1e-6)


@pytest.mark.parametrize("name", ["digits", "mnist", "fashion_mnist"])
def test_the_brightest_pixel_becomes_1(name):
    brightest = {"digits": 16}.get(name, 255)
    examples = Examples(np.array([[[0, brightest]]], np.uint8), np.array([3], np.uint8))
    image = tasks.get(name).batch(examples, jnp.array([0])).image
    np.testing.assert_array_equal(image, [[[0, 1]]])
