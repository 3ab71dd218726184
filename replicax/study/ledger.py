"""The ledger: the durable record of a scaling study.

One folder holds an SQLite index, measurements as Parquet parts, and one snapshot of the running
study. `commit` is the only way in: files first, written whole under a temporary name, flushed to
the disk and renamed; then one transaction that registers them. What the transaction holds survives
`kill -9` and power loss; what it does not hold was never acknowledged, and is swept away when the
next writer opens the folder.

One process writes: it holds a second SQLite file locked as long as it lives, and the operating
system ends that lock with the process. Readers never write.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from replicax.errors import UserError
from replicax.study.configuration import Configuration
from replicax.study.trials import TrialRow

INDEX = "ledger.sqlite"
LOCK = "writer.lock"
APPLICATION_ID = 0x52504C58  # "RPLX"
VERSION = 1

_TABLES = """
CREATE TABLE configuration (json TEXT NOT NULL);
CREATE TABLE provenance (started TEXT NOT NULL, json TEXT NOT NULL);
CREATE TABLE studies (
  batch_size INTEGER PRIMARY KEY, done INTEGER NOT NULL, step INTEGER NOT NULL,
  json TEXT NOT NULL, snapshot TEXT, snapshot_sha256 TEXT);
CREATE TABLE trials (
  batch_size INTEGER NOT NULL, trial INTEGER NOT NULL, json TEXT NOT NULL,
  PRIMARY KEY (batch_size, trial));
CREATE TABLE parts (
  name TEXT PRIMARY KEY, batch_size INTEGER NOT NULL, rows INTEGER NOT NULL, sha256 TEXT NOT NULL);
