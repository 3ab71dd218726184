"""What stands in the way of replicas on this machine, and what to do about it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Literal, NamedTuple

import jax

from replicax.errors import UserError
from replicax.replicate.launch import HOST, free_port

PACKAGES = ("replicax", "jax", "jaxlib", "numpy", "optax")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
TIME_LIMIT_S = 90

_COLLECTIVE = """
import replicax as rx
with rx.Replicator(8, replicas={replicas}) as replicator:
    step = replicator.compile(lambda state, batch: (state + rx.all_sum(batch["x"].sum()), {{}}))
    state = replicator.init(lambda key: 0.0 * key.size)
    import numpy as np
    inputs = replicator.inputs(lambda c: iter([{{"x": np.arange(8.0)[c.share]}}] * 4))
    for batch in inputs:
        state, _ = step(state, batch)
    assert float(state) == 112, state
"""


class Finding(NamedTuple):
    """One thing that was looked at.

    Attributes:
      what: it is.
      verdict: fine, a thing to know, or one to mend.
      said: what was found, and the remedy.
    """

    what: str
    verdict: Literal["ok", "note", "wrong"]
    said: str


def findings() -> Iterator[Finding]:
    """Looks at versions, devices, proxies and a port, then runs real collectives."""
    names = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    yield Finding("versions", "ok", f"Python {python_version()}, {names}")
    yield _devices()
    yield proxies()
    yield _port()
    yield _collective("8 CPU devices, one process", 8, "--devices", "8")
    yield _collective("two processes", 2, "--processes", "2")


def _devices() -> Finding:
    try:
        found = jax.devices()
    except RuntimeError as error:
        return Finding("devices", "wrong", f"JAX cannot start: {error}; look at JAX_PLATFORMS")
    kinds = sorted({device.device_kind for device in found})
    return Finding("devices", "ok", f"{len(found)} x {', '.join(kinds)} ({found[0].platform})")


def proxies() -> Finding:
    """Whether processes of one machine might look for each other through a proxy."""
    names = [n for p in PROXIES for n in (p, p.upper()) if os.environ.get(n)]
    exceptions = os.environ.get("no_proxy", os.environ.get("NO_PROXY", ""))
    if not names or "localhost" in exceptions or HOST in exceptions or exceptions == "*":
        return Finding("proxies", "ok", "none between the processes of this machine")
    return Finding(
        "proxies",
        "note",
        f"{', '.join(names)} set: processes may look for each other through a proxy and hang; set "
        f"no_proxy=localhost,{HOST} and the names of your hosts",
    )


def _port() -> Finding:
    try:
        port = free_port(None)
    except UserError as error:
        return Finding("ports", "wrong", str(error))
    return Finding("ports", "ok", f"{HOST}:{port} can be used")


def _collective(what: str, replicas: int, *options: str) -> Finding:
    """Sums over replicas in processes of their own, since JAX has started in this one."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "collective.py"
        script.write_text(_COLLECTIVE.format(replicas=replicas))
        command = [sys.executable, "-m", "replicax.cli", "launch", *options, str(script)]
        try:
            done = subprocess.run(  # noqa: S603, the script above
                command, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return Finding(what, "wrong", f"a sum over replicas hung for {TIME_LIMIT_S} s")
    if done.returncode == 0:
        return Finding(what, "ok", "a sum over replicas is right")
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return Finding(what, "wrong", f"a sum over replicas failed: {last}")
