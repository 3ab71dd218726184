"""The command line as users meet it: results, refusals, interruptions."""

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from replicax import cli
from replicax.study.ledger import INDEX, Ledger

REPLICAX = [sys.executable, "-m", "replicax.cli"]
SMALL = (
    "study", "digits", "--trials", "6", "--batch-sizes", "64,256", "--goal", "0.12", "--no-widen",
    "--max-steps", "150", "--executor", "scan:2:1", "--min-gap", "1",
)  # fmt: skip
LONG = (
    "study", "digits", "--trials", "16", "--batch-sizes", "32,128", "--goal", "0.017", "--no-widen",
    "--max-steps", "4000", "--max-examples", "500000", "--executor", "scan:4:2", "--min-gap", "8",
)  # fmt: skip


def run(*arguments, timeout=120, **options):
    command = [*REPLICAX, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, **options)


def start(*arguments):
    command = [*REPLICAX, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def invoke(monkeypatch, capsys):
    """Runs the command line in this process: (exit code, stdout, stderr)."""
    before = signal.getsignal(signal.SIGINT)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["replicax", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, *capsys.readouterr()

    yield call
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small study that has ended, and what it printed."""
    folder = tmp_path_factory.mktemp("finished") / "study"
    return folder, run(*SMALL, "--out", folder)


def tables(folder):
    """All that a study has measured, in an order of its own."""
    with Ledger.read(folder) as ledger:
        measured = ledger.measurements().sort("batch_size", "trial", "step")
        return measured.rows(), {b: ledger.study(b).trials for b in (32, 128)}


def files(folder):
    """How many files of measurements there are."""
    return len(list(folder.glob("measurements-*")))


def wait_for(condition, child, seconds=60):
    """Until the condition holds or the child has ended; fails after that many seconds."""
    until = time.monotonic() + seconds
    while not condition() and child.poll() is None:
        assert time.monotonic() < until, "it takes too long"
        time.sleep(0.02)


# Results


def test_a_study_leaves_pictures_result_and_ledger(finished):
    folder, done = finished
    assert done.returncode == 0, done.stderr
    assert {p.name for p in folder.iterdir()} >= {"curve.png", "tuning.png", "result.json", INDEX}
    for picture in ("curve.png", "tuning.png"):
        assert (folder / picture).read_bytes().startswith(b"\x89PNG")
    assert "Steps to result" in done.stdout
    assert f"In {folder}: curve.png, tuning.png, result.json, the ledger." in done.stdout
    assert "batch size 64: done" in done.stderr


def test_the_result_has_what_is_promised(finished):
    folder, _ = finished
    result = json.loads((folder / "result.json").read_text())
    assert (result["task"], result["optimizer"], result["goal"]) == (
        "digits/fc_64",
        "nesterov",
        0.12,
    )
    assert [point["batch_size"] for point in result["points"]] == [64, 256]
    for point in result["points"]:
        low, high = point["interval"]
        assert low <= point["steps"] <= high
        assert 0 <= point["trial"] < 6
        assert point["at_edge"] in (True, False)
        assert sum(point["trials"].values()) == 6
        assert set(point["trials"]) == {"complete", "infeasible", "stopped"}


def test_an_ended_study_returns_at_once_and_runs_nothing(finished):
    folder, first = finished
    parts = sorted(p.name for p in folder.glob("measurements-*"))
    again = run(*SMALL, "--out", folder, "--json", "--quiet")
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == (folder / "result.json").read_text()
    assert sorted(p.name for p in folder.glob("measurements-*")) == parts
    with Ledger.read(folder) as ledger:
        assert len(ledger.provenance()) == 1
    shown = run("show", folder)
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, first.stdout, "")
    assert run("show", folder, "--json").stdout == again.stdout


def test_a_study_can_be_shown_where_nothing_may_be_written(finished, tmp_path):
    folder, _ = finished
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in folder.iterdir():
        if path.name != "curve.png":
            (copy / path.name).write_bytes(path.read_bytes())
    before = sorted(copy.iterdir())
    shown = run("show", copy)
    assert shown.returncode == 0
    assert f"In {copy}: tuning.png, result.json, the ledger." in shown.stdout
    assert sorted(copy.iterdir()) == before


def test_the_same_command_gives_the_same_points_and_another_seed_others(finished, tmp_path):
    folder, _ = finished
    points = json.loads((folder / "result.json").read_text())["points"]
    same, other = (
        json.loads(run(*SMALL, "--seed", seed, "--out", tmp_path / seed, "--json").stdout)["points"]
        for seed in "01"
    )
    assert same == points
    assert other != points


def test_lists(invoke):
    code, out, _ = invoke("tasks")
    assert code == 0
    for name in ("digits/fc_64", "fashion_mnist/fc_100", "mnist/fc_1024", "mnist/fc_64_64_64"):
        assert name in out


@pytest.mark.parametrize("command", ["", "study", "show", "tasks", "data", "data get"])
def test_help(invoke, command):
    code, out, err = invoke(*command.split(), "--help")
    assert (code, err) == (0, "")
    assert "Usage: replicax" in out


def test_help_of_study_names_the_options(invoke):
    _, out, _ = invoke("study", "--help")
    for option in (
        "optimizer", "batch-sizes", "trials", "goal", "max-steps", "max-examples", "exhaustive",
        "seed", "out", "time-limit", "quiet", "json",
    ):  # fmt: skip
        assert f"--{option}" in out


# Refusals

BAD = {
    "unknown task": ("study digts", "unknown task 'digts'", "digits"),
    "unknown model": ("study mnist/fc_1025", "unknown task 'mnist/fc_1025'", "mnist/fc_1024"),
    "unknown data set": ("data get mnits", "'mnits'", "mnist"),
    "unknown optimizer": ("study digits --optimizer adam", "'adam'", "sgd, momentum, nesterov"),
    "unknown schedule": ("study digits --schedule cosine", "'cosine'", "constant, linear"),
    "unknown option": ("study digits --batchsize 4", "--batchsize", "--batch-sizes"),
    "no task": ("study", "Missing argument", "task"),
    "batch size 0": ("study digits --batch-sizes 0,4", "between 1 and 1199", "got 0"),
    "negative batch size": ("study digits --batch-sizes=-4", "between 1 and 1199", "got -4"),
    "large batch size": ("study digits --batch-sizes 1200", "between 1 and 1199", "got 1200"),
    "batch size twice": ("study digits --batch-sizes 4,8,4", "given twice: [4]", "once"),
    "batch size in words": ("study digits --batch-sizes four", "'four'", "4,16,64"),
    "no batch size": ("study digits --batch-sizes=", "''", "4,16,64"),
    "inverted range": ("study digits --batch-sizes 64..4", "'64..4'", "4..4096"),
    "goal 0": ("study digits --goal 0", "between 0 and 1", "got 0"),
    "goal 1": ("study digits --goal 1", "between 0 and 1", "got 1"),
    "goal 1.5": ("study digits --goal 1.5", "between 0 and 1", "got 1.5"),
    "goal nan": ("study digits --goal nan", "between 0 and 1", "got nan"),
    "goal in words": ("study digits --goal low", "got 'low'", "valid number"),
    "trials in words": ("study digits --trials many", "got 'many'", "valid integer"),
    "goal met at step 0": ("study digits --goal 0.99", "already met at step 0", "--goal"),
    "no trials": ("study digits --trials 0", "--trials must be at least 1", "got 0"),
    "no steps": ("study digits --max-steps 0", "--max-steps must be at least 1", "got 0"),
    "no gap": ("study digits --min-gap 0", "--min-gap must be at least 1", "got 0"),
    "negative seed": ("study digits --seed=-1", "--seed must be between", "got -1"),
    "huge seed": (f"study digits --seed {2**64}", "--seed must be between", "got"),
    "few examples": ("study digits --max-examples 9", "got --max-examples 9", "raise it"),
    "time limit": ("study digits --time-limit soon", "'soon'", "10m"),
    "no time": ("study digits --time-limit 0s", "'0s'", "10m"),
    "executor": ("study digits --executor scan:0:1", "'scan:0:1'", "scan:1:2"),
    "executor in signs": ("study digits --executor scan:²:1", "LOOP:SIZE:STREAMS", "scan:1:2"),
    "show nothing": ("show nowhere", "no scaling study in nowhere", "replicax study"),
}  # fmt: skip


@pytest.mark.parametrize(("command", "received", "remedy"), BAD.values(), ids=BAD)
def test_a_mistake_is_one_line_and_leaves_nothing(
    invoke, command, received, remedy, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code, out, err = invoke(*command.split())
    assert (code, out) == (2, "")
    assert err.startswith("replicax: ")
    assert err.count("\n") == 1
    assert received in err
    assert remedy in err
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_is_no_traceback_in_a_process_either(tmp_path):
    done = run("study", "digits", "--goal", "2", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("replicax: the goal must lie between 0 and 1")
    assert done.stderr.count("\n") == 1


def test_a_data_set_that_is_not_here(invoke, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "empty").mkdir()
    code, _, err = invoke(
        "study", "mnist", "--data-dir", tmp_path / "empty", "--out", tmp_path / "o"
    )
    assert code == 2
    assert "replicax data get mnist" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "o").exists()


def test_a_file_in_place_of_the_output(invoke, tmp_path):
    (tmp_path / "file").write_text("precious")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        code, _, err = invoke(*SMALL, "--quiet", "--out", out)
        assert code == 2
        assert "--out" in err
        assert err.count("\n") == 1
    assert (tmp_path / "file").read_text() == "precious"


def test_a_foreign_folder_is_left_alone(invoke, tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    code, _, err = invoke(*SMALL, "--quiet", "--out", tmp_path)
    assert (code, err.count("\n")) == (2, 1)
    assert "not a scaling study" in err
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_another_configuration_in_the_same_folder(invoke, finished):
    folder, _ = finished
    before = {p.name: p.read_bytes() for p in folder.glob("measurements-*")}
    code, _, err = invoke(*SMALL, "--seed", "5", "--out", folder)
    assert code == 2
    assert "seed: 0, not 5" in err
    assert err.count("\n") == 1
    assert {p.name: p.read_bytes() for p in folder.glob("measurements-*")} == before


def test_a_ledger_of_a_newer_version(invoke, finished, tmp_path):
    folder, _ = finished
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    index = sqlite3.connect(tmp_path / INDEX)
    index.execute("PRAGMA user_version = 9")
    index.close()
    for command in (("show", tmp_path), (*SMALL, "--out", tmp_path)):
        code, _, err = invoke(*command)
        assert code == 2
        assert "newer replicax" in err
        assert err.count("\n") == 1


def test_no_trial_reaches_the_goal(invoke, tmp_path):
    arguments = ("--goal", "0.001", "--max-steps", "10", "--out", tmp_path / "o")
    code, out, err = invoke(*SMALL, *arguments, "--quiet")
    assert code == 3
    assert "no trial reached the goal 0.001: the best val/classification_error was 0." in err
    for remedy in ("--goal", "--max-steps", "--max-examples", "--trials", "kept"):
        assert remedy in err
    assert err.count("\n") == 1
    assert "Steps to result" in out
    code, out, _ = invoke("show", tmp_path / "o", "--json")
    assert code == 3
    assert [point["steps"] for point in json.loads(out)["points"]] == [None, None]


# Interruptions


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What a study of some seconds finds if nobody interrupts it."""
    folder = tmp_path_factory.mktemp("undisturbed") / "study"
    done = run(*LONG, "--out", folder, "--quiet", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["points"], tables(folder)


def test_kill_9_at_random_moments_changes_no_bit(undisturbed, tmp_path):
    rng = random.Random(0)
    for _ in range(3):
        after = files(tmp_path) + rng.randint(1, 2)
        with start(*LONG, "--out", tmp_path, "--quiet") as child:
            try:
                wait_for(lambda enough=after: files(tmp_path) >= enough, child)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(rng.uniform(0, 0.5))
                assert child.poll() is None
            finally:
                child.kill()
    done = run(*LONG, "--out", tmp_path, "--quiet", "--json")
    assert done.returncode == 0, done.stderr
    points, found = undisturbed
    assert json.loads(done.stdout)["points"] == points
    assert tables(tmp_path) == found


def test_ctrl_c_saves_and_the_same_command_goes_on(undisturbed, tmp_path):
    with start(*LONG, "--out", tmp_path) as child:
        try:
            wait_for((tmp_path / INDEX).exists, child)
            child.send_signal(signal.SIGINT)
            _, err = child.communicate(timeout=60)
        finally:
            child.kill()
    assert child.returncode == 130, err
    assert "Traceback" not in err
    assert f"interrupted: saved in {tmp_path}; the same command goes on" in err
    done = run(*LONG, "--out", tmp_path, "--quiet", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["points"] == undisturbed[0]
    assert tables(tmp_path) == undisturbed[1]


@pytest.mark.parametrize("delay", [0.6, 1.0, 1.6])
def test_ctrl_c_is_never_a_traceback(tmp_path, delay):
    with start(*LONG, "--out", tmp_path) as child:
        try:
            time.sleep(delay)  # any moment will do
            child.send_signal(signal.SIGINT)
            _, err = child.communicate(timeout=60)
        finally:
            child.kill()
    assert child.returncode == 130
    assert "Traceback" not in err
    assert "interrupted" in err


def test_a_time_limit_saves_and_the_same_command_goes_on(undisturbed, tmp_path):
    stopped = run(*LONG, "--out", tmp_path, "--time-limit", "0.5s")
    assert stopped.returncode == 4, stopped.stderr
    assert f"time limit: saved in {tmp_path}; the same command goes on" in stopped.stderr
    assert "Unfinished: 0 of 2 batch sizes have ended." in stopped.stdout
    done = run(*LONG, "--out", tmp_path, "--quiet", "--json")
    assert json.loads(done.stdout)["points"] == undisturbed[0]
    assert tables(tmp_path) == undisturbed[1]


def test_a_second_writer_is_refused(tmp_path):
    with start(*LONG, "--out", tmp_path) as child:
        try:
            wait_for(lambda: any(tmp_path.glob("measurements-*")), child)
            second = run(*LONG, "--out", tmp_path, "--quiet")
            shown = run("show", tmp_path)
        finally:
            child.kill()
    assert second.returncode == 2
    assert "another process is writing" in second.stderr
    assert second.stderr.count("\n") == 1
    assert shown.returncode == 0, shown.stderr


def test_the_package_needs_no_home(tmp_path):
    """A study works where nothing but the output folder may be written, but for the caches."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")}
    environment["HOME"] = str(tmp_path / "nowhere")
    done = run(*SMALL, "--out", tmp_path / "o", "--quiet", env=environment)
    assert done.returncode == 0, done.stderr
