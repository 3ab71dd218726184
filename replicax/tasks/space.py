"""Search spaces: which hyperparameters are tuned, between which bounds, on which scale.

Scales are those of Shallue et al. 2019 as their released study files name them: linear, log,
reverse log (uniform in the logarithm of 1 - value, for momentum), integer and discrete.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Scale = Literal["linear", "log", "reverse_log", "integer", "discrete"]
Side = Literal["below", "above"]

EDGE = 0.05  # share of a range, in its scale, that counts as near a bound


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One hyperparameter and its range.

    Attributes:
      name: key under which the optimizer finds the value.
      scale: the scale on which points are uniform.
      low, high: bounds of the value, both included.
      limits: where the range can go at most; a bound that stands at its limit is no edge, as
        there is nothing behind it (momentum 0 is plain gradient descent).
      points: the values of a discrete parameter, in order.
    """

    name: str
    scale: Scale
    low: float
    high: float
    limits: tuple[float, float] = (-math.inf, math.inf)
    points: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        bad = f"parameter {self.name!r}, scale {self.scale!r}: "
        if self.scale == "discrete":
            if not self.points:
                raise ValueError(bad + "a discrete parameter needs at least one point")
            return
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(bad + f"needs low < high; got low={self.low}, high={self.high}")
        if self.scale == "log" and self.low <= 0:
            raise ValueError(bad + f"needs low > 0; got low={self.low}")
        if self.scale == "reverse_log" and self.high >= 1:
            raise ValueError(bad + f"needs high < 1; got high={self.high}")
        if not self.limits[0] <= self.low < self.high <= self.limits[1]:
            raise ValueError(
                bad + f"[{self.low}, {self.high}] must lie within its limits {self.limits}"
            )

    def value(self, u: float) -> float:
        """The value at position u in [0, 1) of the range; increasing in u."""
        if self.scale == "discrete":
            return self.points[min(int(u * len(self.points)), len(self.points) - 1)]
        if self.scale == "integer":
            return self.low + float(
                min(math.floor(u * (self.high - self.low + 1)), self.high - self.low)
            )
        a, b = self._transform(self.low), self._transform(self.high)
        return min(max(self._inverse(a + u * (b - a)), self.low), self.high)

    def position(self, value: float) -> float:
        """Where a value lies in the range, 0 at `low` and 1 at `high`, on the parameter's scale."""
        if self.scale == "discrete":
            return 0.5  # a discrete set has no bound to widen
        a, b = self._transform(self.low), self._transform(self.high)
        return (self._transform(value) - a) / (b - a)

    def near(self, value: float) -> Side | None:
        """The bound that a value lies near, unless that bound stands at its limit."""
        u = self.position(value)
        if u < EDGE and self.low > self.limits[0]:
            return "below"
        if u > 1 - EDGE and self.high < self.limits[1]:
            return "above"
        return None

    def beyond(self, side: Side) -> Parameter:
        """The range next to this one: a decade on the log scales, half the span on the others."""
        a, b = self._transform(self.low), self._transform(self.high)
        reach = 1.0 if self.scale in ("log", "reverse_log") else (b - a) / 2
        if self.scale == "integer":
            reach = math.ceil(reach)
        if side == "below":
            low = max(self._inverse(a - reach), self.limits[0])
            return replace(self, low=low, high=self.low)
        high = min(self._inverse(b + reach), self.limits[1])
        return replace(self, low=self.high, high=high)

    def joined(self, other: Parameter) -> Parameter:
        """This range and a neighbouring one as one range."""
        return replace(self, low=min(self.low, other.low), high=max(self.high, other.high))

    def _transform(self, value: float) -> float:
        match self.scale:
            case "log":
                return math.log10(value)
            case "reverse_log":
                return -math.log10(1 - value)
            case _:
                return value

    def _inverse(self, t: float) -> float:
        match self.scale:
            case "log":
                return 10.0**t
            case "reverse_log":
                return 1 - 10.0**-t
            case "integer":
                return float(round(t))
            case _:
                return t


Space = tuple[Parameter, ...]


def values(space: Space, point: tuple[float, ...]) -> Mapping[str, float]:
    """Hyperparameters at a point of the unit cube."""
    return {p.name: p.value(u) for p, u in zip(space, point, strict=True)}
