"""1,797 handwritten digits of 8 x 8 pixels, stored inside the package.

The test part of "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, UCI Machine
Learning Repository, 1998, CC BY 4.0; see NOTICE), in its original order. That order goes by writer,
so a cut into three consecutive parts would measure new writers only; the splits go by stride
instead: of every six consecutive examples the fifth is for validation, the sixth for the test and
the others for training.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from replicax.data.examples import Dataset, Examples

NAME = "digits"
LICENCE = "CC BY 4.0"
CREDIT = (
    "E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits (1998), "
    "UCI Machine Learning Repository, doi:10.24432/C50P49"
)
SIZES = (1_199, 299, 299)  # train, validation, test
FOLDER = Path(__file__).parent

_STRIDE = 6


def load() -> Dataset:
    """The data set; images uint8 [n, 8, 8] in 0..16, labels uint8 [n] in 0..9."""
    with np.load(FOLDER / "digits.npz", allow_pickle=False) as arrays:
        image, label = arrays["image"], arrays["label"]
    turn = np.arange(len(label)) % _STRIDE

    def split(which: NDArray[np.bool_]) -> Examples:
        examples = Examples(image[which], label[which])
        for array in examples:
            array.flags.writeable = False
        return examples

    return Dataset(
        name=NAME,
        num_classes=10,
        train=split(turn < _STRIDE - 2),
        validation=split(turn == _STRIDE - 2),
        test=split(turn == _STRIDE - 1),
    )
