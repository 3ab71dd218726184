"""Progress of downloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)


class DownloadBar:
    """One file; pooch sets `total` once it knows the size, in bytes."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task
        self._total = 0

    @property
    def total(self) -> int:
        return self._total

    @total.setter
    def total(self, size: int) -> None:
        self._total = size
        self._progress.update(self._task, total=size)

    def update(self, count: int) -> None:
        self._progress.advance(self._task, count)

    def reset(self) -> None:
        self._progress.reset(self._task, total=self._total)

    def close(self) -> None:
        self._progress.stop_task(self._task)


@contextmanager
def download_bars(stream: TextIO) -> Iterator[Callable[[str], DownloadBar]]:
    """Bars in a terminal, nothing elsewhere. Yields what makes a bar for a file name."""
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    console = Console(file=stream)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        yield lambda name: DownloadBar(progress, progress.add_task(name, total=None))
