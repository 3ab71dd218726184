"""Values of command-line options that are more than a number or a word."""

from __future__ import annotations

import re

from replicax.errors import UserError

_UNITS = {"s": 1, "m": 60, "h": 3600, "": 1}


def batch_sizes_option(text: str) -> tuple[int, ...]:
    """Reads `4,16,64`, `4..4096` (times two each) or `4..4096x4` (times four each).

    Raises:
      UserError: anything else. Whether the numbers make sense is for the study to say.
    """
    if found := re.fullmatch(r"(\d+)\.\.(\d+)(?:x(\d+))?", text.strip()):
        low, high, factor = int(found[1]), int(found[2]), int(found[3] or 2)
        if 0 < low <= high and factor > 1:
            return tuple(_powers(low, high, factor))
    elif re.fullmatch(r"\s*[+-]?\d+\s*(,\s*[+-]?\d+\s*)*", text):
        return tuple(int(part) for part in text.split(","))
    raise UserError(
        "batch sizes are whole numbers, 4,16,64, or a range of growing powers, 4..4096 or "
        f"4..4096x4; got {text!r}"
    )


def counts_option(option: str, text: str) -> tuple[int, ...]:
    """Reads at least two counts, `1,2,4`. Raises UserError for anything else."""
    if re.fullmatch(r"\s*\d+\s*(,\s*\d+\s*)+", text):
        counts = tuple(int(part) for part in text.split(","))
        if min(counts) > 0:
            return counts
    raise UserError(f"{option} is two or more counts such as 1,2,4,8; got {text!r}")


def seconds_option(option: str, text: str) -> float:
    """Reads `90s`, `10m`, `2h` or `90`, in seconds. Raises UserError for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if not found or float(found[1]) <= 0:
        raise UserError(f"{option} is a positive time such as 90s, 10m or 2h; got {text!r}")
    return float(found[1]) * _UNITS[found[2]]


def _powers(low: int, high: int, factor: int) -> list[int]:
    powers = [low]
    while powers[-1] * factor <= high:
        powers.append(powers[-1] * factor)
    return powers
