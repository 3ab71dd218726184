"""One contract for all that show progress; then what is particular to each."""

import io
import os
import pty
import time

import pytest
from rich.console import Console

from replicax.study.progress import Progress
from replicax.views.live import LiveTable, PlainLines, Silent, progress_line, watcher

BATCH_SIZES = [16, 64, 256]


class Clock:
    """Time that passes only when told."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def terminal(stream, width=80):
    return Console(file=stream, force_terminal=True, width=width, height=30, color_system=None)


def make(kind, stream, clock=time.monotonic):
    if kind == "table":
        return LiveTable(terminal(stream), BATCH_SIZES, clock)
    return PlainLines(stream, clock) if kind == "lines" else Silent()


def running(batch_size=16, step=100, **changes):
    values = {
        "running": 90,
        "infeasible": 7,
        "stopped": 2,
        "reached": 1,
        "best": 0.1234,
        "max_steps": 60_000,
        "rate": 12_345.0,
        "seconds_left": 3700.0,
    }
    return Progress(batch_size, "running", step=step, **{**values, **changes})


@pytest.fixture
def stream():
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def written(stream):
    return stream.buffer.getvalue().decode()


@pytest.mark.parametrize("kind", ["table", "lines", "silent"])
def test_contract(kind, stream):
    watching = make(kind, stream)
    with watching as entered:
        assert entered is watching
        for batch_size in BATCH_SIZES:
            watching.update(Progress(batch_size, "measuring"))
            watching.message("executor: one dispatch per step")
            for step in range(0, 1000, 100):
                watching.update(running(batch_size, step))
            watching.update(Progress(batch_size, "done", reached=3, steps_to_result=900))
        watching.update(Progress(16, "not reached"))
        watching.update(Progress(5, "running"))  # a batch size that nobody announced
    text = written(stream)
    if kind == "silent":
        assert text == ""
    else:
        assert text.count("executor: one dispatch per step") == 3
        for word in ("measuring", "running", "done", "900", "not reached"):
            assert word in text


@pytest.mark.parametrize("kind", ["table", "lines", "silent"])
def test_errors_pass_through(kind, stream):
    with pytest.raises(KeyError), make(kind, stream):
        raise KeyError("x")


@pytest.mark.parametrize("kind", ["table", "lines", "silent"])
def test_an_update_that_draws_nothing_takes_under_a_tenth_of_a_millisecond(kind, stream):
    with make(kind, stream, Clock()) as watching:
        watching.update(running())
        best = float("inf")
        for _ in range(5):
            begin = time.perf_counter()
            for step in range(200):
                watching.update(running(step=step))
            best = min(best, (time.perf_counter() - begin) / 200)
    assert best < 1e-4


def test_table_is_drawn_at_most_four_times_a_second(stream):
    clock = Clock()
    with LiveTable(terminal(stream), BATCH_SIZES, clock) as table:
        table.update(running())
        size = len(written(stream))
        for step in range(100):
            clock.now += 0.0024
            table.update(running(step=step))
        assert len(written(stream)) == size
        clock.now += 0.02
        table.update(running(step=4321))
        assert "4.3k/60k" in written(stream)[size:]


def test_table_draws_a_change_of_state_at_once_and_the_last_state_at_the_end(stream):
    with LiveTable(terminal(stream), BATCH_SIZES, Clock()) as table:
        table.update(running())
        table.update(Progress(16, "done", steps_to_result=777))
        assert "777" in written(stream)
        table.update(running(64))
        table.update(running(64, best=0.0567))
        assert "0.0567" not in written(stream)
    assert "0.0567" in written(stream)


def test_table_shows_all_batch_sizes_from_the_start_in_80_columns(stream):
    with LiveTable(terminal(stream), [8192, 2], Clock()) as table:
        text = written(stream)
        assert text.index("    2") < text.index("8,192")
        table.update(running(8192, 999_999, max_steps=9_999_999, steps_to_result=9_999_999))
    for line in written(stream).replace("\r", "\n").splitlines():
        assert "…" not in line


def test_lines_come_with_a_change_of_state_or_after_ten_seconds(stream):
    clock = Clock()
    with PlainLines(stream, clock) as lines:
        lines.update(Progress(16, "measuring"))
        for _ in range(101):  # 25 seconds
            lines.update(running())
            lines.update(running(64))
            clock.now += 0.25
        lines.update(Progress(16, "done", steps_to_result=900))
    text = written(stream).splitlines()
    assert len([line for line in text if line.startswith("batch size 16")]) == 1 + 3 + 1
    assert len([line for line in text if line.startswith("batch size 64")]) == 3


def test_lines_survive_a_stream_that_cannot_write_the_text():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    PlainLines(stream).message("données")
    assert stream.buffer.getvalue() == b"donn?es\n"


def test_line():
    assert progress_line(running(steps_to_result=900)) == (
        "batch size 16: running, result 900 steps, step 100 of 60,000, 90 running, "
        "1 reached the goal, 2 stopped, 7 infeasible, best 0.123, 12k trial steps/s, "
        "at most 1h01m left"
    )
    assert progress_line(Progress(2048, "waiting")) == "batch size 2,048: waiting"


def test_watcher_suits_the_stream(stream, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(watcher(stream, BATCH_SIZES), PlainLines)
    assert isinstance(watcher(stream, BATCH_SIZES, quiet=True), Silent)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as real:
        watching = watcher(real, BATCH_SIZES)
        assert isinstance(watching, LiveTable)
        with watching:
            watching.update(running())
        text = os.read(ours, 100_000).decode()
        assert "running" in text
        monkeypatch.setenv("TERM", "dumb")
        assert isinstance(watcher(real, BATCH_SIZES), PlainLines)
    os.close(ours)


def test_prints_to_a_piped_stdout_stay_there(stream, capsys):
    with LiveTable(terminal(stream), BATCH_SIZES, Clock()):
        print("a result")
    assert capsys.readouterr().out == "a result\n"
    assert "a result" not in written(stream)
