"""The digits travel inside the built package, not only in a checkout."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None or importlib.util.find_spec("pip") is None,
    reason="building a wheel without a network needs hatchling and pip here",
)
def test_a_wheel_holds_the_digits_as_they_are_here(tmp_path: Path) -> None:
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet")
    command = [sys.executable, "-m", "pip", "wheel", *options, "-w", str(tmp_path), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = archive.read("replicax/data/digits.npz")
        assert "replicax/py.typed" in archive.namelist()
    assert packed == (ROOT / "replicax" / "data" / "digits.npz").read_bytes()
