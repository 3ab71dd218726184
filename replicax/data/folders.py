"""Where the files of a data set are looked for, and where a download puts them."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path

from replicax.data.published import Published, missing_from
from replicax.errors import UserError

Folder = str | os.PathLike[str] | None


def named(folder: Folder) -> Path | None:
    """The folder that the user names: the argument, else REPLICAX_DATA, else None."""
    chosen = folder or os.environ.get("REPLICAX_DATA")
    return Path(chosen).expanduser() if chosen else None


def cache(published: Published) -> Path:
    """The folder of a set in the user's cache."""
    return user_cache_path("replicax") / "datasets" / published.name


def target(published: Published, folder: Folder) -> Path:
    """Where a download puts the files: a subfolder of the named folder, else the cache."""
    chosen = named(folder)
    return cache(published) if chosen is None else chosen / published.name


def named_candidates(published: Published, folder: Folder) -> list[Path]:
    """The places in the folder that the user names, if any; its subfolder comes first.

    All sets use the same file names, so files in the folder itself may belong to another one.
    """
    chosen = named(folder)
    return [] if chosen is None else [chosen / published.name, chosen]


def candidates(published: Published, folder: Folder) -> list[Path]:
    """Every place where the files may lie, in the order in which they are looked for.

    Raises:
      UserError: the user names a folder that does not exist.
    """
    chosen = named(folder)
    if chosen is not None and not chosen.is_dir():
        raise UserError(
            f"there is no folder {chosen}; name one that exists with --data-dir or REPLICAX_DATA"
        )
    system = [published.system_folder] if published.system_folder else []
    return [*named_candidates(published, folder), cache(published), *system]


def first_complete(places: list[Path], published: Published) -> Path | None:
    """The first place that holds all four files, or None.

    Raises:
      UserError: a place may not be looked into.
    """
    for place in places:
        try:
            if not missing_from(place, published):
                return place
        except OSError as error:
            raise UserError(
                f"cannot look into {place}: {error.strerror}; make it readable, or name another "
                "folder with --data-dir or REPLICAX_DATA"
            ) from None
    return None


def absence(places: list[Path], published: Published) -> str:
    """One line on a set that is in none of the places: where it was looked for, what to do."""
    looked = []
    for place in places:
        missing = missing_from(place, published)
        partly = len(missing) < len(published.files)
        lacks = " (lacks " + ", ".join(file.stem for file in missing) + ")" if partly else ""
        looked.append(f"{place}{lacks}")
    return (
        f"{published.name} is not here: looked in {', '.join(looked)}; "
        f"run `replicax data get {published.name}`, or {by_hand(published)}"
    )


def by_hand(published: Published) -> str:
    """The ways that need no download by replicax, as the end of a sentence."""
    names = ", ".join(file.stem for file in published.files)
    package = f", or {published.package_remedy}" if published.package_remedy else ""
    return (
        f"put the files {names} (each as it is or as .gz) into a folder and name it with "
        f"--data-dir or REPLICAX_DATA{package}"
    )
