"""The data sets that others publish as IDX files: what they are and how to read them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from replicax.data import idx
from replicax.data.examples import Dataset, Examples
from replicax.data.idx import IdxError
from replicax.errors import UserError


class File(NamedTuple):
    """One file as published; it may lie here as it is or as `.gz`."""

    stem: str  # file name without `.gz`
    shape: tuple[int, ...]
    sha256: str  # hex, of the uncompressed content


@dataclass(frozen=True, kw_only=True)
class Published:
    """A data set of four IDX files.

    Attributes:
      name: as in `names()`, and the name of its folder.
      num_classes: number of labels.
      validation: how many of the last examples of the official train part are set aside.
      train_image, train_label, test_image, test_label: the files.
      mirrors: base addresses; a file is at base + stem + ".gz".
      licence: in a few words.
      credit: who made it.
      system_folder: where an operating system's package puts it, or None.
      package_remedy: how to install that package, as the end of a sentence, or "".
    """

    name: str
    num_classes: int
    validation: int
    train_image: File
    train_label: File
    test_image: File
    test_label: File
    mirrors: tuple[str, ...]
    licence: str
    credit: str
    system_folder: Path | None = None
    package_remedy: str = ""

    @property
    def files(self) -> tuple[File, File, File, File]:
        """The four files."""
        return self.train_image, self.train_label, self.test_image, self.test_label

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of examples: train, validation, test."""
        official = self.train_label.shape[0]
        return official - self.validation, self.validation, self.test_label.shape[0]


def path_in(folder: Path, file: File) -> Path | None:
    """Where a file lies in a folder, uncompressed if it is there both ways; None if missing."""
    for name in (file.stem, file.stem + ".gz"):
        if (folder / name).is_file():
            return folder / name
    return None


def missing_from(folder: Path, published: Published) -> list[File]:
    """The files that a folder lacks."""
    return [file for file in published.files if path_in(folder, file) is None]


def read_file(path: Path, file: File, num_classes: int) -> NDArray[np.uint8]:
    """One file, checked to be the published one, as a read-only uint8 array of `file.shape`.

    Raises:
      IdxError: it is not, with what was expected and what was found.
      OSError: it cannot be read.
    """
    content = idx.read(path, idx.size(file.shape) + 1)
    array = idx.parse(content, file.shape)
    if len(file.shape) == 1 and array.max() >= num_classes:
        i = int(np.argmax(array >= num_classes))
        raise IdxError(f"expected labels 0..{num_classes - 1}, found {array[i]} at index {i}")
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise IdxError(
            f"not the published file: expected sha256 {file.sha256} (uncompressed), found {found}"
        )
    return array


def read(folder: Path, published: Published) -> Dataset:
    """The data set from a folder that holds its four files.

    The last `validation` examples of the official train part are the validation split, the others
    the train split; the official test part is the test split.

    Raises:
      UserError: a file is missing, unreadable or not the published one.
    """
    train_image, train_label, test_image, test_label = (
        _read_or_explain(folder, published, file) for file in published.files
    )
    train, _, _ = published.sizes
    return Dataset(
        name=published.name,
        num_classes=published.num_classes,
        train=Examples(train_image[:train], train_label[:train]),
        validation=Examples(train_image[train:], train_label[train:]),
        test=Examples(test_image, test_label),
    )


def _read_or_explain(folder: Path, published: Published, file: File) -> NDArray[np.uint8]:
    path = path_in(folder, file)
    if path is None:
        raise UserError(
            f"{folder} lacks {file.stem}[.gz]; run `replicax data get {published.name}`"
        )
    try:
        return read_file(path, file, published.num_classes)
    except IdxError as error:
        raise UserError(
            f"{path} is not what {published.name} needs: {error}; move it away, then run "
            f"`replicax data get {published.name}`"
        ) from None
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {error.strerror}; make it readable, or name another folder "
            "with --data-dir or REPLICAX_DATA"
        ) from None


MNIST = Published(
    name="mnist",
    num_classes=10,
    validation=5_000,
    train_image=File(
        "train-images-idx3-ubyte",
        (60_000, 28, 28),
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    train_label=File(
        "train-labels-idx1-ubyte",
        (60_000,),
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    test_image=File(
        "t10k-images-idx3-ubyte",
        (10_000, 28, 28),
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    test_label=File(
        "t10k-labels-idx1-ubyte",
        (10_000,),
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    ),
    licence="not stated by its authors; often given as CC BY-SA 3.0",
    credit="Y. LeCun, C. Cortes, C. J. C. Burges, The MNIST database of handwritten digits (1998)",
)

FASHION_MNIST = Published(
    name="fashion_mnist",
    num_classes=10,
    validation=5_000,
    train_image=File(
        "train-images-idx3-ubyte",
        (60_000, 28, 28),
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    ),
    train_label=File(
        "train-labels-idx1-ubyte",
        (60_000,),
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    ),
    test_image=File(
        "t10k-images-idx3-ubyte",
        (10_000, 28, 28),
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    ),
    test_label=File(
        "t10k-labels-idx1-ubyte",
        (10_000,),
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    licence="MIT",
    credit="H. Xiao, K. Rasul, R. Vollgraf (Zalando SE), Fashion-MNIST (2017), arXiv:1708.07747",
    system_folder=Path("/usr/share/datasets/fashion-mnist"),
    package_remedy="on Debian or Ubuntu run `apt install dataset-fashion-mnist`",
)
