"""Three random streams: shared by all replicas, of each replica, of each example.

A key is a function of (seed, step, name) and, for the last two, of the replica or the example's
position in the global batch. The streams that are shared and per example give the same numbers
whatever the number of replicas, micro-batches or processes.
"""

from __future__ import annotations

from zlib import crc32

import jax
import jax.numpy as jnp

from replicax.errors import UserError
from replicax.replicate.scope import Scope, current


def shared_key(name: str = "") -> jax.Array:
    """A key that is the same on all replicas, and new in each step."""
    return _named("shared", name, _scope())


def replica_key(name: str = "") -> jax.Array:
    """A key of this replica. The only stream whose numbers depend on the number of replicas."""
    scope = _scope()
    return jax.random.fold_in(_named("replica", name, scope), scope.replica_id)


def example_keys(name: str = "") -> jax.Array:
    """A key for each example at hand, [n]: augmentation, dropout and noise with the same numbers
    whatever the number of replicas. To be used under `jax.vmap`."""
    scope = _scope()
    base = _named("example", name, scope)
    positions = scope.first + jnp.arange(scope.count)
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(base, positions)


def _named(stream: str, name: str, scope: Scope) -> jax.Array:
    key = jax.random.fold_in(scope.key, crc32(f"{stream}/{name}".encode()))
    return jax.random.fold_in(key, scope.step)


def _scope() -> Scope:
    scope = current()
    if scope is None:
        raise UserError(
            "random streams belong to a step: seed and step number come from the replicator; call "
            "this inside a step function, or use a key of your own"
        )
    return scope
