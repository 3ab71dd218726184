"""Points of the search space: a pure function of (seed, batch size, wave, index)."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from replicax.tasks import Space
from replicax.tasks.space import values


def points(
    space: Space, count: int, *, seed: int, batch_size: int, wave: str, start: int = 0
) -> list[dict[str, float]]:
    """Hyperparameters of the trials `start` .. `start + count - 1` of a wave.

    Points are scrambled Halton points (Bousquet et al. 2017 recommend such sequences for this use),
    an independent scrambling for each batch size and wave. More of them never change earlier ones.
    """
    from scipy.stats import qmc  # takes a second to import

    key = [seed, batch_size, zlib.crc32(wave.encode())]
    halton: Any = qmc.Halton(d=len(space), scramble=True, rng=np.random.default_rng(key))
    halton.fast_forward(start)
    return [dict(values(space, tuple(u))) for u in halton.random(count).tolist()]
