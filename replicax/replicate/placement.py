"""Where the leaves of a state lie: on every device whole, or in parts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jax.tree_util import keystr, tree_leaves_with_path

from replicax.errors import UserError

Rules = Sequence[tuple[str, P]]

SMALL = 1024  # elements; spreading fewer over the replicas saves nothing and costs a collective


def shardings(state: Any, mesh: Mesh, rules: Rules, spread: str | None, over: str) -> Any:
    """The place of each leaf of a state, in its structure.

    Args:
      state: arrays or their shapes.
      mesh: of the devices; the axes that rules may name.
      rules: (pattern, spec); the first whose regular expression is found in the leaf's path, such
        as `params/hidden/kernel`, decides. Without one a leaf is whole on every device.
      spread: regular expression of the leaves that are spread along the axis `over` besides, along
        their largest dimension that is free and divides evenly.

    Raises:
      UserError: a rule names no leaf, no axis, more dimensions than the leaf has, or one that does
        not divide.
    """
    paths = [(path_name(path), np.shape(leaf)) for path, leaf in tree_leaves_with_path(state)]
    for pattern, spec in rules:
        if not any(re.search(pattern, name) for name, _ in paths):
            raise UserError(
                f"a partition rule is a regular expression that is found in the path of a leaf; "
                f"{pattern!r} ({spec}) is found in none of {', '.join(name for name, _ in paths)}"
            )
    specs = [_spec(name, shape, mesh, rules) for name, shape in paths]
    if spread is not None:
        chosen = [re.search(spread, name) is not None for name, _ in paths]
        if not any(chosen):
            raise UserError(
                "shard_state is a regular expression of the leaves to spread over the replicas; "
                f"{spread!r} is found in none of {', '.join(name for name, _ in paths)}"
            )
        specs = [
            _spread(spec, shape, over, mesh.shape[over]) if wanted else spec
            for spec, (_, shape), wanted in zip(specs, paths, chosen, strict=True)
        ]
    places = [NamedSharding(mesh, spec) for spec in specs]
    return jax.tree.unflatten(jax.tree.structure(state), places)


def path_name(path: tuple[Any, ...]) -> str:
    """A leaf's path as rules see it: `params/hidden/kernel`."""
    return keystr(path, simple=True, separator="/")


def axes_of(spec: P) -> set[str]:
    """The axes that a spec splits over."""
    return {axis for entry in spec for axis in (entry if isinstance(entry, tuple) else (entry,))}


def _spec(name: str, shape: tuple[int, ...], mesh: Mesh, rules: Rules) -> P:
    """What the rules say of one leaf, checked."""
    spec = next((spec for pattern, spec in rules if re.search(pattern, name)), P())
    if len(spec) > len(shape):
        raise UserError(
            f"a partition spec has at most one entry per dimension; {spec} was given for {name}, "
            f"which has shape {list(shape)}"
        )
    for size, entry in zip(shape, spec, strict=False):
        parts = _parts(entry, name, mesh)
        if size % parts:
            raise UserError(
                f"a dimension must divide by the devices it is split over; {spec} splits one of "
                f"size {size} of {name}, shape {list(shape)}, into {parts}; give other "
                "devices_per_replica, or split another dimension"
            )
    return spec


def _parts(entry: Any, name: str, mesh: Mesh) -> int:
    """Into how many parts an entry of a spec splits a dimension."""
    axes = () if entry is None else entry if isinstance(entry, tuple) else (entry,)
    for axis in axes:
        if axis not in mesh.shape:
            raise UserError(
                f"a partition rule names axes of the devices, here {', '.join(mesh.shape)}; got "
                f"{axis!r} for {name}; give devices_per_replica={{{axis!r}: SIZE}}, or correct it"
            )
    return int(np.prod([mesh.shape[axis] for axis in axes], dtype=int))


def _spread(spec: P, shape: tuple[int, ...], axis: str, count: int) -> P:
    """A spec that splits one more dimension; the same where none divides or the leaf is small."""
    entries = [*spec, *[None] * (len(shape) - len(spec))]
    free = [i for i, n in enumerate(shape) if entries[i] is None and n % count == 0]
    if not free or np.prod(shape) < SMALL or axis in axes_of(spec):
        return spec
    entries[max(free, key=lambda i: shape[i])] = axis
    return P(*entries)
