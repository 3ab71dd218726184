"""The ledger is a durable record: killed at any moment, it holds what it acknowledged."""

import contextlib
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet
import pytest
from ledger_rows import CONFIGURATION, commit_number, rows_of

from replicax.errors import UserError
from replicax.study.ledger import INDEX, LOCK, Ledger

CHILD = [sys.executable, str(Path(__file__).parent / "ledger_child.py")]


def contents(folder):
    """Every file and its bytes, but for the lock and what SQLite shares between processes."""
    passing = (LOCK, f"{LOCK}-journal", f"{INDEX}-shm")
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name not in passing}


def assert_holds(folder, at_least, at_most):
    """A reader finds a whole number of commits, and they agree with each other."""
    with Ledger.read(folder) as ledger:
        study = ledger.study(64, with_snapshot=True)
        measured = ledger.measurements()
    commits = 0 if study is None else study.step
    assert at_least <= commits <= at_most
    assert measured.rows() == [tuple(r.values()) for n in range(1, commits + 1) for r in rows_of(n)]
    if study is not None:
        assert [t.last_step for t in study.trials] == [commits] * 3
        np.testing.assert_array_equal(study.snapshot["state"], np.full(5, commits))
    return commits


def begun(folder):
    """Whether a reader finds a study; the one error it may see says that there is none yet."""
    try:
        Ledger.read(folder).close()
    except UserError as error:
        return re.match("no scaling study in|no study has begun in", str(error)) is None
    return True


def assert_writable_and_clean(folder):
    """The next writer sweeps leftovers and goes on."""
    with Ledger.create_or_resume(folder, CONFIGURATION) as ledger:
        study = ledger.study(64)
        assert commit_number(ledger, 1 if study is None else study.step + 1)
        files = [p.name for p in folder.iterdir() if not p.name.startswith((INDEX, LOCK))]
        snapshots = [name for name in files if name.startswith("snapshot-")]
        parts = [name for name in files if name.startswith("measurements-")]
        assert len(snapshots) == 1
        assert len(parts) == ledger.study(64).step
        assert len(files) == len(snapshots) + len(parts)


@pytest.fixture
def folder(tmp_path):
    """A ledger of three commits."""
    path = tmp_path / "study"
    with Ledger.create_or_resume(path, CONFIGURATION) as ledger:
        ledger.add_provenance("2026-12-01T00:00:00+00:00", {"device": "cpu"})
        for n in (1, 2, 3):
            commit_number(ledger, n)
    return path


def test_what_was_committed_is_read_back(folder):
    assert assert_holds(folder, 3, 3) == 3
    with Ledger.read(folder) as ledger:
        assert ledger.configuration() == CONFIGURATION
        assert ledger.provenance() == [{"device": "cpu"}]
        study = ledger.study(64)
        assert (study.done, study.facts, study.snapshot) == (False, {"n": 3}, None)
        assert study.trials[1].hyperparameters == {"learning_rate": 0.1 + 0.2}
        assert ledger.study(16) is None


def test_measurements_keep_what_is_not_a_number_apart_from_what_is_missing(tmp_path):
    rows = [
        {"batch_size": 64, "trial": 0, "step": 1, "error": float("nan"), "loss": 1e-300},
        {"batch_size": 64, "trial": 1, "step": 1, "error": None, "loss": float("inf")},
    ]
    with Ledger.create_or_resume(tmp_path, CONFIGURATION) as ledger:
        ledger.commit(64, step=1, facts={}, trials=[], measurements=rows, snapshot=None, done=False)
        read = ledger.measurements()
    assert read["error"].is_nan().to_list() == [True, None]
    assert read["loss"].to_list() == [1e-300, float("inf")]


def test_other_readers_of_parquet_see_the_same(folder):
    (first, *_) = sorted(folder.glob("measurements-*.parquet"))
    assert pyarrow.parquet.read_table(first).to_pylist() == rows_of(1)


def test_studies_share_a_ledger(folder):
    with Ledger.create_or_resume(folder, CONFIGURATION) as ledger:
        commit_number(ledger, 1, batch_size=16)
        assert (ledger.study(16).step, ledger.study(64).step) == (1, 3)
        assert set(ledger.measurements()["batch_size"]) == {16, 64}


def test_an_ended_study_leaves_no_snapshot(folder):
    with Ledger.create_or_resume(folder, CONFIGURATION) as ledger:
        ledger.commit(64, step=4, facts={}, trials=[], measurements=[], snapshot=None, done=True)
    assert list(folder.glob("snapshot-*")) == []
    with Ledger.read(folder) as ledger:
        assert ledger.study(64, with_snapshot=True).done


def test_every_crash_point_leaves_a_whole_number_of_commits(tmp_path):
    """A child dies before its k-th write to the file system or statement, for every k."""
    done = subprocess.run(
        [*CHILD, "sweep", tmp_path], capture_output=True, text=True, timeout=120, check=True
    )
    acknowledged = [int(n) for n in done.stdout.split()]
    assert acknowledged[-1] == 3  # the last child survived
    assert len(acknowledged) > 40
    assert sorted(set(acknowledged)) == [0, 1, 2, 3]
    for k, n in enumerate(acknowledged, start=1):
        folder = tmp_path / str(k)
        if begun(folder) or n > 0:
            assert_holds(folder, n, n + 1)
        assert_writable_and_clean(folder)
        assert_holds(folder, n + 1, n + 2)


