"""What shows the progress of a download; the drawing is the caller's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Bar(Protocol):
    """The progress of one file, in bytes; `total` is set once its size is known."""

    total: int

    def update(self, count: int) -> None:
        """Adds some bytes."""

    def reset(self) -> None:
        """Goes back to none."""

    def close(self) -> None:
        """Ends, after a failure too; may be called twice."""


NewBar = Callable[[str], Bar]  # file name -> bar
