"""The contract of a network."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

Params = Any  # any pytree of float32 arrays


class Model(NamedTuple):
    """A pair of pure functions.

    Attributes:
      init: key -> params.
      apply: (params, image float32 [batch, height, width]) -> logits float32 [batch, classes].
    """

    init: Callable[[jax.Array], Params]
    apply: Callable[[Params, jax.Array], jax.Array]
