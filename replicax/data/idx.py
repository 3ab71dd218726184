"""The IDX format of the MNIST files: a magic number, dimensions, then unsigned bytes."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from replicax.errors import UserError

_UNSIGNED_BYTE = 0x08


def read(path: Path) -> bytes:
    """The content of an IDX file, unpacked if it is gzip. Raises UserError if it cannot be read."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(
            f"{path} is truncated or damaged gzip ({error}); delete it and get it again"
        ) from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def parse(content: bytes, path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """The array that an IDX file holds.

    Args:
      content: the file, unpacked.
      path: named in errors.
      shape: what the array must have.

    Raises:
      UserError: not IDX, not bytes, another shape, or too short or too long.
    """
    magic = bytes((0, 0, _UNSIGNED_BYTE, len(shape)))
    if content[:4] != magic:
        raise UserError(
            f"{path} is not the IDX file expected here: it starts with {content[:4].hex()!r}, not "
            f"{magic.hex()!r}; delete it and get it again"
        )
    start = 4 + 4 * len(shape)
    found = tuple(int(n) for n in np.frombuffer(content[4:start], ">u4"))
    length = len(content) - start
    if found != shape or length != int(np.prod(shape)):
        raise UserError(
            f"{path} must hold {shape} bytes; its header says {found} and {max(length, 0)} follow; "
            "delete it and get it again"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
