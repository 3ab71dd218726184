"""The catalogue: what each name means, where it is looked for, what is said when it is missing."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replicax import data
from replicax.data import folders
from replicax.data.published import FASHION_MNIST, MNIST
from replicax.errors import UserError

# Of the images and then the labels, in the original order.
DIGITS_SHA256 = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"


def test_names() -> None:
    assert data.names() == ["digits", "mnist", "fashion_mnist"]


def test_importing_the_package_is_cheap() -> None:
    heavy = ("jax", "pooch", "requests", "matplotlib", "scipy", "rich", "sklearn")
    program = f"import sys, replicax.data; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    ("name", "near"),
    [("mnits", "mnist"), ("fashion-mnist", "fashion_mnist"), ("digit", "digits")],
)
@pytest.mark.parametrize("ask", [data.load, data.where, data.find, data.get])
def test_an_unknown_name_is_answered_with_the_nearest(ask: Any, name: str, near: str) -> None:
    with pytest.raises(UserError, match=rf"unknown data set '{name}'; did you mean .*\b{near}\b"):
        ask(name)


def test_a_name_like_no_other_is_answered_with_all() -> None:
    with pytest.raises(UserError, match="digits or mnist or fashion_mnist"):
        data.load("zzzz")


# Digits.


def test_digits_are_split_by_stride() -> None:
    digits = data.load("digits")
    splits = (digits.train, digits.validation, digits.test)
    assert [len(split.label) for split in splits] == [1199, 299, 299]
    assert (digits.name, digits.num_classes) == ("digits", 10)
    image = np.empty((1797, 8, 8), np.uint8)
    label = np.empty(1797, np.uint8)
    turn = np.arange(1797) % 6
    for split, chosen in zip(splits, (turn < 4, turn == 4, turn == 5), strict=True):
        assert (split.image.dtype, split.label.dtype) == (np.uint8, np.uint8)
        image[chosen], label[chosen] = split
    assert hashlib.sha256(image.tobytes() + label.tobytes()).hexdigest() == DIGITS_SHA256
    assert (image.min(), image.max()) == (0, 16)
    # UCI's documentation of the test part gives these counts of 0..9.
    assert np.bincount(label).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_every_split_of_digits_has_every_class_about_equally() -> None:
    digits = data.load("digits")
    for split in (digits.train, digits.validation, digits.test):
        counts = np.bincount(split.label, minlength=10)
        assert counts.min() > 0.7 * counts.mean()


def test_digits_equal_those_of_scikit_learn() -> None:
    reference = pytest.importorskip("sklearn.datasets").load_digits()
    digits = data.load("digits")
    assert np.array_equal(digits.validation.image, reference.images[4::6])
    assert np.array_equal(digits.test.label, reference.target[5::6])


def test_a_loaded_set_cannot_be_changed_by_accident() -> None:
    with pytest.raises(ValueError, match="read-only"):
        data.load("digits").train.image[0] = 0


# The real sets.


@pytest.mark.parametrize(
    ("name", "train_counts", "mean", "deviation"),
    [
        ("mnist", [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949], 0.1307, 0.3081),
        ("fashion_mnist", [6000] * 10, 0.2860, 0.3530),
    ],
)
def test_the_real_sets(
    real_data: Path, name: str, train_counts: list[int], mean: float, deviation: float
) -> None:
    begin = time.process_time()
    found = data.load(name, real_data)
    seconds = time.process_time() - begin
    splits = (found.train, found.validation, found.test)
    assert [split.image.shape for split in splits] == [(n, 28, 28) for n in (55000, 5000, 10000)]
    assert [split.label.shape for split in splits] == [(n,) for n in (55000, 5000, 10000)]
    assert found.num_classes == 10
    official = np.concatenate([found.train.image, found.validation.image])
    assert official.mean() / 255 == pytest.approx(mean, abs=5e-5)
    assert official.std() / 255 == pytest.approx(deviation, abs=1e-4)
    labels = np.concatenate([found.train.label, found.validation.label])
    assert np.bincount(labels).tolist() == train_counts
    assert seconds < 2  # of one core; about 0.4 where nothing else runs


def test_the_files_of_another_set_are_refused(real_data: Path, tmp_path: Path) -> None:
    shutil.copytree(real_data / "mnist", tmp_path / "fashion_mnist")
    with pytest.raises(UserError, match="is not what fashion_mnist needs: not the published file"):
        data.load("fashion_mnist", tmp_path)


# Where a set is looked for. `find` goes by the names of the files only.


def put(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for file in MNIST.files:
        (folder / f"{file.stem}.gz").touch()
    return folder


def test_the_order_of_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    argument, variable, cache = tmp_path / "argument", tmp_path / "variable", folders.cache(MNIST)
    argument.mkdir()
    variable.mkdir()
    monkeypatch.setenv("REPLICAX_DATA", str(variable))
    assert data.find("mnist", argument) is None
    put(cache)
    assert data.find("mnist", argument) == data.find("mnist") == cache
    put(variable)
    assert data.find("mnist", argument) == cache
    assert data.find("mnist") == variable
    put(variable / "mnist")
    assert data.find("mnist") == variable / "mnist"
    put(argument)
    assert data.find("mnist", argument) == argument
    put(argument / "mnist")
    assert data.find("mnist", str(argument)) == data.where("mnist", argument) == argument / "mnist"


def test_a_tilde_is_the_home_folder(tmp_path: Path) -> None:
    put(tmp_path / "home" / "sets" / "mnist")
    assert data.find("mnist", "~/sets") == tmp_path / "home" / "sets" / "mnist"


def test_only_fashion_mnist_is_looked_for_where_debian_puts_it(tmp_path: Path) -> None:
    debian = Path("/usr/share/datasets/fashion-mnist")
    assert folders.candidates(FASHION_MNIST, tmp_path)[-1] == debian
    assert debian not in folders.candidates(MNIST, tmp_path)


def test_a_missing_set_is_one_line_with_the_remedies(tmp_path: Path) -> None:
    (tmp_path / "train-images-idx3-ubyte.gz").touch()
    with pytest.raises(UserError) as caught:
        data.load("mnist", tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert "run `replicax data get mnist`" in message
    assert "--data-dir or REPLICAX_DATA" in message
    assert f"{tmp_path} (lacks train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-" in message
    assert str(folders.cache(MNIST)) in message


def test_the_remedies_of_fashion_mnist_name_the_package() -> None:
    if FASHION_MNIST.system_folder is not None and FASHION_MNIST.system_folder.is_dir():
        pytest.skip(f"the package is installed: {FASHION_MNIST.system_folder}")
    with pytest.raises(UserError, match="`apt install dataset-fashion-mnist`"):
        data.load("fashion_mnist")


def test_a_named_folder_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"there is no folder {tmp_path / 'typo'}"):
        data.load("mnist", tmp_path / "typo")


def test_a_damaged_file_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    put(tmp_path)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"\x1f\x8b\x08")
    with pytest.raises(
        UserError, match=r"train-images-idx3-ubyte\.gz is not .* truncated.*move it"
    ):
        data.load("mnist", tmp_path)
    with pytest.raises(UserError, match="then run `replicax data get mnist`"):
        data.get("mnist", tmp_path)


# Getting a set.


def test_get_of_digits_needs_no_network() -> None:
    folder, downloaded = data.get("digits", mirror="http://127.0.0.1:9")
    assert not downloaded
    assert (folder / "digits.npz").is_file()


def test_get_puts_the_set_where_the_user_says_even_if_it_lies_elsewhere(
    tmp_path: Path, mirror: Any, real_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror.files = {f"mnist/{p.name}": p.read_bytes() for p in (real_data / "mnist").iterdir()}
    monkeypatch.setenv("REPLICAX_MIRROR", mirror.url)
    cache = folders.cache(MNIST)
    assert data.get("mnist") == (cache, True)
    assert data.get("mnist") == (cache, False)
    assert data.find("mnist", tmp_path) == cache
    assert data.get("mnist", tmp_path / "new") == (tmp_path / "new" / "mnist", True)
    assert len(mirror.asked) == 8


def test_entries_say_where_each_set_lies(tmp_path: Path) -> None:
    put(tmp_path / "mnist")
    digits, mnist, fashion = data.entries(tmp_path)
    assert [digits.name, mnist.name, fashion.name] == data.names()
    assert (digits.sizes, mnist.sizes) == ((1199, 299, 299), (55_000, 5_000, 10_000))
    assert mnist.folder == tmp_path / "mnist"
    assert digits.folder is not None
    assert all(entry.licence and entry.credit for entry in (digits, mnist, fashion))
