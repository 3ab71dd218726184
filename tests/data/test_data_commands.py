"""The `data` commands, as a user or a script runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from replicax.data import names


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "replicax.cli", "data", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def assert_refused(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.startswith("replicax: ")
    assert done.stderr.count("\n") == 1, done.stderr
    for part in parts:
        assert part in done.stderr


def test_list_shows_sizes_licences_places_and_credits(real_data: Path) -> None:
    done = run("list", "--data-dir", str(real_data))
    assert (done.returncode, done.stderr) == (0, "")
    for name in names():
        assert name in done.stdout
    for part in ("1,199", "55,000", "CC BY 4.0", "MIT", "Alpaydin", "LeCun", "Zalando"):
        assert part in done.stdout


def test_list_says_what_is_not_here() -> None:
    done = run("list")
    (mnist,) = (line for line in done.stdout.splitlines() if line.startswith("mnist "))
    assert mnist.rstrip().endswith("not here")


def test_where_prints_the_folder_and_nothing_else(real_data: Path) -> None:
    done = run("where", "mnist", "--data-dir", str(real_data))
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{real_data / 'mnist'}\n", "")


def test_where_finds_digits_in_the_package() -> None:
    assert (Path(run("where", "digits").stdout.strip()) / "digits.npz").is_file()


def test_where_of_a_missing_set_is_one_line() -> None:
    assert_refused(run("where", "mnist"), "mnist is not here", "`replicax data get mnist`")


@pytest.mark.parametrize("command", ["where", "get"])
def test_an_unknown_name_is_one_line(command: str) -> None:
    assert_refused(run(command, "mnits"), "'mnits'; did you mean mnist")


def test_get_downloads_once_and_prints_the_folder(
    tmp_path: Path, mirror: Any, real_data: Path
) -> None:
    mirror.files = {f"mnist/{p.name}": p.read_bytes() for p in (real_data / "mnist").iterdir()}
    arguments = ("get", "mnist", "--data-dir", str(tmp_path / "sets"), "--mirror", mirror.url)
    for expected in ("mnist is now here:\n", "mnist is already here:\n"):
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'sets' / 'mnist'}\n")
        assert done.stderr == expected
    assert len(mirror.asked) == 4


def test_get_without_a_network_is_one_line(tmp_path: Path) -> None:
    done = run("get", "mnist", "--mirror", "http://127.0.0.1:9")
    assert_refused(done, "no connection", "http://127.0.0.1:9/mnist/train-images", "--data-dir")
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_get_from_a_server_that_has_not_got_it_is_one_line(mirror: Any) -> None:
    assert_refused(run("get", "mnist", "--mirror", mirror.url), "HTTP 404", mirror.url)


@pytest.mark.skipif(
    Path("/usr/share/datasets/fashion-mnist").exists(), reason="Debian's package is installed here"
)
def test_get_names_the_package_that_has_it(mirror: Any) -> None:
    assert_refused(run("get", "fashion_mnist", "--mirror", mirror.url), "HTTP 404", "apt install")