"""


class StudyRow(NamedTuple):
    """A study as the ledger keeps it.

    Attributes:
      done: it has ended.
      step: step at which the running wave stands.
      facts: executor, evaluation spacing, search space, waves.
      trials: every trial, by number.
      snapshot: name -> array, the state of the running wave; None between waves.
    """

    done: bool
    step: int
    facts: dict[str, Any]
    trials: list[TrialRow]
    snapshot: dict[str, np.ndarray] | None


class Ledger:
    """An open ledger. `create_or_resume` opens it to write, `read` only to read."""

    def __init__(self, folder: Path, index: sqlite3.Connection, lock: Any = None) -> None:
        self.folder = folder
        self._index = index
        self._lock = lock

    @staticmethod
    def create_or_resume(folder: Path, configuration: Configuration) -> Ledger:
        """Opens a ledger to write.

        Raises:
          UserError: the folder cannot be written, holds something else, another configuration, a
            newer version, or is being written by another process.
        """
        fresh = not (folder / INDEX).exists()
        with _plain_errors(folder):
            if fresh and folder.exists() and (not folder.is_dir() or _foreign(folder)):
                raise UserError(
                    f"{folder} holds something that is not a scaling study; give an empty or a new "
                    "folder with --out"
                )
            folder.mkdir(parents=True, exist_ok=True)
            lock = _take_lock(folder)
            index = sqlite3.connect(folder / INDEX, isolation_level=None)
        ledger = Ledger(folder, index, lock)
        try:
            with _plain_errors(folder):
                if fresh or _empty(index):
                    ledger._create(configuration)
                else:
                    _check_index(folder, index)
                    ledger._check_same(configuration)
                index.execute("PRAGMA journal_mode = WAL")
                index.execute("PRAGMA synchronous = FULL")
                ledger._sweep()
        except BaseException:
            ledger.close()
            raise
        return ledger

    @staticmethod
    def read(folder: Path) -> Ledger:
        """Opens a ledger to read; a writer may be at work."""
        if not (folder / INDEX).is_file():
            raise UserError(
                f"no scaling study in {folder}: it has no {INDEX}; give the folder that "
                "`replicax study` named as its output"
            )
        with _plain_errors(folder):
            index = sqlite3.connect(f"{(folder / INDEX).absolute().as_uri()}?mode=ro", uri=True)
            ledger = Ledger(folder, index)
            try:
                _check_index(folder, index)
            except BaseException:
                ledger.close()
                raise
        return ledger

    def close(self) -> None:
        """Closes the ledger and ends the lock."""
        if self._lock is not None:
            with contextlib.suppress(sqlite3.Error):  # a reader is at work, or the disk is full
                # one plain file, which can be read where nothing may be written
                self._index.execute("PRAGMA journal_mode = DELETE")
        self._index.close()
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Reading

    def configuration(self) -> Configuration:
        (text,) = self._index.execute("SELECT json FROM configuration").fetchone()
        return Configuration.from_json(text)

    def provenance(self) -> list[dict[str, Any]]:
        rows = self._index.execute("SELECT json FROM provenance ORDER BY rowid").fetchall()
        return [json.loads(text) for (text,) in rows]

    def study(self, batch_size: int, *, with_snapshot: bool = False) -> StudyRow | None:
        """One study; None if it has not begun. Raises UserError if its snapshot is damaged."""
        row = self._index.execute(
            "SELECT done, step, json, snapshot, snapshot_sha256 FROM studies WHERE batch_size = ?",
            (batch_size,),
        ).fetchone()
        if row is None:
            return None
        done, step, text, name, sha256 = row
        trials = self._index.execute(
            "SELECT json FROM trials WHERE batch_size = ? ORDER BY trial", (batch_size,)
        ).fetchall()
        snapshot = None
        if with_snapshot and name is not None:
            content = self._verified(name, sha256)
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                snapshot = dict(arrays)
        rows = [TrialRow(**json.loads(text)) for (text,) in trials]
        return StudyRow(bool(done), step, json.loads(text), rows, snapshot)

    def measurements(self) -> pl.DataFrame:
        """Every measurement: batch_size, trial, step and a column for each metric."""
        parts = self._index.execute("SELECT name, sha256 FROM parts ORDER BY rowid").fetchall()
        frames = [pl.read_parquet(io.BytesIO(self._verified(*part))) for part in parts]
        if not frames:
            keys = {"batch_size": pl.Int64, "trial": pl.Int64, "step": pl.Int64}
            return pl.DataFrame(schema=keys)
        return pl.concat(frames)

    # Writing

    def add_provenance(self, started: str, facts: Mapping[str, Any]) -> None:
        with self._transaction():
            self._index.execute(
                "INSERT INTO provenance VALUES (?, ?)", (started, json.dumps(facts))
            )

    def commit(
        self,
        batch_size: int,
        *,
        step: int,
        facts: Mapping[str, Any],
        trials: Sequence[TrialRow],
        measurements: Sequence[Mapping[str, Any]],
        snapshot: Mapping[str, np.ndarray] | None,
        done: bool,
    ) -> None:
        """Adds measurements and replaces the state of a study, all or nothing."""
        with _plain_errors(self.folder):
            part = self._write_part(batch_size, measurements) if measurements else None
            name, sha256 = None, None
            if snapshot is not None:
                name = f"snapshot-{batch_size}-{self._next_number():06d}.npz"
                buffer = io.BytesIO()
                np.savez(buffer, allow_pickle=False, **snapshot)
                sha256 = self._write(name, buffer.getvalue())
            with self._transaction():
                if part is not None:
                    self._index.execute("INSERT INTO parts VALUES (?, ?, ?, ?)", part)
                self._index.execute(
                    "INSERT OR REPLACE INTO studies VALUES (?, ?, ?, ?, ?, ?)",
                    (batch_size, done, step, json.dumps(facts), name, sha256),
                )
                self._index.executemany(
                    "INSERT OR REPLACE INTO trials VALUES (?, ?, ?)",
                    [(batch_size, t.trial, json.dumps(vars(t))) for t in trials],
                )
            self._sweep()

    def _create(self, configuration: Configuration) -> None:
        with self._transaction():
            self._index.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            for statement in filter(str.strip, _TABLES.split(";")):
                self._index.execute(statement)
            self._index.execute("INSERT INTO configuration VALUES (?)", (configuration.to_json(),))
            self._index.execute(f"PRAGMA user_version = {VERSION}")

    def _check_same(self, configuration: Configuration) -> None:
        differences = self.configuration().differences(configuration)
        if differences:
            raise UserError(
                f"{self.folder} holds a study of another configuration ({'; '.join(differences)}); "
                "repeat its options to go on with it, or give another folder with --out"
            )

    def _write_part(
        self, batch_size: int, measurements: Sequence[Mapping[str, Any]]
    ) -> tuple[str, int, int, str]:
        frame = pl.DataFrame(measurements, infer_schema_length=None)
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        name = f"measurements-{batch_size}-{self._next_number():06d}.parquet"
        return name, batch_size, len(frame), self._write(name, buffer.getvalue())

    def _next_number(self) -> int:
        """A number that no file of this folder bears yet."""
        taken = [int(p.stem.rsplit("-", 1)[1]) for p in self._files()]
        return max(taken, default=0) + 1

    def _write(self, name: str, content: bytes) -> str:
        """Writes a file whole or not at all; returns its sha256."""
        temporary = self.folder / f".{name}.tmp"
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.folder / name)
        _sync_folder(self.folder)
        return hashlib.sha256(content).hexdigest()

    def _verified(self, name: str, sha256: str) -> bytes:
        try:
            content = (self.folder / name).read_bytes()
        except FileNotFoundError:
            content = b""
        if hashlib.sha256(content).hexdigest() != sha256:
            raise UserError(
                f"{self.folder / name} is missing or damaged: its checksum is not the one in the "
                "ledger; restore the file from a copy, or run the study again in another folder"
            )
        return content

    def _files(self) -> list[Path]:
        return [p for kind in ("measurements-*.parquet", "snapshot-*.npz")
                for p in self.folder.glob(kind)]  # fmt: skip

    def _sweep(self) -> None:
        """Deletes what no transaction registered: leftovers of a killed writer, old snapshots."""
        known = {name for (name,) in self._index.execute("SELECT name FROM parts")}
        known |= {name for (name,) in self._index.execute("SELECT snapshot FROM studies")}
        for path in [*self._files(), *self.folder.glob(".*.tmp")]:
            if path.name not in known:
                path.unlink()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._index.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._index.execute("ROLLBACK")
            raise
        self._index.execute("COMMIT")


def _take_lock(folder: Path) -> sqlite3.Connection:
    lock = sqlite3.connect(folder / LOCK, timeout=0, isolation_level=None)
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.DatabaseError as error:
        lock.close()
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        raise UserError(
            f"another process is writing {folder}; wait for it or stop it, or give another folder "
            "with --out"
        ) from None
    return lock


def _foreign(folder: Path) -> bool:
    ours = {LOCK, LOCK + "-journal", INDEX + "-journal", INDEX + "-wal", INDEX + "-shm"}
    return any(p.name not in ours for p in folder.iterdir())


def _empty(index: sqlite3.Connection) -> bool:
    """True for an index whose creation was cut short."""
    (tables,) = index.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return bool(tables == 0)


def _check_index(folder: Path, index: sqlite3.Connection) -> None:
    (application,) = index.execute("PRAGMA application_id").fetchone()
    (version,) = index.execute("PRAGMA user_version").fetchone()
    if _empty(index):
        raise UserError(f"no study has begun in {folder}; run `replicax study` first")
    if application != APPLICATION_ID:
        raise UserError(f"{folder / INDEX} is not a ledger of replicax; give another folder")
    if version > VERSION:
        raise UserError(
            f"{folder} was written by a newer replicax: ledger version {version}, this one reads "
            f"up to {VERSION}; upgrade replicax"
        )


def _sync_folder(folder: Path) -> None:
    """Makes a rename durable, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _plain_errors(folder: Path) -> Iterator[None]:
    """Turns the obstacles of a file system into one clear line."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write {folder}: {error.strerror}; free space or rights there, or give another "
            "folder with --out; what was saved before is kept"
        ) from error
    except sqlite3.DatabaseError as error:
        raise UserError(
            f"cannot use {folder / INDEX}: {error}; give another folder with --out"
        ) from error
