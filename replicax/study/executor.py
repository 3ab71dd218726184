"""How a population runs."""

from __future__ import annotations

from typing import Literal, NamedTuple

from replicax.errors import UserError

Loop = Literal["scan", "unrolled", "dispatch"]
LOOPS: tuple[Loop, ...] = ("scan", "unrolled", "dispatch")


class Executor(NamedTuple):
    """One way of running a population; `scan:4:2` as text.

    Attributes:
      loop: several steps as a compiled loop, as a chunk without a loop, or one call per step.
      size: trials per group; those of a group are vectorised.
      streams: groups that run at the same time.
    """

    loop: Loop
    size: int
    streams: int

    def __str__(self) -> str:
        return f"{self.loop}:{self.size}:{self.streams}"

    @staticmethod
    def parse(text: str) -> Executor:
        """Reads `scan:4:2`."""
        loop, *counts = text.split(":")
        if (
            loop not in LOOPS
            or len(counts) != 2
            or not all(c.isdecimal() and int(c) for c in counts)
        ):
            raise UserError(
                f"an executor is LOOP:SIZE:STREAMS with LOOP one of {', '.join(LOOPS)} and two "
                f"positive counts, e.g. scan:1:2; got {text!r}"
            )
        return Executor(loop, int(counts[0]), int(counts[1]))
