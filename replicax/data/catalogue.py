"""The data sets by name: where their files lie, and how they become three splits.

Splits are fixed. MNIST and Fashion-MNIST: the first 55,000 of the authors' training examples train,
the last 5,000 validate, the authors' 10,000 test (the sizes of Shallue et al. 2019). Digits: its
order goes by writer, so the split is by stride: of every six examples four train, the fifth
validates, the sixth tests; 1,199, 299 and 299.
"""

from __future__ import annotations

import difflib
import hashlib
import io
from importlib.resources import files
from pathlib import Path

import numpy as np
import platformdirs
from numpy.typing import NDArray

from replicax.data import idx
from replicax.data.examples import Dataset, Examples
from replicax.data.sources import SOURCES, File, Source
from replicax.errors import UserError

_VALIDATION = 5_000
_DIGITS = ("digits.npz", "63bd2a94fef641400312231c859eec64289d2b7776976242f1f60d08eab215dd")


def names() -> list[str]:
    """Every data set."""
    return list(SOURCES)


def source(name: str) -> Source:
    """What is known of a data set. Raises UserError if it is not known, with the nearest names."""
    if name not in SOURCES:
        near = difflib.get_close_matches(name, SOURCES, n=3) or list(SOURCES)
        raise UserError(f"unknown data set {name!r}; did you mean {', '.join(near)}?")
    return SOURCES[name]


def load(name: str, folder: Path | None = None) -> Dataset:
    """Loads a data set, every file checked against its published checksum.

    Args:
      name: of the data set.
      folder: where its files lie, or a subfolder of its name; None for the usual places.

    Raises:
      UserError: unknown name, missing, damaged or other files.
    """
    if not source(name).files:
        return _digits()
    place = where(name, folder)
    train_image, train_label, test_image, test_label = (
        _array(path, file) for path, file in zip(paths(name, place), SOURCES[name].files, strict=True)
    )
    return Dataset(
        train=Examples(train_image[:-_VALIDATION], train_label[:-_VALIDATION]),
        validation=Examples(train_image[-_VALIDATION:], train_label[-_VALIDATION:]),
        test=Examples(test_image, test_label),
    )


def where(name: str, folder: Path | None = None) -> Path:
    """The folder that holds a data set. Raises UserError if none does, with the remedies."""
    known = source(name)
    if not known.files:
        return Path(str(files("replicax.data")))
    if folder is not None:
        places = [folder, folder / name]
    else:
        places = [cache_folder(name), *map(Path, known.installed)]
    for place in places:
        if all(path.is_file() for path in paths(name, place)):
            return place
    wanted = ", ".join(file.name for file in known.files)
    raise UserError(
        f"{name} is not in {' or '.join(map(str, places))}; get it with `replicax data get {name}`"
        f"{known.remedy}, or name a folder that holds {wanted} (gzip or not) with --data-dir"
    )


def cache_folder(name: str) -> Path:
    """Where a data set goes when it is downloaded."""
    return platformdirs.user_cache_path("replicax") / "data" / name


def paths(name: str, folder: Path) -> list[Path]:
    """The files of a data set in a folder, the packed ones where they are there."""
    packed = [folder / f"{file.name}.gz" for file in SOURCES[name].files]
    return [path if path.is_file() else path.with_suffix("") for path in packed]


def check(content: bytes, path: Path, sha256: str) -> None:
    """Raises UserError if unpacked content is not what the authors published."""
    if hashlib.sha256(content).hexdigest() != sha256:
        raise UserError(
            f"{path} is not the file that the authors published: its content has another sha256; "
            "delete it and get it again"
        )


def _array(path: Path, file: File) -> NDArray[np.uint8]:
    content = idx.read(path)
    array = idx.parse(content, path, file.shape)
    check(content, path, file.sha256)
    return array


def _digits() -> Dataset:
    name, sha256 = _DIGITS
    resource = files("replicax.data") / name
    content = resource.read_bytes()
    check(content, Path(str(resource)), sha256)
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        image, label = arrays["image"], arrays["label"]
    place = np.arange(len(label)) % 6

    def split(chosen: NDArray[np.bool_]) -> Examples:
        return Examples(image[chosen], label[chosen])

    return Dataset(split(place < 4), split(place == 4), split(place == 5))
