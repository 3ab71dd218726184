"""Notices when copies of the state that must be equal no longer are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jax.tree_util import keystr, tree_leaves_with_path

from replicax.errors import UserError
from replicax.replicate import processes
from replicax.replicate.layout import Layout
from replicax.replicate.placement import axes_of

_BITS = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint32}


class DriftGuard:
    """Compares a fingerprint of every copy of each leaf, now and then.

    The step proves that copies start equal and are treated alike. A device that computes wrongly,
    or a callback that tells each device something else, breaks that without a sign. What a
    comparison found is read at the next one, so that no step waits for it.
    """

    def __init__(self, layout: Layout, every: int) -> None:
        """Args: every: steps between comparisons; 0 for none."""
        self._layout, self._every = layout, every
        self._names: list[str] = []
        self._specs: list[P] = []
        self._program: Callable[..., Any] | None = None
        self._waiting: tuple[int, Any] | None = None

    def look(self, state: Any, step: int) -> None:
        """Compares the state after a step, if it is due.

        Raises:
          UserError: copies differed at the comparison before; names leaf, step and devices.
        """
        if not self._every or (step + 1) % self._every:
            return
        self.read()
        if self._program is None:
            self._program = self._prepare(state)
        (found,) = processes.in_order(self._program, state)
        self._waiting = step, found

    def read(self) -> None:
        """Raises UserError if the last comparison found a difference."""
        if self._waiting is None:
            return
        (step, found), self._waiting = self._waiting, None
        mesh = self._layout.mesh
        prints = np.asarray(jax.device_get(found)).reshape(*mesh.devices.shape, -1)
        for i, (name, spec) in enumerate(zip(self._names, self._specs, strict=True)):
            copied = tuple(j for j, axis in enumerate(mesh.axis_names) if axis not in axes_of(spec))
            odd = prints[..., i] != np.median(prints[..., i], copied, keepdims=True)
            if odd.any():
                devices = ", ".join(str(device) for device in mesh.devices[odd])
                raise UserError(
                    f"copies of the state must stay equal; after step {step} those of state{name} "
                    f"differ (on {devices}): a device computes wrongly, or a callback tells each "
                    f"something else; they are compared every {self._every} steps; go on from an "
                    "earlier state"
                )

    def _prepare(self, state: Any) -> Callable[..., Any]:
        mesh = self._layout.mesh
        shardings = self._layout.shardings(state)
        self._names = [keystr(path) for path, _ in tree_leaves_with_path(state)]
        self._specs = [sharding.spec for sharding in jax.tree.leaves(shardings)]
        mapped = jax.shard_map(
            partial(_fingerprints, axes=mesh.axis_names),
            mesh=mesh,
            in_specs=(jax.tree.map(lambda sharding: sharding.spec, shardings),),
            out_specs=P(),
            check_vma=False,
        )
        places = (NamedSharding(mesh, P()), None)
        return jax.jit(lambda state, turn: (mapped(state), turn + 1), out_shardings=places)


def _fingerprints(state: Any, axes: tuple[str, ...]) -> jax.Array:
    """Of each device's part of each leaf, uint32 [devices, leaves]."""
    own = jnp.stack([_fingerprint(leaf) for leaf in jax.tree.leaves(state)])
    return lax.all_gather(own, axes)


def _fingerprint(x: jax.Array) -> jax.Array:
    """The sum of all bits as whole numbers modulo 2**32, in which order does not matter."""
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        x = jnp.stack([x.real, x.imag])
    if x.dtype != bool:
        x = lax.bitcast_convert_type(x, _BITS[x.dtype.itemsize])
    return x.astype(jnp.uint32).sum(dtype=jnp.uint32)
