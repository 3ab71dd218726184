"""The IDX format of MNIST: a magic number, one 32-bit size per dimension, the bytes.

Big-endian. The magic number is two zero bytes, the type of an element (8: unsigned byte, the only
one here) and the number of dimensions. Format: Y. LeCun, C. Cortes, C. J. C. Burges, "The MNIST
database of handwritten digits" (1998).
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_GZIP_MAGIC = b"\x1f\x8b"
_UNSIGNED_BYTE = 8


class IdxError(ValueError):
    """What is wrong with the content of an IDX file: expected and found, without its name."""


def size(shape: tuple[int, ...]) -> int:
    """Bytes of an uncompressed IDX file of unsigned bytes."""
    return 4 + 4 * len(shape) + math.prod(shape)


def is_compressed(path: Path) -> bool:
    """Whether a file is gzip, by its content."""
    with path.open("rb") as file:
        return file.read(2) == _GZIP_MAGIC


def read(path: Path, limit: int) -> bytes:
    """The first `limit` bytes of a file, uncompressed if it is gzip, whatever its name ends in.

    The limit keeps a hostile or mistaken file from filling the memory. The checksum of a gzip file
    is only verified if its content is shorter than the limit.

    Raises:
      IdxError: the gzip file is truncated or corrupt.
      OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        compressed = file.read(2) == _GZIP_MAGIC
        file.seek(0)
        if not compressed:
            return file.read(limit)
        try:
            return gzip.GzipFile(fileobj=file).read(limit)
        except EOFError:
            raise IdxError("truncated: the gzip stream ends early") from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise IdxError(f"corrupt: not a sound gzip file ({error})") from None


def parse(content: bytes, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """The array in an uncompressed IDX file of a known shape; read-only, no copy.

    Raises:
      IdxError: wrong magic number, element type or dimensions, bytes missing or in excess.
    """
    header = 4 + 4 * len(shape)
    if len(content) < header:
        raise IdxError(f"truncated: expected a header of {header} bytes, found {len(content)}")
    expected = bytes((0, 0, _UNSIGNED_BYTE, len(shape)))
    if content[:4] != expected:
        raise IdxError(
            f"not an IDX file of bytes in {len(shape)} dimension(s): expected it to begin with "
            f"{expected.hex(' ')}, found {content[:4].hex(' ')} ({content[:12]!r})"
        )
    found = struct.unpack(f">{len(shape)}I", content[4:header])
    if found != shape:
        raise IdxError(f"expected dimensions {_by(shape)}, found {_by(found)}")
    if len(content) < size(shape):
        raise IdxError(f"truncated: expected {size(shape):,} bytes, found {len(content):,}")
    if len(content) > size(shape):
        raise IdxError(f"bytes in excess: expected {size(shape):,} bytes, found more")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _by(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{n:,}" for n in shape)
