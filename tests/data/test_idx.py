"""IDX files: sound ones are read, all others are refused with what was expected and found."""

from __future__ import annotations

import gzip
import re
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replicax.data import idx, published
from replicax.data.idx import IdxError
from replicax.errors import UserError

SHAPE = (3, 2, 2)
PIXELS = np.arange(12, dtype=np.uint8).reshape(SHAPE)
HEADER = bytes((0, 0, 8, 3)) + struct.pack(">3I", *SHAPE)
SOUND = HEADER + PIXELS.tobytes()


def test_a_sound_file_is_read_without_a_copy_and_cannot_be_changed() -> None:
    array = idx.parse(SOUND, SHAPE)
    assert array.dtype == np.uint8
    assert array.tolist() == PIXELS.tolist()
    assert not array.flags.writeable
    assert len(SOUND) == idx.size(SHAPE)


def test_labels_have_one_dimension() -> None:
    content = bytes((0, 0, 8, 1)) + struct.pack(">I", 4) + bytes((7, 2, 1, 0))
    assert idx.parse(content, (4,)).tolist() == [7, 2, 1, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "header of 16 bytes, found 0"),
        (HEADER[:10], "header of 16 bytes, found 10"),
        (SOUND[:-1], "truncated: expected 28 bytes, found 27"),
        (SOUND + b"\0", "in excess: expected 28 bytes, found more"),
        (b"<!DOCTYPE html><html>", "not an IDX file .* found 3c 21 44 4f"),
        (b"\0\0\x0d\x03" + SOUND[4:], "expected it to begin with 00 00 08 03, found 00 00 0d 03"),
        (b"\0\0\x08\x01" + SOUND[4:], "expected it to begin with 00 00 08 03, found 00 00 08 01"),
        (
            SOUND[:4] + struct.pack(">3I", 4, 2, 2) + SOUND[16:],
            "expected dimensions 3 x 2 x 2, found 4 x 2 x 2",
        ),
        (
            SOUND[:4] + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 2**32 - 1) + SOUND[16:],
            "found 4,294,967,295 x ",
        ),
    ],
)
def test_unsound_content_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(IdxError, match=message):
        idx.parse(content, SHAPE)


@given(content=st.binary(max_size=40), cut=st.integers(0, 28))
def test_nothing_but_the_whole_file_is_accepted(content: bytes, cut: int) -> None:
    mixed = SOUND[:cut] + content
    if len(mixed) == len(SOUND) and mixed[:16] == HEADER:
        assert idx.parse(mixed, SHAPE).tobytes() == mixed[16:]
        return
    with pytest.raises(IdxError) as caught:
        idx.parse(mixed, SHAPE)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a", "a.gz"])
@pytest.mark.parametrize("compressed", [False, True])
def test_compression_is_told_by_content_not_by_name(
    tmp_path: Path, name: str, compressed: bool
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(SOUND) if compressed else SOUND)
    assert idx.read(path, 1000) == SOUND
    assert idx.is_compressed(path) is compressed


def test_several_gzip_members_are_one_content(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(SOUND[:9]) + gzip.compress(SOUND[9:]))
    assert idx.read(path, 1000) == SOUND


def test_no_more_than_the_limit_is_uncompressed(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(bytes(1_000_000)))
    assert idx.read(path, 29) == bytes(29)


ZIPPED = gzip.compress(bytes(np.random.default_rng(0).integers(0, 256, 5000, np.uint8)), mtime=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ZIPPED[:-1], "truncated"),
        (ZIPPED[:1000], "truncated"),
        (ZIPPED[:2], "truncated"),
        (ZIPPED[:-8] + bytes(4) + ZIPPED[-4:], "corrupt.*CRC"),
        (ZIPPED[:-4] + bytes(4), "corrupt.*length"),
        (ZIPPED[:2] + b"\x07" + ZIPPED[3:], "corrupt.*method"),
        (ZIPPED + b"garbage", "corrupt"),
    ],
)
def test_unsound_gzip_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(content)
    with pytest.raises(IdxError, match=message):
        idx.read(path, 100_000)


@given(position=st.integers(10, len(ZIPPED) - 1), flip=st.integers(1, 255))
@settings(deadline=None, max_examples=60)
def test_a_flipped_byte_anywhere_is_noticed(position: int, flip: int) -> None:
    damaged = bytearray(ZIPPED)
    damaged[position] ^= flip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.gz"
        path.write_bytes(damaged)
        with pytest.raises(IdxError):
            idx.read(path, 100_000)


# The four files of a set.


@pytest.mark.parametrize("compressed", [False, True])
def test_a_set_is_read_and_split(tmp_path: Path, small: Any, compressed: bool) -> None:
    small.write(tmp_path, compressed=compressed)
    data = published.read(tmp_path, small.published)
    image, label, test_image, test_label = small.arrays
    assert (data.name, data.num_classes) == ("small", 10)
    assert np.array_equal(data.train.image, image[:32])
    assert np.array_equal(data.train.label, label[:32])
    assert np.array_equal(data.validation.image, image[32:])
    assert np.array_equal(data.validation.label, label[32:])
    assert np.array_equal(data.test.image, test_image)
    assert np.array_equal(data.test.label, test_label)
    assert all(not a.flags.writeable for split in (data.train, data.test) for a in split)


def refusal(folder: Path, small: Any) -> str:
    with pytest.raises(UserError) as caught:
        published.read(folder, small.published)
    message = str(caught.value)
    assert "\n" not in message
    assert "replicax data get small" in message
    return message


def damage(small: Any, folder: Path, stem: str, content: bytes) -> Path:
    small.write(folder)
    path = folder / stem
    path.write_bytes(content)
    return path


def test_other_content_of_the_right_shape_is_refused(tmp_path: Path, small: Any) -> None:
    content = bytearray(small.content["t10k-images-idx3-ubyte"])
    content[100] ^= 1
    path = damage(small, tmp_path, "t10k-images-idx3-ubyte", bytes(content))
    message = refusal(tmp_path, small)
    assert str(path) in message
    assert f"not the published file: expected sha256 {small.published.test_image.sha256}" in message


def test_labels_out_of_range_are_named(tmp_path: Path, small: Any) -> None:
    content = bytearray(small.content["train-labels-idx1-ubyte"])
    content[8 + 5] = 10
    damage(small, tmp_path, "train-labels-idx1-ubyte", bytes(content))
    assert "expected labels 0..9, found 10 at index 5" in refusal(tmp_path, small)


def test_fewer_labels_than_images_are_refused(tmp_path: Path, small: Any) -> None:
    content = bytes((0, 0, 8, 1)) + struct.pack(">I", 39) + bytes(39)
    damage(small, tmp_path, "train-labels-idx1-ubyte", content)
    assert "expected dimensions 40, found 39" in refusal(tmp_path, small)


def test_swapped_files_are_refused(tmp_path: Path, small: Any) -> None:
    labels = small.content["t10k-labels-idx1-ubyte"]
    damage(small, tmp_path, "t10k-images-idx3-ubyte", labels)
    assert "not an IDX file of bytes in 3 dimension(s)" in refusal(tmp_path, small)


def test_a_missing_file_is_named(tmp_path: Path, small: Any) -> None:
    small.write(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    assert re.search(r"lacks t10k-labels-idx1-ubyte\[\.gz\]", refusal(tmp_path, small))
