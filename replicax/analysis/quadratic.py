"""The noisy quadratic model: exact expected training curves in three regimes of batch size.

The loss is 0.5 sum_i h_i theta_i^2 with curvature h_i = 1/i, i = 1..d; a gradient of batch size B
carries noise of variance h_i/B (Zhang et al. 2019; settings of the authors' notebook). Expected
squares of the parameters follow a linear recursion, so the expected loss after k steps needs no
simulation: a source of measurements whose tuned steps to result are known, with perfect scaling,
diminishing returns and maximal data parallelism.

The state is the second moments of each dimension, a vector z of 1 or 3 numbers that starts at z_0;
one step is z <- T z + n/B. Arrays are laid out [moment, ..., dimension].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class NoisyQuadratic:
    """The model and the optimizer's fixed part.

    Attributes:
      dimensions: d, 10,000 in the paper.
      start: E[theta_i^2] before the first step.
      power: p of a fixed preconditioner h^-p, 0 <= p < 1; 0 is plain gradient descent.
      averaging: r of an exponential moving average of the parameters; 0 evaluates them directly.
    """

    dimensions: int = 10_000
    start: float = 1.0
    power: float = 0.0
    averaging: float = 0.0

    def __post_init__(self) -> None:
        if self.dimensions < 1 or not 0 <= self.power < 1 or not 0 <= self.averaging < 1:
            raise ValueError(
                f"need dimensions >= 1, 0 <= power < 1 and 0 <= averaging < 1; got {self}"
            )

    @property
    def curvature(self) -> Array:
        """h, float64 [d]."""
        return 1.0 / np.arange(1, self.dimensions + 1)


class Dynamics(NamedTuple):
    """One step of the second moments: z <- T z + n/B, and the weights of the loss.

    Attributes:
      transition: T, [m, m, points, d].
      noise: n, [m, points, d]; at batch size 1.
      start: z_0, [m, 1, 1].
      weights: [m, d]; the loss is the sum of weights * z over moments and dimensions.
    """

    transition: Array
    noise: Array
    start: Array
    weights: Array


def dynamics(model: NoisyQuadratic, learning_rates: ArrayLike, momenta: ArrayLike) -> Dynamics:
    """The recursion at points (learning rate, momentum) of the same length, [points].

    Zhang et al. 2019: gradient descent follows E[theta^2]; heavy ball
    (theta' = (1-x) theta + m v, v' = m v - x theta, x = a h^(1-p)) follows E[theta^2], E[v^2] and
    E[theta v]; averaging (u' = r u + theta', evaluated at (1-r) u) follows E[theta^2], E[u^2] and
    E[theta u]. Momentum and averaging are not combined.
    """
    a = np.atleast_1d(np.asarray(learning_rates, np.float64))[:, None]
    m = np.atleast_1d(np.asarray(momenta, np.float64))[:, None]
    h, r = model.curvature, model.averaging
    if r and m.any():
        raise ValueError(f"averaging and momentum are not combined; got averaging={r} and momenta")
    x = a * h ** (1 - model.power)
    noise = a**2 * h ** (1 - 2 * model.power)
    if r:
        rows, start, weights = _averaged(x, r)
    elif m.any():
        rows, start, weights = _heavy_ball(x, m)
    else:
        rows, start, weights = [[(1 - x) ** 2]], [1.0], [1.0]
    return Dynamics(
        transition=np.array([np.broadcast_arrays(*row, x)[:-1] for row in rows]),
        noise=np.stack([noise] * len(rows)),
        start=model.start * np.array(start)[:, None, None],
        weights=np.array(weights)[:, None] * h / 2,
    )


def _heavy_ball(x: Array, m: Array) -> tuple[list[list[Array]], list[float], list[float]]:
    keep = 1 - x
    rows = [
        [keep**2, m**2, 2 * m * keep],
        [x**2, m**2, -2 * x * m],
        [-x * keep, m**2, (1 - 2 * x) * m],
    ]
    return rows, [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]


def _averaged(x: Array, r: float) -> tuple[list[list[Array]], list[float], list[float]]:
    """The average starts as if theta had always been at its start: u = theta / (1 - r)."""
    keep, zero = 1 - x, np.zeros_like(x)
    rows = [
        [keep**2, zero, zero],
        [keep**2, r**2 + zero, 2 * r * keep],
        [keep**2, zero, r * keep],
    ]
    return rows, [1.0, (1 - r) ** -2, (1 - r) ** -1], [0.0, (1 - r) ** 2, 0.0]


def loss_parts(step: Dynamics, steps: ArrayLike) -> tuple[Array, Array]:
    """The expected loss after each number of steps, as D + N/B.

    Args:
      step: one step at [points].
      steps: [k], ascending whole numbers >= 0.

    Returns:
      D and N, float64 [k, points]: the loss without noise, and the part that noise adds at B = 1.
    """
    counts = np.asarray(steps, np.int64)
    gaps = np.diff(counts, prepend=0)
    if (gaps < 0).any():
        raise ValueError(f"steps must be ascending and not negative; got {counts[:5].tolist()} ...")
    powers = _powers(step, int(gaps.max(initial=0)).bit_length())
    decay = step.start + np.zeros_like(step.noise)
    noise = np.zeros_like(step.noise)
    parts = np.empty((2, counts.size, step.noise.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        for i, gap in enumerate(gaps.tolist()):
            for bit, (t, n) in enumerate(powers):
                if gap >> bit & 1:
                    decay, noise = _apply(t, decay), _apply(t, noise) + n
            parts[0, i] = np.einsum("md,mpd->p", step.weights, decay)
            parts[1, i] = np.einsum("md,mpd->p", step.weights, noise)
    return parts[0], parts[1]


def steps_to_goal(
    step: Dynamics, goal: float, batch_sizes: ArrayLike, *, max_steps: int = 2**24
) -> Array:
    """The fewest steps after which the expected loss is below the goal.

    Bisection over the number of steps by powers of two of the transition: exact where the loss
    falls monotonically until it is below the goal, as in gradient descent; where momentum makes it
    swing, one of its crossings.

    Args:
      step: one step at [points].
      goal: of the loss; reached when the loss is strictly less.
      batch_sizes: [b], examples per step.
      max_steps: number of steps after which to give up.

    Returns:
      float64 [b, points], whole numbers, inf where the goal is not reached.
    """
    b = np.asarray(batch_sizes, np.float64)[:, None, None]
    state = step.start[:, None] + np.zeros((len(step.noise), b.shape[0], *step.noise.shape[1:]))
    taken = np.zeros(state.shape[1:3])
    with np.errstate(over="ignore", invalid="ignore"):
        powers = _powers(step, int(max_steps).bit_length())
        for bit in reversed(range(len(powers))):
            t, n = powers[bit]
            ahead = _apply(t[:, :, None], state) + n[:, None] / b
            above = ~(_loss(step, ahead) < goal)
            state = np.where(above[None, :, :, None], ahead, state)
            taken += above * 2.0**bit
    if np.einsum("md,mxy->", step.weights, step.start) < goal:
        return np.zeros_like(taken)
    return np.where(taken + 1 > max_steps, np.inf, taken + 1)


def _powers(step: Dynamics, count: int) -> list[tuple[Array, Array]]:
    """(T, n) of 1, 2, 4, ... steps at batch size 1."""
    powers = [(step.transition, step.noise)]
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(count - 1):
            t, n = powers[-1]
            powers.append((np.einsum("ij...,jk...->ik...", t, t), _apply(t, n) + n))
    return powers


def _apply(transition: Array, state: Array) -> Array:
    product: Array = np.einsum("ij...,j...->i...", transition, state)
    return product


def _loss(step: Dynamics, state: Array) -> Array:
    loss: Array = np.einsum("md,mbpd->bp", step.weights, state)
    return loss
