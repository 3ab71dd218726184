"""Starts a script in one or more processes of this machine, as a scheduler does on many."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from replicax.errors import UserError
from replicax.replicate.cpu_devices import THREADS
from replicax.replicate.processes import COORDINATOR, PROCESS_ID, PROCESSES

HOST = "127.0.0.1"
GRACE_S = 10  # for the other processes to end by themselves, once one has failed


def launch(
    script: Path,
    arguments: Sequence[str] = (),
    *,
    devices: int | None = None,
    processes: int = 1,
    port: int | None = None,
) -> int:
    """Runs a Python script, and waits for its end.

    Args:
      script: the file.
      arguments: what it finds in `sys.argv`.
      devices: CPU devices of each process; those that JAX finds by default.
      processes: how many to start. They form a process group; each line that one prints has its
        number in front.
      port: of the group on the loopback address; a free one by default.

    Returns:
      The exit code: 0, or that of the first process that failed, which ends the others.

    Raises:
      UserError: no such file, a number below 1, a port in use.
    """
    if not script.is_file():
        raise UserError(f"no such script: {script}")
    for name, count in (("devices", devices), ("processes", processes)):
        if count is not None and count < 1:
            raise UserError(f"{name} must be at least 1; got {count}")
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if devices is not None or processes > 1:
        count = devices or 1
        environment |= {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(count)}
        environment.setdefault(THREADS, str(4 * count))
    command = [sys.executable, str(script), *arguments]
    if processes == 1:
        return _wait_for([subprocess.Popen(command, env=environment)])  # noqa: S603, the user's own
    environment |= {COORDINATOR: f"{HOST}:{free_port(port)}", PROCESSES: str(processes)}
    started = [
        subprocess.Popen(  # noqa: S603, the user's own
            command,
            env={**environment, PROCESS_ID: str(number)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    relays = [
        threading.Thread(target=_relay, args=(number, source, sink))
        for number, process in enumerate(started)
        for source, sink in ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
    ]
    for relay in relays:
        relay.start()
    code = _wait_for(started)
    for relay in relays:
        relay.join()
    return code


def free_port(asked: int | None) -> int:
    """The port that was asked for, or any; raises UserError if it is in use."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, asked or 0))
        except OSError as error:
            raise UserError(
                f"port {asked} of {HOST} cannot be used: {error.strerror}; give another --port, or "
                "none for a free one"
            ) from error
        port: int = probe.getsockname()[1]
        return port


def _relay(number: int, source: IO[str] | None, sink: IO[str]) -> None:
    for line in source or ():
        sink.write(f"[{number}] {line}")
        sink.flush()


def _wait_for(started: list[subprocess.Popen[str]] | list[subprocess.Popen[bytes]]) -> int:
    """Waits until all have ended; ends all if one fails, or if this process is told to end."""

    def on_end(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, on_end)
    try:
        while True:
            codes = [process.poll() for process in started]
            failed = [code for code in codes if code]
            if failed or None not in codes:
                return _exit_code(failed[0]) if failed else 0
            time.sleep(0.05)
    finally:
        _end(started)
        signal.signal(signal.SIGTERM, before)


def _end(started: list[subprocess.Popen[str]] | list[subprocess.Popen[bytes]]) -> None:
    """Lets processes end, then asks them to, then makes them."""
    for ask in (None, signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + GRACE_S / 2
        for process in started:
            if ask is not None and process.poll() is None:
                process.send_signal(ask)
        for process in started:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                break
        else:
            return


def _exit_code(code: int) -> int:
    """As a shell shows it: a signal is 128 and its number."""
    return 128 - code if code < 0 else code
