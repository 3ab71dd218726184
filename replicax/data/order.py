"""The order in which examples are seen: a pure function of (seed, position).

Every epoch visits every example once, in a permutation of its own. Nothing is shuffled or stored:
a keyed bijection on 0..n-1 is computed where it is needed, on the host with NumPy or inside a
compiled loop with JAX, with the same results. A position in the data is one integer, the number of
examples seen so far; it splits into (epoch, offset).

The bijection is a Feistel network on a grid of a x b >= n cells (Black and Rogaway 2002, "Ciphers
with arbitrary finite domains", sections 4 and 5): rounds add a keyed hash of one coordinate to the
other, and a cell outside 0..n-1 is walked along its cycle until it is inside.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

_ROUNDS = 6
_GOLDEN = 0x9E3779B9  # 2**32 / golden ratio, the usual odd constant for spreading counters
_MASK = 0xFFFFFFFF
MAX_EXAMPLES = 2**30  # two epochs' worth of offsets must fit 31 bits


class Position(NamedTuple):
    """A position in the data: `epoch` full passes and `offset` examples of the next one."""

    epoch: Any
    offset: Any


def position(examples_seen: int, n: int) -> Position:
    """Splits a number of examples seen into epoch and offset, exactly, whatever its size."""
    epoch, offset = divmod(examples_seen, n)
    return Position(epoch, offset)


def advance(at: Position, count: int, n: int) -> Position:
    """The position `count` <= n examples later; works inside compiled loops."""
    offset = at.offset + count
    wrapped = offset >= n
    return Position(at.epoch + wrapped, offset - n * wrapped)


def example_indices(seed: Any, at: Position, count: int, n: int, xp: Any = np) -> Any:
    """Indices of the `count` <= n examples that follow a position.

    Args:
      seed: any integer; its low 32 bits are used. Or a uint32 array.
      at: epoch and offset, scalars: Python integers, or 32-bit integers under JAX.
      count: number of examples, at most n, so that they touch two epochs at most.
      n: size of the data set.
      xp: `numpy` or `jax.numpy`.

    Returns:
      uint32 array of shape [count], each in 0..n-1.
    """
    if not 0 < count <= n:
        raise ValueError(f"count must be in 1..n; got count={count}, n={n}")
    i = xp.arange(count, dtype=xp.uint32)
    offset = xp.asarray(at.offset, dtype=xp.uint32) + i
    wrapped = offset >= xp.uint32(n)
    epoch = xp.asarray(at.epoch, dtype=xp.uint32) + wrapped.astype(xp.uint32)
    offset = xp.where(wrapped, offset - xp.uint32(n), offset)
    return permute(offset, epoch_key(seed, epoch, xp), n, xp)


def epoch_key(seed: Any, epoch: Any, xp: Any = np) -> Any:
    """A 32-bit key for each epoch, uint32 of the shape of `epoch`."""
    epoch = xp.asarray(epoch, dtype=xp.uint32)
    word = xp.uint32(seed & _MASK if isinstance(seed, int) else seed)
    with _wrapping():
        return _mix(_mix(epoch * xp.uint32(_GOLDEN) + word, xp) ^ epoch, xp)


def permute(index: Any, key: Any, n: int, xp: Any = np) -> Any:
    """Maps 0..n-1 onto itself, a different bijection for each key.

    Args:
      index: uint32 array, each in 0..n-1.
      key: uint32, broadcast against `index`.
      n: size of the domain, 1..MAX_EXAMPLES.
      xp: `numpy` or `jax.numpy`.
    """
    if not 1 <= n <= MAX_EXAMPLES:
        raise ValueError(f"n must be in 1..{MAX_EXAMPLES}; got n={n}")
    a, b = _grid(n)
    walked = _encrypt(index, key, a, b, xp)
    if xp is np:
        while (outside := walked >= n).any():
            walked = np.where(outside, _encrypt(walked, key, a, b, np), walked)
        return walked
    from jax import lax  # only arrays of JAX come here

    return lax.while_loop(
        lambda w: (w >= n).any(),
        lambda w: xp.where(w >= n, _encrypt(w, key, a, b, xp), w),
        walked,
    )


def _grid(n: int) -> tuple[int, int]:
    """The most nearly square grid of at least n cells; fewer than sqrt(n) are in excess."""
    a = max(1, math.isqrt(n - 1) + 1)
    return a, -(-n // a)


def _encrypt(index: Any, key: Any, a: int, b: int, xp: Any) -> Any:
    left, right = index // xp.uint32(b), index % xp.uint32(b)
    for r in range(_ROUNDS):
        with _wrapping():
            round_key = key + xp.uint32((r + 1) * _GOLDEN & _MASK)
            if r % 2 == 0:
                left = _add(left, _mix(right ^ round_key, xp), a, xp)
            else:
                right = _add(right, _mix(left ^ round_key, xp), b, xp)
    return left * xp.uint32(b) + right


def _add(x: Any, h: Any, modulus: int, xp: Any) -> Any:
    """(x + h scaled to 0..modulus-1) mod modulus, without a division and within 32 bits."""
    total = x + ((h >> xp.uint32(16)) * xp.uint32(modulus) >> xp.uint32(16))
    return xp.where(total >= xp.uint32(modulus), total - xp.uint32(modulus), total)


def _wrapping() -> np.errstate:
    """Lets 32 bits wrap around in silence; NumPy warns of it for scalars, not for arrays."""
    return np.errstate(over="ignore")


def _mix(x: Any, xp: Any) -> Any:
    """A 32-bit finaliser: every input bit reaches every output bit.

    Constants: C. Wellons, "Prospecting for hash functions" (2018), lowbias32.
    """
    x = (x ^ (x >> xp.uint32(16))) * xp.uint32(0x7FEB352D)
    x = (x ^ (x >> xp.uint32(15))) * xp.uint32(0x846CA68B)
    return x ^ (x >> xp.uint32(16))
