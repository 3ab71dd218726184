"""What the curve of steps to result over batch sizes says: one fit, four batch sizes.

The fit is S(B) = S_min (1 + B_crit/B), which McCandlish et al. 2018 write as
(S/S_min - 1)(E/E_min - 1) = 1 with E = B*S, and Zhang et al. 2025 as S = a + b/B: S_min = a,
B_crit = b/a. Its limits are two regimes. For small B, perfect scaling: a constant number of
examples, E_min = S_min B_crit. For large B, maximal data parallelism: a constant number of steps,
S_min. All batch sizes are in examples per step:

  end of perfect scaling    0.2 B_crit: examples B*S are 20 % above E_min; the sense of "critical
                            batch size" in Shallue et al. 2019 and in the Tuning Playbook (2023)
  critical batch size       B_crit: twice S_min steps and twice E_min examples (McCandlish et al.)
  20 % overhead             0.2 B_crit + 1.2 B_0: 20 % more examples than at B_0 (Zhang et al. 2025)
  maximum useful            B_crit / tolerance: steps within the tolerance of S_min (Shallue et al.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from replicax.analysis.records import Estimate, Fit

MIN_POINTS = 3
MAX_RMS_OCTAVES = 0.5
SEARCH_FACTOR = 1000.0  # B_crit is searched this far beyond the measured batch sizes
GRID_STEP = 0.1  # of the search, in nats of B_crit

Array = NDArray[np.float64]


class Scaling(NamedTuple):
    """The fit, None where none exists, and the four batch sizes in examples per step."""

    fit: Fit | None
    end_of_perfect_scaling: Estimate
    critical_batch_size: Estimate
    overhead_20_batch_size: Estimate
    maximum_useful_batch_size: Estimate


@dataclass(frozen=True)
class _Quantity:
    """A batch size that rises with B_crit, and what to say where it was not measured."""

    at: Callable[[float], float]
    below: str
    beyond: str


def fit_hyperbola(batch_sizes: ArrayLike, steps: ArrayLike) -> Fit | None:
    """Fits S(B) = S_min (1 + B_crit/B) by least squares of log steps.

    Args:
      batch_sizes: [n], examples per step, distinct and positive, n >= 3.
      steps: [n], steps to result, positive.

    Returns:
      None where no finite B_crit > 0 fits best, i.e. one of the two limits is not in the data.

    Raises:
      ValueError: too few points, or values out of range.
    """
    b, s = _checked(batch_sizes, steps)
    critical = float(critical_batch_sizes(b, s)[0])
    if not 0 < critical < np.inf:
        return None
    shape = np.log1p(critical / b)
    log_s_min = np.mean(np.log(s) - shape)
    residual = np.log(s) - shape - log_s_min
    rms = float(np.sqrt(np.mean(residual**2)) / np.log(2))
    return Fit(s_min=float(np.exp(log_s_min)), b_crit=critical, rms_octaves=rms)


def critical_batch_sizes(batch_sizes: ArrayLike, steps: ArrayLike) -> Array:
    """B_crit of many curves over the same batch sizes, in one pass.

    Given B_crit, the best log S_min is the mean of log S - log(1 + B_crit/B). What is left is a
    search in one dimension: a grid in log B_crit, then bisection of the derivative around the best
    grid point, which is exact to rounding.

    Args:
      batch_sizes: [n], examples per step, distinct and positive, n >= 3.
      steps: [n] or [curves, n], positive.

    Returns:
      float64 [curves]; 0 where the best fit lies at the lower end of the search (steps do not fall
      as B grows), inf where it lies at the upper end (steps fall like 1/B to the largest B).
    """
    b, s = _checked(batch_sizes, steps)
    y = np.log(np.atleast_2d(s))
    y = y - y.mean(axis=1, keepdims=True)
    low, high = np.log(b.min() / SEARCH_FACTOR), np.log(b.max() * SEARCH_FACTOR)
    grid = np.linspace(low, high, int((high - low) / GRID_STEP) + 2)
    shape = np.log1p(np.exp(grid)[:, None] / b)
    shape -= shape.mean(axis=1, keepdims=True)
    best = np.argmin((shape**2).sum(axis=1) - 2 * y @ shape.T, axis=1)
    inside = (best > 0) & (best < grid.size - 1)
    left = grid[np.maximum(best - 1, 0)]
    right = grid[np.minimum(best + 1, grid.size - 1)]
    for _ in range(60):
        middle = (left + right) / 2
        rises = _slope(middle, b, y) > 0
        left, right = np.where(rises, left, middle), np.where(rises, middle, right)
    found = np.exp((left + right) / 2)
    return np.where(inside, found, np.where(best == 0, 0.0, np.inf))


def estimate_batch_sizes(
    batch_sizes: Sequence[int],
    steps: Sequence[int],
    resamples: Array,
    *,
    reference_batch_size: int | None = None,
    tolerance: float = 0.1,
    level: float = 0.90,
    refusal: str | None = None,
) -> Scaling:
    """Fits the curve and estimates the four batch sizes, each with an interval or refused.

    Args:
      batch_sizes: [n], examples per step, of the studies with a result.
      steps: [n], their steps to result.
      resamples: [draws, n], steps drawn by `interval.resample_steps`; each is refitted.
      reference_batch_size: B_0 of the 20 % overhead; the smallest measured one by default.
      tolerance: of the maximum useful batch size, a fraction of the plateau S_min.
      level: coverage of the intervals, percentiles of the refits.
      refusal: why the resamples are not to be trusted, if so; the fit is still given.

    Returns:
      estimates; a refusal where the fit is impossible or poor, where the value was not measured
      but extrapolated, and where the interval has no end.
    """
    if not 0 < tolerance < 1:
        raise ValueError(f"the tolerance must be in (0, 1); got {tolerance}")
    smallest, largest = min(batch_sizes, default=0), max(batch_sizes, default=0)
    b_0 = smallest if reference_batch_size is None else reference_batch_size
    if not smallest <= b_0 <= largest:
        raise ValueError(
            f"the reference batch size must lie in {smallest}..{largest}, the measured range;"
            f" got {b_0}"
        )
    if len(batch_sizes) < MIN_POINTS:
        return _refused(
            None,
            f"only {len(batch_sizes)} batch sizes have a usable result; a fit of two parameters"
            f" needs at least {MIN_POINTS}",
        )
    if min(steps) < 1:
        return _refused(None, "the goal is already reached before the first step")
    fit = fit_hyperbola(batch_sizes, steps)
    if fit is None:
        return _refused(None, _limit_reason(batch_sizes, steps))
    if fit.rms_octaves > MAX_RMS_OCTAVES:
        return _refused(
            fit,
            f"S_min (1 + B_crit/B) misses the points by {fit.rms_octaves:.2f} octaves (root mean"
            f" square); at most {MAX_RMS_OCTAVES} is accepted",
        )
    if refusal:
        return _refused(fit, refusal)
    bounds = _bounds(critical_batch_sizes(batch_sizes, resamples), level)
    return Scaling(
        fit,
        *(_estimate(q, fit.b_crit, bounds, smallest, largest) for q in _quantities(b_0, tolerance)),
    )


def _quantities(b_0: int, tolerance: float) -> tuple[_Quantity, ...]:
    start, plateau = "no perfect scaling reached", "no plateau reached"
    return (
        _Quantity(lambda c: 0.2 * c, start, "perfect scaling does not end within them"),
        _Quantity(lambda c: c, start, plateau),
        _Quantity(
            lambda c: 0.2 * c + 1.2 * b_0, start, "the overhead stays below 20 % within them"
        ),
        _Quantity(lambda c: c / tolerance, start, plateau),
    )


def _estimate(
    quantity: _Quantity, critical: float, bounds: tuple[float, float], smallest: int, largest: int
) -> Estimate:
    value, usable = quantity.at(critical), f"the usable batch sizes, {smallest:,} to {largest:,}"
    if value > largest:
        return _refusal(f"{_plain(value)} lies above {usable}: {quantity.beyond}")
    if value < smallest:
        return _refusal(f"{_plain(value)} lies below {usable}: {quantity.below}")
    if bounds[0] == 0:
        return _refusal(
            "the interval has no lower end: too many resampled curves show no perfect scaling"
        )
    if bounds[1] == np.inf:
        return _refusal("the interval has no upper end: too many resampled curves show no plateau")
    low, high = min(quantity.at(bounds[0]), value), max(quantity.at(bounds[1]), value)
    return Estimate(value=value, low=low, high=high, reason=None)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _bounds(samples: Array, level: float) -> tuple[float, float]:
    """Percentiles of B_crit that are members of the sample, since some of them are infinite."""
    ordered = np.sort(samples)
    tail = int((1 - level) / 2 * ordered.size)
    return float(ordered[tail]), float(ordered[-1 - tail])


def _limit_reason(batch_sizes: Sequence[int], steps: Sequence[int]) -> str:
    smallest, largest = min(batch_sizes), max(batch_sizes)
    if critical_batch_sizes(batch_sizes, steps)[0] == 0:
        return f"no perfect scaling reached: steps do not fall from batch size {smallest} on"
    return f"no plateau reached: steps fall like 1/B up to the largest batch size, {largest}"


def _refused(fit: Fit | None, reason: str) -> Scaling:
    """All four estimates refused for one reason."""
    return Scaling(fit, *(_refusal(reason) for _ in range(4)))


def _refusal(reason: str) -> Estimate:
    return Estimate(value=None, low=None, high=None, reason=reason)


def _slope(log_critical: Array, b: Array, y: Array) -> Array:
    """Half the derivative of the squared residuals by log B_crit; [curves]."""
    ratio = np.exp(log_critical)[:, None] / b
    shape = np.log1p(ratio)
    residual = y - (shape - shape.mean(axis=1, keepdims=True))
    slope: Array = -(residual * ratio / (1 + ratio)).sum(axis=1)
    return slope


def _checked(batch_sizes: ArrayLike, steps: ArrayLike) -> tuple[Array, Array]:
    b, s = np.asarray(batch_sizes, np.float64), np.asarray(steps, np.float64)
    if b.ndim != 1 or b.size < MIN_POINTS or s.shape[-1:] != b.shape:
        raise ValueError(
            f"need [n] batch sizes and [..., n] steps with n >= {MIN_POINTS}; got shapes"
            f" {b.shape} and {s.shape}"
        )
    if not (b > 0).all() or np.unique(b).size < b.size:
        raise ValueError(f"batch sizes must be positive and distinct; got {b.tolist()}")
    if not ((s > 0) & np.isfinite(s)).all():
        raise ValueError(f"steps must be positive and finite; got {s[~(s > 0)][:5].tolist()}")
    return b, s
