"""How numbers are written for people, in tables, sentences and on axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Label = Callable[[float], str]  # writes the value of a tick

MISSING = "-"


def count(value: int | None) -> str:
    """A whole number with thousands separators."""
    return MISSING if value is None else f"{value:,}"


def significant(value: float | None, digits: int = 3) -> str:
    """A number to some significant digits; scientific outside 0.0001 .. 999,999."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    size = math.floor(math.log10(abs(rounded)))
    if -4 <= size <= 5:
        return f"{rounded:,.{max(digits - 1 - size, 0)}f}"
    mantissa, exponent = f"{rounded:.{digits - 1}e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"


def momentum(value: float | None) -> str:
    """A momentum with as many digits as show two significant ones of 1 - momentum."""
    if value is None or not math.isfinite(value):
        return MISSING
    if not 0 < 1 - value < 1:
        return f"{value:g}"
    return f"{value:.{max(1 - math.floor(math.log10(1 - value)), 2)}f}"


def examples_per_step(value: float | None) -> str:
    """A batch size: exact when whole, otherwise to the two digits that an estimate deserves."""
    if value is None or not math.isfinite(value):
        return MISSING
    return count(int(value)) if value == int(value) else significant(value, 2)


def short(value: float | None) -> str:
    """At most five characters: 950, 1.2k, 34k, 5.6M."""
    if value is None or not math.isfinite(value):
        return MISSING
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            scaled = value / size
            return f"{scaled:.1f}{unit}" if abs(scaled) < 9.95 else f"{scaled:.0f}{unit}"
    return f"{value:.0f}" if value == int(value) or abs(value) >= 100 else significant(value, 2)


def duration(seconds: float | None) -> str:
    """A time to go, to its two largest units."""
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def comma_list(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def power_ticks(low: float, high: float, at_most: int) -> list[float]:
    """Powers of two in [low, high], evenly thinned to `at_most`."""
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    stride = max(1, math.ceil((last - first + 1) / at_most))
    return [2.0**k for k in range(first, last + 1, stride)]


def decimal_ticks(low: float, high: float, at_most: int) -> list[float]:
    """Round numbers in [low, high] for a logarithmic axis: decades, or 1, 2, 5 when it is short."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    decades = [10.0**k for k in range(first, last + 1) if _within(low, 10.0**k, high)]
    if len(decades) >= 3:
        return decades[:: math.ceil(len(decades) / at_most)]
    for mantissas in ((1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7)):
        fine = [m * 10.0**k for k in range(first, last + 1) for m in mantissas]
        ticks = [tick for tick in fine if _within(low, tick, high)]
        if len(ticks) >= 2:
            return ticks[:: math.ceil(len(ticks) / at_most)]
    return [low, high]


def _within(low: float, value: float, high: float) -> bool:
    return low * (1 - 1e-9) <= value <= high * (1 + 1e-9)
