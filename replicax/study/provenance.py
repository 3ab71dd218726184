"""Where a result comes from: versions, machine, command, commit."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import jax


def provenance() -> dict[str, Any]:
    """Facts about this run, all of them JSON values."""
    packages = ("replicax", "jax", "jaxlib", "numpy", "scipy", "optax", "polars")
    return {
        "versions": {name: version(name) for name in packages},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": jax.devices()[0].device_kind,
        "backend": jax.default_backend(),
        "cores": os.cpu_count(),
        "command": sys.argv,
        "git_commit": _git_commit(),
    }


def _git_commit() -> str | None:
    """The commit of the working directory, None outside a repository or without git."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
