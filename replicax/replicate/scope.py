"""What the code of a step can know of the replicas it runs on, while it is traced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import jax
import jax.numpy as jnp

from replicax.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The replicas of a step, and where in the global batch the examples at hand stand.

    Attributes:
      axes: name and size of the mapped axes, the outermost first; a replica's number counts through
        them.
      batch_size: examples of the step, over all replicas.
      count: examples at hand: those of a replica, or of one of its parts.
      first: position of the first of them in the global batch, int32.
      parts: equal parts, micro-batches or blocks, into which a replica's examples are split.
      ordered: sums are formed in one fixed order, whatever the number of replicas.
      step: number of the step, int32.
      key: key of the run's random streams.
      communicates: False where each replica's result is merged afterwards, by the host.
    """

    axes: tuple[tuple[str, int], ...]
    batch_size: int
    count: int
    first: Any
    parts: int
    ordered: bool
    step: Any
    key: jax.Array
    communicates: bool = True

    @property
    def replicas(self) -> int:
        return prod(size for _, size in self.axes)

    @property
    def replica_id(self) -> jax.Array:
        """Number of this replica, int32."""
        number = jnp.int32(0)
        for name, size in self.axes:
            number = number * size + jax.lax.axis_index(name)
        return number


_scope: ContextVar[Scope | None] = ContextVar("replicax_scope", default=None)


def current() -> Scope | None:
    """The scope of the step that is being traced; None outside of a replicator."""
    return _scope.get()


@contextmanager
def entered(scope: Scope) -> Iterator[None]:
    """Makes a scope the current one."""
    token = _scope.set(scope)
    try:
        yield
    finally:
        _scope.reset(token)


def part(scope: Scope, number: Any) -> Scope:
    """The scope of one of the equal parts of a replica's examples."""
    count = scope.count // scope.parts
    return replace(scope, count=count, first=scope.first + number * count, parts=1)


def communicating(name: str) -> Scope | None:
    """The scope for a collective. Raises UserError where collectives have no place."""
    scope = current()
    if scope is not None and not scope.communicates:
        raise UserError(
            f"{name} has no place in an evaluation: each replica returns a state, and replicax "
            "merges the states of all examples exactly once; return the state instead"
        )
    return scope
