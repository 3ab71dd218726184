"""What a data set is once it is in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Examples(NamedTuple):
    """Images and their labels; a pytree of two arrays, read-only when it comes from `load`."""

    image: NDArray[np.uint8]  # [n, height, width], as published, not scaled
    label: NDArray[np.uint8]  # [n], 0..num_classes - 1


class Batch(NamedTuple):
    """Examples as a step sees them, arrays of NumPy or JAX."""

    image: Any  # float32 [batch, height, width], 0..1
    label: Any  # int32 [batch]
    weight: Any  # float32 [batch], 0 for padding


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A data set in three splits that share no example.

    Attributes:
      name: as in `names()`.
      num_classes: number of labels.
      train, validation, test: the splits, in the order in which they were published.
    """

    name: str
    num_classes: int
    train: Examples
    validation: Examples
    test: Examples
