"""A step function as one compiled program on all replicas, and the checks before it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from replicax.errors import UserError
from replicax.replicate import processes
from replicax.replicate.checks import (
    check_arrays,
    check_batch,
    check_equal_on_all,
    check_no_branch_communicates,
    check_same_state,
)
from replicax.replicate.layout import REPLICA, VIRTUAL, Layout
from replicax.replicate.scope import Scope, entered

StepFunction = Callable[[Any, Any], tuple[Any, Any]]
Join = Callable[["Values"], Any]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PerReplica:
    """A value that differs from replica to replica; made by `per_replica`."""

    value: Any


def per_replica(tree: Any) -> PerReplica:
    """Declares that an output of a step differs from replica to replica.

    It comes back as arrays with a new leading axis over the replicas, also if there is only one.
    """
    return PerReplica(tree)


class Values(NamedTuple):
    """The values of a step, apart: those equal on all replicas, and those of each."""

    mirrored: Any
    local: Any


class Program:
    """A step function on all replicas: (state, batch, step) -> (state, values).

    Compiled at the first call, and again for other shapes.
    """

    def __init__(
        self,
        step_fn: StepFunction,
        layout: Layout,
        key: jax.Array,
        *,
        donate: bool,
        communicates: bool = True,
    ) -> None:
        self._step_fn = step_fn
        self._layout = layout
        self._key = layout.mirror(key)
        self._donate = donate
        self._communicates = communicates
        self._ordered = communicates and layout.processes > 1
        self._compiled: dict[Any, tuple[Callable[..., Any], Join]] = {}

    def __call__(self, state: Any, batch: Any, step: int = 0) -> tuple[Any, Any]:
        """Runs one step.

        Args:
          state: the same structure, shapes and types come out again; its buffers are given away if
            the program was made so.
          batch: leaves [batch_size, ...], as `Replicator.batches` places them.
          step: its number, which the random streams depend on.
        """
        leaves, structure = jax.tree.flatten((state, batch))
        shapes = (structure, *((np.shape(x), getattr(x, "dtype", None)) for x in leaves))
        if shapes not in self._compiled:
            self._compiled[shapes] = self._compile(state, batch)
        call, join = self._compiled[shapes]
        arguments = (state, batch, np.int32(step), self._key)
        if self._ordered:
            state, values = processes.in_order(call, *arguments)
        else:
            state, values, _ = call(*arguments, np.int32(0))
        return state, join(values)

    def _compile(self, state: Any, batch: Any) -> tuple[Callable[..., Any], Join]:
        layout = self._layout
        check_arrays("state", state)
        check_batch(batch, layout.batch_size)
        join = self._check_step(state, batch)
        on_all = self._by_partitioner if layout.split_state else self._by_device()

        def program(state: Any, batch: Any, step: Any, key: Any, turn: Any) -> Any:
            return *on_all(state, batch, step, key), turn + 1

        places = (layout.shardings(state), Values(layout.mirrored, layout.split), None)
        jitted = jax.jit(program, donate_argnums=(0,) if self._donate else (), out_shardings=places)
        lowered = jitted.lower(state, batch, np.int32(0), self._key, np.int32(0))
        if self._ordered:
            processes.check_same_program(lowered, (state, batch))
        return lowered.compile(), join

    def _by_partitioner(self, state: Any, batch: Any, step: Any, key: Any) -> tuple[Any, Values]:
        """All replicas at once; XLA splits the work, as the state and the batch are placed.

        A state that is split cannot be an argument of each replica. Here the state exists once,
        and an update of it is computed where its parts lie, as of Xu et al. 2020, "Automatic
        cross-replica sharding of weight update in data-parallel training".
        """
        layout, n = self._layout, self._layout.replicas

        def share(x: jax.Array) -> jax.Array:
            shares = x.reshape(n, -1, *x.shape[1:])
            return jax.lax.with_sharding_constraint(shares, layout.split)

        return jax.vmap(
            partial(self._on_replica, ((REPLICA, n),)),
            in_axes=(None, 0, None, None),
            out_axes=(None, Values(None, 0)),
            axis_name=REPLICA,
            axis_size=n,
            spmd_axis_name=REPLICA,
        )(state, jax.tree.map(share, batch), step, key)

    def _by_device(self) -> Callable[..., tuple[Any, Values]]:
        """Each device computes its replicas, with the whole state; no work is left to XLA."""
        return jax.shard_map(
            self._on_device,
            mesh=self._layout.mesh,
            in_specs=(P(), P(REPLICA), P(), P()),
            out_specs=(P(), Values(P(), P(REPLICA))),
            check_vma=False,
        )

    def _on_device(self, state: Any, batch: Any, step: Any, key: Any) -> tuple[Any, Values]:
        """The replicas of one device."""
        virtual, axes = self._layout.virtual, self._layout.axes
        if virtual == 1:
            state, values = self._on_replica(axes, state, batch, step, key)
            return state, values._replace(local=jax.tree.map(lambda x: x[None], values.local))
        shares = jax.tree.map(lambda x: x.reshape(virtual, -1, *x.shape[1:]), batch)
        return jax.vmap(
            lambda share: self._on_replica(axes, state, share, step, key),
            out_axes=(None, Values(None, 0)),
            axis_name=VIRTUAL,
            axis_size=virtual,
        )(shares)

    def _on_replica(
        self, axes: tuple[tuple[str, int], ...], state: Any, share: Any, step: Any, key: Any
    ) -> tuple[Any, Values]:
        after, values = self._call(axes, state, share, step, key)
        parts = jax.tree.map(jnp.asarray, _parts(values))
        return after, Values(
            [x for x in parts if not _is_local(x)], [x.value for x in parts if _is_local(x)]
        )

    def _call(
        self, axes: tuple[tuple[str, int], ...], state: Any, share: Any, step: Any, key: Any
    ) -> tuple[Any, Any]:
        """The user's step, and whether what it returns is a state and values."""
        layout = self._layout
        scope = Scope(
            axes=axes,
            batch_size=layout.batch_size,
            count=layout.per_replica_batch_size,
            first=0,
            parts=layout.parts,
            ordered=layout.ordered,
            step=step,
            key=key,
            communicates=self._communicates,
        )
        with entered(replace(scope, first=scope.replica_id * scope.count)):
            result = self._step_fn(state, share)
        if type(result) is not tuple or len(result) != 2:
            raise UserError(
                "a step function returns (state, values), values being any pytree, {} for none; "
                f"got {type(result).__name__}"
            )
        after, values = result
        check_arrays("returned state", after)
        check_same_state(state, after)
        return after, values

    def _check_step(self, state: Any, batch: Any) -> Join:
        """Checks the step itself, and that what counts as equal on all replicas is.

        Returns:
          What puts the two kinds of values together again.
        """
        n, kept = self._layout.replicas, []

        def mapped(state: Any, share: Any, step: Any, key: Any) -> Any:
            after, values = self._call(((REPLICA, n),), state, share, step, key)
            kept.append(values)
            shown = jax.tree.map(lambda x: None if _is_local(x) else x, values, is_leaf=_is_local)
            return {"state": after, "values": shown}

        shares = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct((n, x.shape[0] // n, *x.shape[1:]), x.dtype), batch
        )
        arguments = (state, shares, np.int32(0), self._key)
        check_no_branch_communicates(mapped, arguments, REPLICA, n)
        check_equal_on_all(mapped, arguments, REPLICA, n)
        structure = jax.tree.structure(kept[0], is_leaf=_is_local)
        local = [_is_local(x) for x in _parts(kept[0])]

        def join(values: Values) -> Any:
            of_all, of_each = iter(values.mirrored), iter(values.local)
            return jax.tree.unflatten(
                structure, [next(of_each if own else of_all) for own in local]
            )

        return join


def _is_local(x: Any) -> bool:
    return isinstance(x, PerReplica)


def _parts(values: Any) -> list[Any]:
    return jax.tree.leaves(values, is_leaf=_is_local)
