"""What a data set is, once loaded."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Examples(NamedTuple):
    """Labelled images.

    Attributes:
      image: uint8 [n, height, width].
      label: uint8 [n], 0 .. classes - 1.
    """

    image: NDArray[np.uint8]
    label: NDArray[np.uint8]


class Dataset(NamedTuple):
    """The three splits of a data set, fixed once and for all."""

    train: Examples
    validation: Examples
    test: Examples
