"""Batch normalisation over groups whose size is counted in examples, not in devices."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from replicax.errors import UserError
from replicax.replicate.collectives import all_gather
from replicax.replicate.scope import Scope, communicating
from replicax.replicate.weighted import WeightedSum

Group = int | Literal["global", "replica"]


class Moments(NamedTuple):
    """Mean and variance of each feature, [features].

    As `batch_norm` returns them, weighted sums over this replica's groups: `all_mean(moments)`
    makes them those over all groups, equal on all replicas, for running statistics.
    """

    mean: Any
    variance: Any


class _Part(NamedTuple):
    """Centred moments of some examples: how much they weigh, their mean, their sum of squares."""

    weight: jax.Array  # [groups, 1]
    mean: jax.Array  # [groups, features]
    squares: jax.Array  # [groups, features], of the distance from the mean


def batch_norm(
    x: jax.Array, weight: jax.Array, *, group: Group = "global", epsilon: float = 1e-5
) -> tuple[jax.Array, Moments]:
    """Normalises each feature to mean 0 and variance 1 over groups of examples.

    Ioffe and Szegedy 2015, algorithm 1; groups as of Hoffer et al. 2017, "ghost batch
    normalisation". Moments of several replicas are merged from centred ones (Chan, Golub and
    LeVeque 1983, eq. 2.1), not from a mean of squares, which cancels.

    Args:
      x: [n, ..., features], the examples at hand.
      weight: [n], 0 for padding, which counts nowhere.
      group: examples of a group, neighbours in the global batch: k of them, all ('global'), or
        those of a replica, the one choice that depends on the number of replicas.
      epsilon: added to the variance.

    Returns:
      x normalised, without scale and offset; and the moments for running statistics, through which
      no gradient flows.

    Raises:
      UserError: the examples cannot be grouped so, or the group is larger than a micro-batch.
    """
    scope = communicating("batch_norm")
    count = x.shape[0]
    size = _group_size(group, count, scope)
    grouped = x.reshape(max(count // size, 1), -1, x.shape[-1])
    share = jnp.broadcast_to(weight.reshape(-1, *[1] * (x.ndim - 1)), (*x.shape[:-1], 1))
    part = _part_of(grouped, share.reshape(*grouped.shape[:2], 1).astype(x.dtype))
    whole = part if scope is None or size <= count else _over_replicas(part, size // count, scope)
    variance = whole.squares / _at_least(whole.weight)
    scaled = (grouped - whole.mean[:, None]) * jax.lax.rsqrt(variance[:, None] + epsilon)
    return scaled.reshape(x.shape), _sums(part.weight, whole.mean, variance)


def _group_size(group: Group, count: int, scope: Scope | None) -> int:
    """Examples of a group, checked."""
    at_hand = count if scope is None else count * scope.replicas
    total = count if scope is None else scope.batch_size
    named: dict[Any, int] = {"global": total, "replica": count}
    size = named.get(group, group)
    if not isinstance(size, int) or size < 1:
        raise UserError(f"group is 'global', 'replica' or a number of examples; got {group!r}")
    if total % size or (count % size and size % count):
        raise UserError(
            "the examples of a batch must divide into groups, and the groups over the replicas or "
            f"the other way round; got groups of {size}, {count} examples at hand and {total} in "
            "all"
        )
    if size > count and at_hand < total:
        raise UserError(
            f"a group must lie within a micro-batch, which is computed by itself; got groups of "
            f"{size} and {count} examples at hand; give a smaller group, or no micro-batches"
        )
    return size


def _part_of(x: jax.Array, weight: jax.Array) -> _Part:
    """The moments of each group: x [groups, examples, features], weight [groups, examples, 1]."""
    total = weight.sum(1)
    kept = jnp.where(weight == 0, 0, x)
    mean = (weight * kept).sum(1) / _at_least(total)
    return _Part(total, mean, (weight * jnp.square(kept - mean[:, None])).sum(1))


def _over_replicas(part: _Part, span: int, scope: Scope) -> _Part:
    """Merges the moments of the `span` neighbouring replicas that share a group."""
    start = scope.replica_id // span * span

    def of_group(x: jax.Array) -> jax.Array:
        return jax.lax.dynamic_slice_in_dim(x[:, 0], start, span)

    weight, mean, squares = (of_group(x) for x in all_gather(tuple(part)))
    total = weight.sum(0)
    merged = (weight * mean).sum(0) / _at_least(total)
    return _Part(
        total[None], merged[None], (squares + weight * jnp.square(mean - merged)).sum(0)[None]
    )


def _sums(weight: jax.Array, mean: jax.Array, variance: jax.Array) -> Moments:
    weight, mean, variance = jax.lax.stop_gradient((weight, mean, variance))
    total = weight.sum()
    return Moments(
        WeightedSum((weight * mean).sum(0), total), WeightedSum((weight * variance).sum(0), total)
    )


def _at_least(weight: jax.Array) -> jax.Array:
    """A divisor for groups of padding alone."""
    return jnp.where(weight == 0, 1, weight)
