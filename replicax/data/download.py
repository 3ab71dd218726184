"""Downloads the files of a published data set; nothing unverified is ever left under its name.

Import this module only to download: it brings an HTTP client with it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path
from typing import Any

from pooch import HTTPDownloader
from requests.exceptions import (
    ChunkedEncodingError,
    ConnectionError,  # noqa: A004 - the HTTP library's own, wider than the built-in one
    HTTPError,
    RequestException,
    Timeout,
)

from replicax.data import idx
from replicax.data.bars import NewBar
from replicax.data.folders import by_hand
from replicax.data.idx import IdxError
from replicax.data.published import File, Published, missing_from, read_file
from replicax.errors import UserError

_CHUNK = 2**16  # bytes
_STALE = 3600.0  # seconds without a write after which a partial file belongs to nobody


def fetch(
    published: Published,
    folder: Path,
    mirrors: tuple[str, ...],
    *,
    new_bar: NewBar | None = None,
    timeout: float = 30.0,
) -> None:
    """Downloads the files that a folder lacks, each from the first mirror that delivers it.

    A file is written under a temporary name, checked against its published sha256, flushed to disk
    and renamed; whatever fails, the temporary file is removed.

    Args:
      published: the data set.
      folder: where the files go; made if missing.
      mirrors: base addresses, tried in turn.
      new_bar: file name -> progress bar.
      timeout: seconds to wait for a connection and for each piece of an answer.

    Raises:
      UserError: no mirror delivered a file, or the folder cannot be written.
    """
    bases = list(mirrors)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        for file in missing_from(folder, published):
            _fetch_file(published, file, folder, bases, new_bar, timeout)
    except OSError as error:
        raise UserError(
            f"cannot store {published.name} in {folder}: {error.strerror or error}; make room or "
            f"name another folder: `replicax data get {published.name} --data-dir FOLDER`"
        ) from None


def _fetch_file(
    published: Published,
    file: File,
    folder: Path,
    bases: list[str],
    new_bar: NewBar | None,
    timeout: float,
) -> None:
    """Downloads one file; a mirror that delivers moves to the front of `bases`."""
    failures = []
    for base in list(bases):
        url = f"{base.rstrip('/')}/{file.stem}.gz"
        part = folder / f".{file.stem}.{secrets.token_hex(4)}.part"
        try:
            _download(url, part, new_bar, timeout)
            read_file(part, file, published.num_classes)
            # A server may have uncompressed the file on its way.
            suffix = ".gz" if idx.is_compressed(part) else ""
            part.replace(folder / (file.stem + suffix))
        except (RequestException, IdxError) as error:
            failures.append(f"{url}: {_reason(error, timeout)}")
        else:
            bases.remove(base)
            bases.insert(0, base)
            return
        finally:
            part.unlink(missing_ok=True)
    raise UserError(
        f"could not download {published.name} ({'; '.join(failures)}); "
        f"try again later, or {by_hand(published)}"
    )


def _download(url: str, part: Path, new_bar: NewBar | None, timeout: float) -> None:
    """Writes what an address serves to a new file and flushes it to disk."""
    bar: Any = new_bar(url.rsplit("/", 1)[-1]) if new_bar else False  # as pooch has it
    get = HTTPDownloader(
        progressbar=bar,
        chunk_size=_CHUNK,
        timeout=timeout,
        headers={"Accept-Encoding": "identity"},  # else a .gz may arrive uncompressed
    )
    try:
        # Not tempfile: its files are private, a cache may be shared.
        with part.open("xb") as output:
            get(url, output, None)
            output.flush()
            os.fsync(output.fileno())
    finally:
        if bar:
            bar.close()


def _reason(error: Exception, timeout: float) -> str:
    """Why a mirror did not deliver, in a few words."""
    if isinstance(error, HTTPError) and error.response is not None:
        return f"HTTP {error.response.status_code}"
    # A time-out in the middle of an answer comes as a ConnectionError.
    if isinstance(error, Timeout) or "timed out" in str(error):
        return f"no answer within {timeout:g} s"
    if isinstance(error, ChunkedEncodingError):
        return "truncated: the connection broke off"
    if isinstance(error, ConnectionError):
        return "no connection"
    return " ".join(str(error).split())


def _sweep(folder: Path) -> None:
    """Removes partial files of downloads that were killed; a live one is written to all along."""
    for part in folder.glob(".*.part"):
        with contextlib.suppress(FileNotFoundError):  # it may end at this moment
            if time.time() - part.stat().st_mtime > _STALE:
                part.unlink()
