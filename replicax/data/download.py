"""Downloads a data set into the cache folder: whole and checked, or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from replicax.data import idx
from replicax.data.catalogue import cache_folder, check, source, where
from replicax.data.sources import File
from replicax.errors import UserError

TIMEOUT = 30.0  # seconds without a byte


class Bar(Protocol):
    """A progress bar as pooch drives it, in bytes."""

    total: int

    def update(self, count: int) -> None: ...

    def reset(self) -> None: ...

    def close(self) -> None: ...


def get(
    name: str,
    *,
    mirrors: Sequence[str] | None = None,
    bar: Callable[[str], Bar] | None = None,
    timeout: float = TIMEOUT,
) -> Path:
    """Makes sure that a data set is on this machine.

    Args:
      name: of the data set.
      mirrors: addresses to try in turn, instead of the authors'; `NAME.gz` lies below each.
      bar: makes a progress bar for a file.
      timeout: seconds to wait for an answer, and between two pieces of it.

    Returns:
      the folder that holds it.

    Raises:
      UserError: no mirror answers, none has the published files, or the cache folder cannot be
        written. No part of a file is left behind.
    """
    known = source(name)
    try:
        return where(name)
    except UserError:
        pass  # not here yet
    folder = cache_folder(name)
    addresses = [m.rstrip("/") + "/" for m in (mirrors or known.mirrors)]
    by_hand = (
        f"{known.remedy.removeprefix(', ')}{', or ' if known.remedy else ''}put "
        f"{', '.join(f.name + '.gz' for f in known.files)} into {folder}"
    )
    with _scratch(folder) as scratch:
        for file in known.files:
            _fetch(file, addresses, scratch, by_hand, bar, timeout)
        for path in sorted(scratch.iterdir()):
            path.replace(folder / path.name)
    return folder


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder beside the final files that leaves no trace; obstacles become one clear line."""
    made = not folder.exists()
    scratch = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder))
        yield scratch
    except OSError as error:
        raise UserError(
            f"cannot write {folder}: {error.strerror or error}; free space or rights there, or set "
            "XDG_CACHE_HOME to a folder that can be written"
        ) from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        if made and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _fetch(
    file: File,
    addresses: Sequence[str],
    scratch: Path,
    by_hand: str,
    bar: Callable[[str], Bar] | None,
    timeout: float,
) -> None:
    """One file from the first mirror that has it."""
    import pooch
    import requests

    pooch.get_logger().setLevel("ERROR")
    name = f"{file.name}.gz"
    failures = []
    for address in addresses:
        progress: Any = bar(name) if bar else False
        download = pooch.HTTPDownloader(progressbar=progress, timeout=timeout)
        try:
            pooch.retrieve(address + name, None, name, scratch, downloader=download)
            _check(scratch / name, file)
        except requests.RequestException as error:
            failures.append(f"{address}: {_plain(error)}")
        except UserError as error:
            failures.append(f"{address}: {error}")
        else:
            _flush(scratch / name)
            return
        finally:
            if bar:
                progress.close()
        (scratch / name).unlink(missing_ok=True)
    raise UserError(f"cannot download {name} ({'; '.join(failures)}); {by_hand}")


def _check(path: Path, file: File) -> None:
    content = idx.read(path)
    try:
        check(content, path, file.sha256)
    except UserError:
        raise UserError("sent something else than the published file") from None


def _plain(error: Exception) -> str:
    """The kind of failure; the library's own texts run over many lines."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP {response.status_code}"
    kind = type(error).__name__
    known = {
        "ConnectTimeout": "no answer in time",
        "ReadTimeout": "no answer in time",
        "ConnectionError": "no connection",
        "ChunkedEncodingError": "broke off",
    }
    return known.get(kind, kind)


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
