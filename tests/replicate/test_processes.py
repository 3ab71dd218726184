"""Several processes over gloo, started for real by the launcher."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

CHILD = Path(__file__).parent / "process_child.py"
LAUNCH = [sys.executable, "-m", "replicax.cli", "launch"]


def launch(*arguments, timeout=120):
    return subprocess.run(
        [*LAUNCH, *map(str, arguments)], capture_output=True, text=True, timeout=timeout
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(kind, processes, devices of each) -> what each process has seen."""
    folder, known = tmp_path_factory.mktemp("trained"), {}

    def run(kind, processes, devices):
        name = f"{kind}-{processes}-{devices}"
        if name not in known:
            options = ["--devices", devices]
            if processes > 1:
                options = ["--processes", processes, "--devices-per-process", devices]
            done = launch(*options, CHILD, kind, folder / name)
            assert done.returncode == 0, done.stderr
            known[name] = [
                json.loads((folder / f"{name}-{i}.json").read_text()) for i in range(processes)
            ]
        return known[name]

    return run


def losses(seen):
    return np.array([float.fromhex(x) for x in seen["losses"]])


@pytest.mark.parametrize(
    ("kind", "processes", "devices", "replicas"),
    [("train", 2, 1, 2), ("train", 2, 2, 4), ("microbatches", 2, 1, 2), ("virtual", 2, 2, 8)],
)
def test_processes_change_nothing(trained, kind, processes, devices, replicas):
    (one,) = trained("train", 1, 1)
    for seen in trained(kind, processes, devices):
        assert seen["replicas"] == replicas
        np.testing.assert_allclose(losses(seen), losses(one), rtol=1e-5)
        for a, b in zip(seen["weights"], one["weights"], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        assert seen["counts"] == [230, 40]
        assert seen["values"] == pytest.approx(one["values"], rel=1e-6)
        assert seen["ended"] == 5
        assert seen["agreed"] == [0, 1, 1]


def test_deterministic_mode_keeps_every_bit(trained):
    (one,) = trained("deterministic", 1, 1)
    for processes, devices in ((1, 4), (2, 1), (2, 2)):
        for seen in trained("deterministic", processes, devices):
            assert seen["losses"] == one["losses"]
            assert seen["weights"] == one["weights"]


def test_another_program_on_one_process_is_named():
    done = launch("--processes", 2, CHILD, "another_program")
    assert done.returncode == 1
    assert "the program of process 1 differs from that of process 0" in done.stderr


def test_one_pipeline_cannot_feed_two_processes():
    done = launch("--processes", 2, CHILD, "one_pipeline")
    assert done.returncode == 1
    assert "got 2 processes, which share no memory; use 'per_worker'" in done.stderr


def test_the_death_of_one_ends_all():
    begin = time.monotonic()
    done = launch("--processes", 2, CHILD, "fails")
    assert done.returncode == 7
    assert "[1] last words" in done.stderr
    assert time.monotonic() - begin < 60


def children(pid):
    """Processes that a process has started."""
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_end_of_the_launcher_leaves_no_process(tmp_path, number):
    script = tmp_path / "sleeps.py"
    script.write_text("import time; print('up'); time.sleep(600)")
    command = [*LAUNCH, "--processes", "2", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
        for _ in range(2):
            assert "up" in launcher.stdout.readline()
        started = children(launcher.pid)
        assert len(started) == 2
        launcher.send_signal(number)
        assert launcher.wait(timeout=60) == 128 + number
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_what_a_script_gets(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import jax, os, sys\n"
        "print(sys.argv[1:], len(jax.devices()), os.environ.get('REPLICAX_PROCESSES'))\n"
    )
    done = launch("--devices", 3, script, "--flag", "x", "--devices", "9")
    assert done.stdout == "['--flag', 'x', '--devices', '9'] 3 None\n"
    script.write_text("import os\nprint(os.environ['REPLICAX_PROCESS_ID'])\n")
    done = launch("--processes", 2, script)
    assert sorted(done.stdout.splitlines()) == ["[0] 0", "[1] 1"]


def test_exit_codes_of_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys; sys.exit(5)")
    assert launch(script).returncode == 5
    script.write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert launch(script).returncode == 137


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py"], "no such script: nowhere.py"),
        (["--devices", 0, CHILD], "devices must be at least 1; got 0"),
        (["--processes", 0, CHILD], "processes must be at least 1; got 0"),
        (
            ["--processes", 2, "--devices", 2, CHILD],
            "--devices is for one process; got --devices 2",
        ),
    ],
)
def test_wrong_options(arguments, message):
    done = launch(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_taken_port_is_refused():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = launch("--processes", 2, "--port", port, CHILD, "fails")
    assert done.returncode == 2
    assert f"port {port} of 127.0.0.1 cannot be used: Address already in use" in done.stderr
