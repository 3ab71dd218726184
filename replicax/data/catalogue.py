"""The data sets that replicax knows by name."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from replicax.data import digits, folders, published
from replicax.data.bars import NewBar
from replicax.data.examples import Dataset
from replicax.data.folders import Folder
from replicax.data.published import FASHION_MNIST, MNIST, Published
from replicax.errors import UserError

_PUBLISHED = {each.name: each for each in (MNIST, FASHION_MNIST)}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What the catalogue says of a data set.

    Attributes:
      name: as in `names()`.
      sizes: numbers of examples: train, validation, test.
      licence: in a few words.
      credit: who made it.
      folder: where it lies, or None if it is not here.
    """

    name: str
    sizes: tuple[int, int, int]
    licence: str
    credit: str
    folder: Path | None


class Got(NamedTuple):
    """What `get` did: where the set lies, and whether it had to be downloaded."""

    folder: Path
    downloaded: bool


def names() -> list[str]:
    """Every data set."""
    return [digits.NAME, *_PUBLISHED]


def load(name: str, folder: Folder = None) -> Dataset:
    """Reads a data set.

    Looks in `folder` or else in the folder that REPLICAX_DATA names (its subfolder `name`, then the
    folder itself), in the cache, and where an operating system's package puts the set. Whatever the
    place, only the published content is accepted, so that a name always means the same examples.

    Raises:
      UserError: the name is unknown, or the set is missing, unreadable or not the published one.
    """
    source = _source(name)
    return digits.load() if source is None else published.read(where(name, folder), source)


def find(name: str, folder: Folder = None) -> Path | None:
    """The folder where `load` finds a data set, or None. The content is not read.

    Raises:
      UserError: the name is unknown, or `folder` does not exist.
    """
    source = _source(name)
    if source is None:
        return digits.FOLDER
    return folders.first_complete(folders.candidates(source, folder), source)


def where(name: str, folder: Folder = None) -> Path:
    """As `find`, but a set that is missing is a UserError with the remedies."""
    found = find(name, folder)
    if found is None:
        source = _PUBLISHED[name]
        raise UserError(folders.absence(folders.candidates(source, folder), source))
    return found


def get(
    name: str,
    folder: Folder = None,
    *,
    mirror: str | None = None,
    new_bar: NewBar | None = None,
) -> Got:
    """Downloads a data set unless it is here, and verifies it either way.

    Args:
      name: as in `names()`.
      folder: where to look and to put it, in a subfolder `name`; by default the folder that
        REPLICAX_DATA names, else it is looked for as in `load` and put into the cache.
      mirror: base address to use instead of the public ones, by default REPLICAX_MIRROR; the files
        are at mirror/name/file.gz.
      new_bar: file name -> progress bar.

    Returns:
      The folder where it lies, and whether anything was downloaded.

    Raises:
      UserError: the name is unknown, no address delivers, the folder cannot be written, or what
        lies there is not the published set.
    """
    source = _source(name)
    if source is None:
        return Got(digits.FOLDER, downloaded=False)
    # Who names a folder wants the set there, even if it also lies elsewhere.
    places = folders.named_candidates(source, folder) or folders.candidates(source, folder)
    found = folders.first_complete(places, source)
    place = found or folders.target(source, folder)
    if found is None:
        from replicax.data import download  # brings an HTTP client, which only a download needs

        download.fetch(source, place, _mirrors(source, mirror), new_bar=new_bar)
    published.read(place, source)
    return Got(place, downloaded=found is None)


def entries(folder: Folder = None) -> list[Entry]:
    """What the catalogue says of every data set."""
    ships = Entry(
        name=digits.NAME,
        sizes=digits.SIZES,
        licence=digits.LICENCE,
        credit=digits.CREDIT,
        folder=digits.FOLDER,
    )
    others = [
        Entry(
            name=each.name,
            sizes=each.sizes,
            licence=each.licence,
            credit=each.credit,
            folder=find(each.name, folder),
        )
        for each in _PUBLISHED.values()
    ]
    return [ships, *others]


def _source(name: str) -> Published | None:
    """The published set of a name, None for the one inside the package."""
    if name not in names():
        near = difflib.get_close_matches(name, names(), n=3, cutoff=0.5) or names()
        raise UserError(f"unknown data set {name!r}; did you mean {' or '.join(near)}?")
    return _PUBLISHED.get(name)


def _mirrors(source: Published, mirror: str | None) -> tuple[str, ...]:
    base = mirror or os.environ.get("REPLICAX_MIRROR")
    return (f"{base.rstrip('/')}/{source.name}",) if base else source.mirrors
