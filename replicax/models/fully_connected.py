"""Fully connected networks, the `fc_*` of Shallue et al. 2019."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp

from replicax.models.model import Model


class Layer(NamedTuple):
    weight: jax.Array  # float32 [inputs, outputs]
    bias: jax.Array  # float32 [outputs]


def fully_connected(inputs: int, widths: Sequence[int], classes: int) -> Model:
    """ReLU layers of the given widths, then a linear layer of one logit per class.

    Weights start Glorot uniform and biases zero, the defaults of the framework that the paper
    used; the paper's own choice is not published.

    Args:
      inputs: numbers per example.
      widths: hidden units per layer.
      classes: number of logits.
    """
    sizes = (inputs, *widths, classes)

    def init(key: jax.Array) -> tuple[Layer, ...]:
        glorot = jax.nn.initializers.glorot_uniform()
        keys = jax.random.split(key, len(sizes) - 1)
        return tuple(
            Layer(glorot(k, (m, n), jnp.float32), jnp.zeros(n, jnp.float32))
            for k, (m, n) in zip(keys, pairwise(sizes), strict=True)
        )

    def apply(params: tuple[Layer, ...], image: jax.Array) -> jax.Array:
        *hidden, last = params
        x = image.reshape(image.shape[0], -1)
        for layer in hidden:
            x = jax.nn.relu(x @ layer.weight + layer.bias)
        return x @ last.weight + last.bias

    return Model(init, apply)
