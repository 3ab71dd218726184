"""Collectives: functions on pytrees that combine what the replicas hold.

Every replica calls them, in the same order. Outside of a replicator there is one replica, and what
they return has the same structure, shapes and types.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from replicax.errors import UserError
from replicax.replicate.scope import Scope, communicating, current
from replicax.replicate.weighted import WeightedSum

_OPERATIONS = ("sum", "mean", "min", "max")


def replica_id() -> jax.Array:
    """Number of this replica, 0..N-1, int32."""
    scope = current()
    return jnp.int32(0) if scope is None else scope.replica_id


def num_replicas() -> int:
    """N, a Python integer: it is known while the step is traced."""
    scope = current()
    return 1 if scope is None else scope.replicas


def all_reduce(tree: Any, operation: str = "sum") -> Any:
    """Combines each leaf over the replicas, element by element; the result is the same on all.

    Args:
      tree: arrays of the same shape on every replica.
      operation: sum, mean, min or max. A mean counts every replica the same: where shares differ,
        use `all_mean` with weights.
    """
    if operation not in _OPERATIONS:
        raise UserError(f"all_reduce knows {', '.join(_OPERATIONS)}; got {operation!r}")
    scope = communicating("all_reduce")
    tree = jax.tree.map(jnp.asarray, tree)
    if operation == "mean":
        n = num_replicas()
        return jax.tree.map(lambda x: x / n, _all_sum(tree, scope))
    if operation == "sum":
        return _all_sum(tree, scope)
    return _along_axes(tree, scope, lax.pmin if operation == "min" else lax.pmax)


def all_sum(tree: Any) -> Any:
    """The sum over replicas."""
    return all_reduce(tree, "sum")


def all_min(tree: Any) -> Any:
    """The least over replicas."""
    return all_reduce(tree, "min")


def all_max(tree: Any) -> Any:
    """The greatest over replicas."""
    return all_reduce(tree, "max")


def all_mean(tree: Any, weight: jax.Array | None = None) -> Any:
    """The mean over replicas: a sum and a weight, divided once.

    Args:
      tree: arrays; or `WeightedSum`s, each of which becomes the mean over all examples.
      weight: what this replica's arrays count, a scalar; the same for all by default.
    """
    scope = communicating("all_mean")

    def as_sum(x: Any) -> WeightedSum:
        if isinstance(x, WeightedSum):
            return x
        share = jnp.ones(()) if weight is None else jnp.asarray(weight)
        return WeightedSum(jnp.asarray(x) * share, share)

    sums = jax.tree.map(as_sum, tree, is_leaf=_is_sum)
    return jax.tree.map(lambda s: s.total / s.weight, _all_sum(sums, scope), is_leaf=_is_sum)


def all_gather(tree: Any) -> Any:
    """Stacks each leaf over the replicas, on a new leading axis of size N."""
    return _all_gather(jax.tree.map(jnp.asarray, tree), communicating("all_gather"))


def broadcast(tree: Any, source: int = 0) -> Any:
    """Gives every replica what one of them holds.

    Raises:
      UserError: there is no such replica.
    """
    scope = communicating("broadcast")
    if not 0 <= source < num_replicas():
        raise UserError(
            f"the source of a broadcast is one of the replicas, 0..{num_replicas() - 1}; got "
            f"{source}"
        )
    if scope is None:
        return jax.tree.map(jnp.asarray, tree)
    here = scope.replica_id == source

    def sent(x: Any) -> jax.Array:
        x = jnp.asarray(x)
        kept = jnp.where(here, x, jnp.zeros_like(x))
        number = kept.astype(jnp.int8) if x.dtype == bool else kept
        return _along_axes(number, scope, lax.psum).astype(x.dtype)

    return jax.tree.map(sent, tree)


def map_gather(function: Callable[[Any], Any], items: Any) -> Any:
    """Spreads independent jobs over the replicas; every replica gets all results.

    Args:
      function: one item -> a pytree of arrays.
      items: leaves [K, ...], equal on all replicas; K need not be a multiple of N.

    Returns:
      The results, leaves [K, ...], in the order of the items.
    """
    scope = communicating("map_gather")
    count = _count(items)
    gathered = _all_gather(_share_of_jobs(function, items, scope), scope)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:count], gathered)


def map_reduce(function: Callable[[Any], Any], items: Any, operation: str = "sum") -> Any:
    """Spreads independent jobs over the replicas and combines their results.

    Args:
      function, items: as of `map_gather`.
      operation: sum, mean, min or max, over the items.
    """
    if operation not in _OPERATIONS:
        raise UserError(f"map_reduce knows {', '.join(_OPERATIONS)}; got {operation!r}")
    results = map_gather(function, items)
    return jax.tree.map(lambda x: getattr(jnp, operation)(x, axis=0), results)


def _is_sum(x: Any) -> bool:
    return isinstance(x, WeightedSum)


def _along_axes(tree: Any, scope: Scope | None, collective: Callable[..., Any]) -> Any:
    for name, _ in reversed(scope.axes if scope else ()):
        tree = collective(tree, name)
    return tree


def _all_sum(tree: Any, scope: Scope | None) -> Any:
    if scope is None or not scope.ordered:
        return _along_axes(tree, scope, lax.psum)
    return jax.tree.map(lambda x: ordered_sum(list(x)), _all_gather(tree, scope))


def _all_gather(tree: Any, scope: Scope | None) -> Any:
    if scope is None:
        return jax.tree.map(lambda x: x[None], tree)
    gathered = _along_axes(tree, scope, lax.all_gather)
    return jax.tree.map(lambda x, one: x.reshape(scope.replicas, *one.shape), gathered, tree)


def ordered_sum(parts: list[Any]) -> Any:
    """The sum of a power of two of pytrees, in pairs of neighbours, and pairs of these.

    Half of the parts summed here and half of them there, then added, gives the same bits.
    """
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [jax.tree.map(jnp.add, a, b) for a, b in pairs]
    return parts[0]


def _count(items: Any) -> int:
    counts = {jnp.shape(leaf)[0] for leaf in jax.tree.leaves(items)}
    if len(counts) != 1:
        raise UserError(
            "items are stacked on their leading axis, the same number in every leaf; got "
            f"{sorted(counts)}"
        )
    return counts.pop()


def _share_of_jobs(function: Callable[[Any], Any], items: Any, scope: Scope | None) -> Any:
    """This replica's results, leaves [share, ...]; the last item may come more than once."""
    count = _count(items)
    share = -(-count // num_replicas())
    number = (0 if scope is None else scope.replica_id) * share + jnp.arange(share)
    mine = jax.tree.map(lambda x: jnp.asarray(x)[jnp.minimum(number, count - 1)], items)
    return lax.map(function, mine)
