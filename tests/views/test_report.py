"""The final tables: in 80 columns, in a pipe, and where only ASCII prints."""

import io
import os
import pty

import pytest
from rich.console import Console
from view_records import CURVES, curve, point

from replicax.views.table import (
    effective_learning_rate,
    print_report,
    report_console,
    steps_table,
    winning,
)


def piped(record, encoding="utf-8"):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    print_report(record, report_console(stream))
    stream.flush()
    return raw.getvalue().decode(encoding)


def in_terminal(record, width=80):
    stream = io.StringIO()
    print_report(record, Console(file=stream, width=width, force_terminal=True, color_system=None))
    return stream.getvalue()


@pytest.mark.parametrize("name", CURVES)
def test_80_columns_are_enough(name):
    assert max(len(line) for line in in_terminal(CURVES[name]).splitlines()) <= 80


def test_no_number_is_broken_in_80_columns():
    text = in_terminal(CURVES["resnet_8"])
    for p in CURVES["resnet_8"].points:
        low, high = p.interval
        assert f"{low:,} to {high:,}" in text
        assert f"{p.steps * p.batch_size:,}" in text


@pytest.mark.parametrize("name", CURVES)
def test_a_pipe_gets_plain_lines(name):
    text = piped(CURVES[name])
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())
    assert max(len(line) for line in text.splitlines()) <= 100


def test_ascii_is_enough():
    text = piped(curve([point(4, 100)], task="données/模型"), encoding="ascii")
    assert "donn?es/??" in text
    assert text.isascii()


def test_rows_hold_steps_interval_examples_and_endings():
    lines = piped(CURVES["few"]).splitlines()
    row = next(line for line in lines if line.split()[:2] == ["16", "2,310"])
    assert " ".join(row.split()) == "16 2,310 2,100 to 2,500 36,960 0.0987 4 / 14 / 6"
    assert any("? to 790" in line for line in lines)
    assert any("280 to ?" in line for line in lines)


def test_notes_explain_unknown_ends_and_edges():
    assert "At batch size 64 and 256, interval: too few trials reached the goal." in piped(
        CURVES["few"]
    )
    assert "(learning_rate above and momentum above)" in " ".join(piped(CURVES["flagged"]).split())


def test_winners_show_their_hyperparameters():
    text = piped(CURVES["flagged"])
    assert "effective" in text
    assert "decay steps" in text
    h = winning(CURVES["few"].points[0])
    assert effective_learning_rate(h) == pytest.approx(h["learning_rate"] / (1 - h["momentum"]))
    assert "momentum" not in piped(CURVES["sgd"])


def test_effective_learning_rate_needs_both():
    assert effective_learning_rate({"learning_rate": 0.1}) is None
    assert effective_learning_rate({"learning_rate": 0.1, "momentum": 1.0}) is None


def test_a_point_without_a_result_has_no_winner():
    assert winning(CURVES["unsolved"].points[0]) is None
    assert "Winning trials" not in piped(CURVES["unsolved"])
    assert "not reached" in piped(CURVES["unsolved"])


def test_estimates_or_their_refusal():
    text = piped(CURVES["resnet_8"])
    assert "critical batch size        320 (90 %: 250 to 430)" in text
    assert "Fit: steps = 614 (1 + 324 / batch size), off by 0.27 octaves" in text
    assert piped(CURVES["one"]).count("refused: the largest batch") == 4


def test_markup_in_names_is_taken_literally():
    assert "[bold]x[/bold]" in piped(curve([point(4, 100)], task="[bold]x[/bold]"))


def test_every_batch_size_is_a_row():
    assert steps_table(CURVES["resnet_8"]).row_count == 13


def test_a_real_terminal():
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        console = report_console(stream)
        assert console.is_terminal
        console.width = 80
        print_report(CURVES["one"], console)
        stream.flush()
        text = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "Steps to result" in text