@pytest.mark.parametrize("seed", range(3))
def test_kill_9_loses_nothing_acknowledged(tmp_path, seed):
    rng, acknowledged = random.Random(seed), 0
    for _ in range(3):
        with subprocess.Popen([*CHILD, "loop", tmp_path], stdout=subprocess.PIPE) as child:
            try:
                for _ in range(rng.randint(1, 12)):
                    acknowledged = int(child.stdout.readline())
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(rng.uniform(0, 0.02))
            finally:
                child.send_signal(signal.SIGKILL)
            acknowledged = max([acknowledged, *map(int, child.stdout.read().split())])
        assert_holds(tmp_path, acknowledged, acknowledged + 1)
    assert_writable_and_clean(tmp_path)


def test_a_second_writer_is_refused_until_the_first_is_dead(tmp_path):
    with subprocess.Popen([*CHILD, "loop", tmp_path], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout.readline() == b"1\n"
            with pytest.raises(UserError, match=r"another process is writing .* --out"):
                Ledger.create_or_resume(tmp_path, CONFIGURATION)
        finally:
            child.send_signal(signal.SIGKILL)
    assert_writable_and_clean(tmp_path)


def test_readers_see_whole_commits_while_a_writer_is_at_work(tmp_path):
    with subprocess.Popen([*CHILD, "loop", tmp_path], stdout=subprocess.PIPE) as child:
        try:
            child.stdout.readline()
            seen = []
            while not seen or seen[-1] < seen[0] + 20:
                with Ledger.read(tmp_path) as ledger:
                    parts = ledger.measurements()
                seen.append(len(parts) // 3)
                assert parts.rows() == [
                    tuple(r.values()) for n in range(1, seen[-1] + 1) for r in rows_of(n)
                ]
        finally:
            child.send_signal(signal.SIGKILL)
    assert len(set(seen)) > 1


def refused(folder, match, configuration=CONFIGURATION):
    """The folder is refused to a writer, and not a byte of it has changed."""
    before = contents(folder) if folder.is_dir() else folder.read_bytes()
    with pytest.raises(UserError, match=match):
        Ledger.create_or_resume(folder, configuration)
    assert (contents(folder) if folder.is_dir() else folder.read_bytes()) == before


def test_another_configuration_is_refused_with_the_differences(folder):
    other = replace(CONFIGURATION, trials=9, goal=0.2)
    refused(folder, r"goal: 0\.1, not 0\.2; trials: 3, not 9\).*--out", other)


def test_a_foreign_folder_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    refused(tmp_path, "holds something that is not a scaling study.*--out")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("precious")
    refused(tmp_path / "file", "not a scaling study")


def test_a_foreign_database_is_refused(tmp_path):
    index = sqlite3.connect(tmp_path / INDEX)
    index.execute("CREATE TABLE precious (a)")
    index.close()
    refused(tmp_path, "is not a ledger of replicax")


@pytest.mark.parametrize("length", [100, 5000])
def test_garbage_in_place_of_the_index_is_refused(tmp_path, length):
    (tmp_path / INDEX).write_bytes(random.Random(0).randbytes(length))
    refused(tmp_path, "cannot use .*file is not a database.*--out")
    with pytest.raises(UserError, match="file is not a database"):
        Ledger.read(tmp_path)


def test_a_newer_version_is_refused(folder):
    index = sqlite3.connect(folder / INDEX)
    index.execute("PRAGMA user_version = 2")
    index.close()
    for open_ledger in (Ledger.read, lambda f: Ledger.create_or_resume(f, CONFIGURATION)):
        with pytest.raises(UserError, match=r"newer replicax: ledger version 2.*upgrade"):
            open_ledger(folder)


@pytest.mark.parametrize("kind", ["measurements-*.parquet", "snapshot-*.npz"])
@pytest.mark.parametrize("damage", ["flipped", "cut", "missing"])
def test_damage_is_noticed(folder, kind, damage):
    (path, *_) = folder.glob(kind)
    content = bytearray(path.read_bytes())
    match damage:
        case "flipped":
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
        case "cut":
            path.write_bytes(content[:-1])
        case "missing":
            path.unlink()
    with Ledger.read(folder) as ledger:
        study = partial(ledger.study, 64, with_snapshot=True)
        read = study if path.suffix == ".npz" else ledger.measurements
        with pytest.raises(UserError, match=f"{path.name} is missing or damaged.*restore"):
            read()


def test_a_folder_without_a_study_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match=r"no scaling study in .*give the folder"):
        Ledger.read(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_a_path_below_a_file_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("precious")
    with pytest.raises(UserError, match=r"cannot write .*Not a directory.*--out"):
        Ledger.create_or_resume(tmp_path / "file" / "study", CONFIGURATION)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UserError, match="--out"):
        Ledger.create_or_resume(tmp_path / "study", CONFIGURATION)


def test_a_ledger_that_was_closed_is_one_plain_index(folder):
    with Ledger.read(folder) as ledger:
        assert ledger.study(64).step == 3
    assert [p.name for p in folder.glob(f"{INDEX}*")] == [INDEX]


def test_a_full_disk_keeps_what_was_committed(folder):
    done = subprocess.run(
        [*CHILD, "large", folder], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "cannot write" in done.stdout, done.stdout + done.stderr
    assert "what was saved before is kept" in done.stdout
    assert_holds(folder, 3, 3)
    assert_writable_and_clean(folder)


def test_the_order_of_measurements_is_the_order_of_commits(folder):
    with Ledger.read(folder) as ledger:
        steps = ledger.measurements()["step"]
    assert steps.to_list() == sorted(steps)
    assert steps.dtype == pl.Int64
