"""A small published set, a web server on loopback that can misbehave, and a clean environment."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import struct
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from replicax.data.published import File, Published

HTML = b"<!DOCTYPE html><html><body>Sign in to the network</body></html>"


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder of the developer's, no proxy, a cache of the test's own."""
    for name in ("REPLICAX_DATA", "REPLICAX_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / ".cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def real_data() -> Path:
    """The folder of the real MNIST and Fashion-MNIST beside the repository."""
    folder = Path(__file__).parents[3] / "shared" / "data"
    if not (folder / "mnist").is_dir() or not (folder / "fashion_mnist").is_dir():
        pytest.skip(f"the real MNIST and Fashion-MNIST are not in {folder}")
    return folder


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


class Small:
    """A published set of 40 + 12 random images: its record and what its files contain."""

    def __init__(self, name: str = "small", seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        arrays = {
            "train-images-idx3-ubyte": rng.integers(0, 256, (40, 28, 28), np.uint8),
            "train-labels-idx1-ubyte": rng.integers(0, 10, 40, np.uint8),
            "t10k-images-idx3-ubyte": rng.integers(0, 256, (12, 28, 28), np.uint8),
            "t10k-labels-idx1-ubyte": rng.integers(0, 10, 12, np.uint8),
        }
        self.arrays = list(arrays.values())
        self.content = {stem: idx_bytes(array) for stem, array in arrays.items()}
        files = [
            File(stem, array.shape, hashlib.sha256(self.content[stem]).hexdigest())
            for stem, array in arrays.items()
        ]
        self.published = Published(
            name=name,
            num_classes=10,
            validation=8,
            train_image=files[0],
            train_label=files[1],
            test_image=files[2],
            test_label=files[3],
            mirrors=(),
            licence="none",
            credit="nobody",
        )

    def compressed(self) -> dict[str, bytes]:
        return {f"{stem}.gz": gzip.compress(c, mtime=0) for stem, c in self.content.items()}

    def write(self, folder: Path, *, compressed: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in (self.compressed() if compressed else self.content).items():
            (folder / name).write_bytes(content)


@pytest.fixture
def small() -> Small:
    return Small()


class Mirror:
    """A web server on loopback: what it serves, how it misbehaves, what it was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}  # path without the leading slash -> body
        self.behaviour: Callable[[_Handler, bytes], None] = serve
        self.asked: list[str] = []
        self.waiting = threading.Event()  # set once an answer is being held back
        self.release = threading.Event()  # set to end every answer that is held back
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.mirror = self  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Mirror:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.mirror: Mirror = self.server.mirror  # type: ignore[attr-defined]
        self.mirror.asked.append(self.path)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client gave up
            self.mirror.behaviour(self, self.mirror.files.get(self.path.lstrip("/"), b""))

    def log_message(self, *_: object) -> None:
        pass

    def head(self, length: int | None, status: int = 200) -> None:
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def hold(self) -> None:
        self.wfile.flush()
        self.mirror.waiting.set()
        self.mirror.release.wait(60)


def serve(request: _Handler, body: bytes) -> None:
    request.head(len(body), 200 if body else 404)
    request.wfile.write(body)


def status(code: int) -> Callable[[_Handler, bytes], None]:
    return lambda request, _: request.head(0, code)


def truncated(request: _Handler, body: bytes) -> None:
    request.head(len(body))
    request.wfile.write(body[: len(body) // 2])


def truncated_without_length(request: _Handler, body: bytes) -> None:
    request.head(None)
    request.wfile.write(body[: len(body) // 2])


def corrupt(request: _Handler, body: bytes) -> None:
    middle = len(body) // 2
    serve(request, body[:middle] + bytes(b ^ 0x55 for b in body[middle:]))


def html(request: _Handler, _: bytes) -> None:
    serve(request, HTML)


def other_content(request: _Handler, body: bytes) -> None:
    """A sound file of the right shape that is not the published one."""
    content = bytearray(gzip.decompress(body))
    content[-1] ^= 1
    serve(request, gzip.compress(bytes(content)))


def bomb(request: _Handler, body: bytes) -> None:
    """The published content and a great many zeros after it."""
    serve(request, gzip.compress(gzip.decompress(body) + bytes(5_000_000)))


def uncompressed(request: _Handler, body: bytes) -> None:
    serve(request, gzip.decompress(body))


def silent(request: _Handler, _: bytes) -> None:
    request.hold()


def silent_midway(request: _Handler, body: bytes) -> None:
    request.head(len(body))
    request.wfile.write(body[: len(body) // 2])
    request.hold()


BEHAVIOURS = {
    f.__name__: f
    for f in (
        truncated,
        truncated_without_length,
        corrupt,
        html,
        other_content,
        bomb,
        uncompressed,
        silent,
        silent_midway,
    )
} | {"404": status(404), "500": status(500)}


@pytest.fixture
def behaviours() -> dict[str, Callable[[_Handler, bytes], None]]:
    return BEHAVIOURS


@pytest.fixture
def mirror(small: Small) -> Iterator[Mirror]:
    """A server that has the small set below `small/`."""
    with Mirror() as server:
        server.files = {f"small/{name}": body for name, body in small.compressed().items()}
        yield server


@pytest.fixture
def second_mirror(small: Small) -> Iterator[Mirror]:
    with Mirror() as server:
        server.files = {f"small/{name}": body for name, body in small.compressed().items()}
        yield server
