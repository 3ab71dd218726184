"""What a running scaling study shows: a table that changes, lines in a log, or nothing.

All three have the methods of `study.progress.Watcher` and are context managers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from replicax.study.progress import Progress
from replicax.views import numerals

_REDRAW_SECONDS = 0.25
_LINE_SECONDS = 10.0
_COLUMNS = (  # least widths, so that columns keep their place while numbers grow
    ("run", 3),
    ("goal", 4),
    ("stop", 4),
    ("infeas.", 7),
    ("best", 6),
    ("step", 8),
    ("result", 7),
    ("steps/s", 7),
    ("left", 6),
)

Clock = Callable[[], float]


class Watching(Protocol):
    """A watcher of a study that is open while the study runs."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def update(self, progress: Progress) -> None: ...

    def message(self, text: str) -> None: ...


def watcher(stream: TextIO, batch_sizes: Sequence[int], *, quiet: bool = False) -> Watching:
    """The one that suits the stream: a table in a terminal, lines elsewhere, nothing if quiet."""
    if quiet:
        return Silent()
    console = Console(file=stream, highlight=False, emoji=False, markup=False)
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveTable(console, batch_sizes)
    return PlainLines(stream)


class LiveTable:
    """A table with one row per batch size, redrawn at most four times a second.

    A change of state is drawn at once. Nothing runs in the background.
    """

    def __init__(
        self, console: Console, batch_sizes: Sequence[int], clock: Clock = time.monotonic
    ) -> None:
        self._rows: dict[int, Progress] = {b: Progress(b, "waiting") for b in sorted(batch_sizes)}
        self._console, self._clock = console, clock
        self._drawn = -_REDRAW_SECONDS
        self._live = Live(
            console=console,
            auto_refresh=False,
            get_renderable=lambda: progress_table(list(self._rows.values())),
            redirect_stdout=sys.stdout.isatty(),  # else prints to a pipe would end up on stderr
        )

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.refresh()
        self._live.stop()

    def update(self, progress: Progress) -> None:
        """Takes in the state of one study."""
        before = self._rows.get(progress.batch_size)
        self._rows[progress.batch_size] = progress
        now = self._clock()
        changed = before is None or before.state != progress.state
        if changed or now - self._drawn >= _REDRAW_SECONDS:
            self._live.refresh()
            self._drawn = now

    def message(self, text: str) -> None:
        """Prints a line above the table."""
        self._console.print(Text(text))


class PlainLines:
    """One line per change of state, and one per study every ten seconds at most in between."""

    def __init__(self, stream: TextIO, clock: Clock = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._last: dict[int, tuple[str, float]] = {}  # batch size -> state and time of its line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.flush()

    def update(self, progress: Progress) -> None:
        """Takes in the state of one study."""
        now = self._clock()
        state, at = self._last.get(progress.batch_size, (None, 0.0))
        if state == progress.state and now - at < _LINE_SECONDS:
            return
        self._last[progress.batch_size] = (progress.state, now)
        self.message(progress_line(progress))

    def message(self, text: str) -> None:
        """Prints a line."""
        encoding = self._stream.encoding or "ascii"
        self._stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")
        self._stream.flush()


class Silent:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def update(self, progress: Progress) -> None:
        """Does nothing."""

    def message(self, text: str) -> None:
        """Does nothing."""


def progress_table(rows: Sequence[Progress]) -> Table:
    """The state of all studies, in 80 columns."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("batch", justify="right", no_wrap=True)
    table.add_column("state", min_width=11, no_wrap=True)
    for header, width in _COLUMNS:
        table.add_column(header, justify="right", min_width=width, no_wrap=True)
    for row in rows:
        active = row.state == "running"
        table.add_row(
            numerals.count(row.batch_size),
            row.state,
            *(str(n) if n else "" for n in (row.running, row.reached, row.stopped, row.infeasible)),
            "" if row.best is None else numerals.significant(row.best),
            f"{numerals.short(row.step)}/{numerals.short(row.max_steps)}" if row.max_steps else "",
            "" if row.steps_to_result is None else numerals.count(row.steps_to_result),
            numerals.short(row.rate) if active and row.rate is not None else "",
            numerals.duration(row.seconds_left) if active and row.seconds_left is not None else "",
            style="" if active else "dim" if row.state == "waiting" else "",
        )
    return table


def progress_line(progress: Progress) -> str:
    """The state of one study in a line."""
    parts = [f"batch size {numerals.count(progress.batch_size)}: {progress.state}"]
    if progress.steps_to_result is not None:
        parts.append(f"result {numerals.count(progress.steps_to_result)} steps")
    if progress.state == "running":
        parts.append(
            f"step {numerals.count(progress.step)} of {numerals.count(progress.max_steps)}"
        )
    counts = {
        "running": progress.running,
        "reached the goal": progress.reached,
        "stopped": progress.stopped,
        "infeasible": progress.infeasible,
    }
    parts += [f"{number} {name}" for name, number in counts.items() if number]
    if progress.best is not None:
        parts.append(f"best {numerals.significant(progress.best)}")
    if progress.state == "running" and progress.rate is not None:
        parts.append(f"{numerals.short(progress.rate)} trial steps/s")
    if progress.state == "running" and progress.seconds_left is not None:
        parts.append(f"at most {numerals.duration(progress.seconds_left)} left")
    return ", ".join(parts)
