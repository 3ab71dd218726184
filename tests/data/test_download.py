"""Downloads from a real server on loopback, which misbehaves in every way that servers do."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from replicax import data
from replicax.data import published
from replicax.data.download import fetch
from replicax.errors import UserError

CLI = [sys.executable, "-m", "replicax.cli", "data", "get", "mnist"]


def files_in(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir())


def refusal(small: Any, folder: Path, *urls: str, timeout: float = 30.0) -> str:
    """The one line of a download that must fail and leave nothing."""
    with pytest.raises(UserError) as caught:
        fetch(small.published, folder, urls, timeout=timeout)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_four_files_arrive_and_are_the_published_ones(
    tmp_path: Path, small: Any, mirror: Any
) -> None:
    fetch(small.published, tmp_path / "new" / "cache", (f"{mirror.url}/small/",))
    assert files_in(tmp_path / "new" / "cache") == sorted(small.compressed())
    assert len(mirror.asked) == 4
    assert len(published.read(tmp_path / "new" / "cache", small.published).train.label) == 32


def test_what_is_there_is_not_downloaded_again(tmp_path: Path, small: Any, mirror: Any) -> None:
    small.write(tmp_path)
    (tmp_path / "t10k-images-idx3-ubyte").unlink()
    fetch(small.published, tmp_path, (f"{mirror.url}/small",))
    assert mirror.asked == ["/small/t10k-images-idx3-ubyte.gz"]


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("404", "HTTP 404"),
        ("500", "HTTP 500"),
        ("truncated", "truncated: the connection broke off"),
        ("truncated_without_length", "truncated: the gzip stream ends early"),
        ("corrupt", "corrupt: not a sound gzip file"),
        ("html", "b'<!DOCTYPE ht'"),
        ("other_content", "not the published file"),
        ("bomb", "bytes in excess"),
        ("silent", "no answer within 0.3 s"),
        ("silent_midway", "no answer within 0.3 s"),
    ],
)
def test_a_bad_answer_is_one_clear_line_and_leaves_nothing(
    tmp_path: Path, small: Any, mirror: Any, behaviours: Any, behaviour: str, reason: str
) -> None:
    mirror.behaviour = behaviours[behaviour]
    timeout = 0.3 if behaviour.startswith("silent") else 30.0
    begin = time.monotonic()
    message = refusal(small, tmp_path / "cache", f"{mirror.url}/small", timeout=timeout)
    assert time.monotonic() - begin < 15
    assert reason in message
    assert f"{mirror.url}/small/train-images-idx3-ubyte.gz" in message
    assert "--data-dir" in message
    assert files_in(tmp_path) == []


def test_no_network_is_one_clear_line(tmp_path: Path, small: Any) -> None:
    closed = "http://127.0.0.1:9"  # the discard port; nothing listens there
    message = refusal(small, tmp_path, closed)
    assert f"{closed}/train-images-idx3-ubyte.gz: no connection" in message
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("address", ["not-an-address", "gopher://127.0.0.1/"])
def test_a_mistyped_address_is_one_clear_line(tmp_path: Path, small: Any, address: str) -> None:
    assert address in refusal(small, tmp_path, address)
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("behaviour", ["404", "truncated", "html", "other_content", "silent"])
def test_the_next_mirror_is_tried_and_stays_first(
    tmp_path: Path,
    small: Any,
    mirror: Any,
    second_mirror: Any,
    behaviours: Any,
    behaviour: str,
) -> None:
    mirror.behaviour = behaviours[behaviour]
    urls = (f"{mirror.url}/small", f"{second_mirror.url}/small")
    fetch(small.published, tmp_path, urls, timeout=1.0)
    assert files_in(tmp_path) == sorted(small.compressed())
    assert (len(mirror.asked), len(second_mirror.asked)) == (1, 4)


def test_every_mirror_that_failed_is_named(
    tmp_path: Path, small: Any, mirror: Any, second_mirror: Any, behaviours: Any
) -> None:
    mirror.behaviour, second_mirror.behaviour = behaviours["404"], behaviours["html"]
    message = refusal(small, tmp_path, f"{mirror.url}/small", f"{second_mirror.url}/small")
    assert f"{mirror.url}/small/train-images-idx3-ubyte.gz: HTTP 404" in message
    assert f"{second_mirror.url}/small/train-images-idx3-ubyte.gz: not an IDX file" in message


def test_a_file_that_arrives_uncompressed_is_named_so(
    tmp_path: Path, small: Any, mirror: Any, behaviours: Any
) -> None:
    mirror.behaviour = behaviours["uncompressed"]
    fetch(small.published, tmp_path, (f"{mirror.url}/small",))
    assert files_in(tmp_path) == sorted(small.content)


def test_files_that_arrived_before_a_failure_are_kept_and_sound(
    tmp_path: Path, small: Any, mirror: Any
) -> None:
    del mirror.files["small/t10k-images-idx3-ubyte.gz"]
    refusal(small, tmp_path, f"{mirror.url}/small")
    assert files_in(tmp_path) == ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"]
    missing = published.missing_from(tmp_path, small.published)
    assert [file.stem for file in missing] == ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]
    for file in small.published.files[:2]:
        published.read_file(published.path_in(tmp_path, file), file, 10)


def test_two_downloads_at_once_do_not_disturb_each_other(
    tmp_path: Path, small: Any, mirror: Any
) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            fetch(small.published, tmp_path, (f"{mirror.url}/small",))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert files_in(tmp_path) == sorted(small.compressed())
    published.read(tmp_path, small.published)


class RecordingBar:
    def __init__(self) -> None:
        self.total, self.done, self.closed = 0, 0, False

    def update(self, count: int) -> None:
        self.done += count

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        self.closed = True


def test_bars_end_full_after_a_success_and_closed_after_a_failure(
    tmp_path: Path, small: Any, mirror: Any, behaviours: Any
) -> None:
    bars: dict[str, RecordingBar] = {}

    def new_bar(name: str) -> RecordingBar:
        return bars.setdefault(name, RecordingBar())

    fetch(small.published, tmp_path, (f"{mirror.url}/small",), new_bar=new_bar)
    sizes = {name: len(body) for name, body in small.compressed().items()}
    assert {name: (bar.done, bar.closed) for name, bar in bars.items()} == {
        name: (size, True) for name, size in sizes.items()
    }
    bars.clear()
    mirror.behaviour = behaviours["404"]
    with pytest.raises(UserError):
        fetch(small.published, tmp_path / "b", (f"{mirror.url}/small",), new_bar=new_bar)
    assert [bar.closed for bar in bars.values()] == [True]


def test_a_new_file_may_be_read_by_those_the_umask_allows(
    tmp_path: Path, small: Any, mirror: Any
) -> None:
    before = os.umask(0o022)
    try:
        fetch(small.published, tmp_path, (f"{mirror.url}/small",))
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o644}


# Folders that cannot be written, disks that are full.


def test_a_file_in_the_place_of_the_folder(tmp_path: Path, small: Any, mirror: Any) -> None:
    (tmp_path / "cache").write_text("mine")
    for folder in (tmp_path / "cache", tmp_path / "cache" / "small"):
        message = refusal(small, folder, f"{mirror.url}/small")
        assert f"cannot store small in {folder}" in message
        assert "--data-dir" in message
    assert (tmp_path / "cache").read_text() == "mine"
    assert mirror.asked == []


def in_private_mount(options: str, folder: Path, mirror: Any) -> subprocess.CompletedProcess[str]:
    """Runs `data get` with a file system of its own at `folder`, and lists what is left there."""
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare, to mount a file system of the test's own")
    folder.mkdir()
    mount = ["unshare", "-rm", "sh", "-c", f"mount -t tmpfs -o {options} none {folder} && "]
    if subprocess.run([*mount[:-1], mount[-1] + "true"], capture_output=True).returncode != 0:
        pytest.skip("may not mount a file system of the test's own here")
    # The shell's own positional parameters carry the command, whatever it contains.
    script = f'{mount[-1]} {{ "$@"; code=$?; find {folder} -type f; exit $code; }}'
    command = [*CLI, "--data-dir", str(folder), "--mirror", mirror.url]
    return subprocess.run([*mount[:-1], script, "sh", *command], capture_output=True, text=True)


def big_files(mirror: Any) -> None:
    mirror.files = {"mnist/train-images-idx3-ubyte.gz": os.urandom(1_000_000)}


def assert_one_line(done: subprocess.CompletedProcess[str], reason: str) -> None:
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("replicax: cannot store mnist in ")
    assert reason in done.stderr
    assert "make room or name another folder" in done.stderr
    assert done.stdout == ""


def test_a_full_disk(tmp_path: Path, mirror: Any) -> None:
    big_files(mirror)
    done = in_private_mount("size=128k", tmp_path / "full", mirror)
    assert_one_line(done, "No space left on device")


def test_a_read_only_file_system(tmp_path: Path, mirror: Any) -> None:
    done = in_private_mount("ro", tmp_path / "fixed", mirror)
    assert_one_line(done, "Read-only file system")


def test_a_limit_on_the_size_of_files(tmp_path: Path, mirror: Any) -> None:
    big_files(mirror)
    command = [*CLI, "--data-dir", str(tmp_path / "d"), "--mirror", mirror.url]
    limited = ["sh", "-c", 'ulimit -f 100; exec "$@"', "sh", *command]
    done = subprocess.run(limited, capture_output=True, text=True)
    assert_one_line(done, "File too large")
    assert files_in(tmp_path / "d") == []


# Downloads that are ended from outside.


def ended_midway(tmp_path: Path, mirror: Any, behaviours: Any, number: int) -> tuple[int, str]:
    big_files(mirror)
    mirror.behaviour = behaviours["silent_midway"]
    command = [*CLI, "--data-dir", str(tmp_path / "d"), "--mirror", mirror.url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert mirror.waiting.wait(60)
        deadline = time.monotonic() + 30
        while not any(p.stat().st_size for p in (tmp_path / "d").rglob("*.part")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=30)
    return process.returncode, stderr


def test_ctrl_c_leaves_nothing(tmp_path: Path, mirror: Any, behaviours: Any) -> None:
    code, stderr = ended_midway(tmp_path, mirror, behaviours, signal.SIGINT)
    assert code == 130
    assert "Traceback" not in stderr
    assert files_in(tmp_path / "d") == []


def test_what_a_killed_download_leaves_is_never_read_and_is_swept_later(
    tmp_path: Path, small: Any, mirror: Any, behaviours: Any
) -> None:
    code, _ = ended_midway(tmp_path, mirror, behaviours, signal.SIGKILL)
    assert code == -signal.SIGKILL
    folder = tmp_path / "d" / "mnist"
    (part,) = folder.iterdir()
    assert part.suffix == ".part"
    assert data.find("mnist", tmp_path / "d") is None
    live = folder / ".t10k-images-idx3-ubyte.0.part"
    live.touch()
    two_hours_ago = time.time() - 7200
    os.utime(part, (two_hours_ago, two_hours_ago))
    refusal(small, folder, "http://127.0.0.1:9")
    assert list(folder.iterdir()) == [live]


def test_the_real_set_over_http(tmp_path: Path, mirror: Any, real_data: Path) -> None:
    mirror.files = {f"mnist/{p.name}": p.read_bytes() for p in (real_data / "mnist").iterdir()}
    got = data.get("mnist", tmp_path, mirror=mirror.url)
    assert got == (tmp_path / "mnist", True)
    assert data.get("mnist", tmp_path, mirror=mirror.url) == (tmp_path / "mnist", False)
    assert len(mirror.asked) == 4
    assert len(data.load("mnist", tmp_path).train.label) == 55_000
