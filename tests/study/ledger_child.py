"""Writers that the tests of the ledger start, kill or starve: `ledger_child.py KIND FOLDER`."""

import os
import resource
import signal
import sqlite3
import sys
from pathlib import Path

import numpy as np
from ledger_rows import CONFIGURATION, commit_number

from replicax.errors import UserError
from replicax.study.ledger import Ledger


def loop(folder):
    """Commits for ever, and says each number once it is acknowledged."""
    with Ledger.create_or_resume(folder, CONFIGURATION) as ledger:
        study = ledger.study(64)
        number = 0 if study is None else study.step
        while True:
            number = commit_number(ledger, number + 1)
            print(number, flush=True)


def sweep(folder):
    """One child for each k, which dies before its k-th write; prints what each acknowledged."""
    k, status = 0, -1
    while status != 0:
        k += 1
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                three_commits(folder / str(k), k, writer)
            finally:
                os._exit(1)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            print(pipe.read().count("\n"))
        _, status = os.waitpid(child, 0)


def three_commits(folder, k, pipe):
    writes = 0

    def count(*_):
        nonlocal writes
        writes += 1
        if writes == k:
            os._exit(9)

    def hook(event, args):
        if event in ("os.mkdir", "os.rename", "os.remove") or (
            event == "open" and args[1] is not None and "w" in args[1]
        ):
            count()

    def connect(*args, **options):
        connection = plain_connect(*args, **options)
        connection.set_trace_callback(count)  # before each statement
        return connection

    plain_connect, sqlite3.connect = sqlite3.connect, connect
    sys.addaudithook(hook)
    with Ledger.create_or_resume(folder, CONFIGURATION) as ledger:
        for number in (1, 2, 3):
            commit_number(ledger, number)
            os.write(pipe, b"done\n")
    os._exit(0)


def large(folder):
    """Commits more than the disk holds; a limit on the size of files stands for a full one."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with Ledger.create_or_resume(folder, CONFIGURATION) as ledger:
        try:
            ledger.commit(
                64, step=4, facts={}, trials=[], measurements=[],
                snapshot={"state": np.zeros(10**6)}, done=False,
            )  # fmt: skip
        except UserError as error:
            print(error)


if __name__ == "__main__":
    {"loop": loop, "sweep": sweep, "large": large}[sys.argv[1]](Path(sys.argv[2]))
