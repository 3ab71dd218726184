"""Which replica runs where: a mesh of devices, and how many replicas share each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from replicax.errors import UserError
from replicax.replicate import processes
from replicax.replicate.placement import Rules, shardings

REPLICA = "replica"  # over devices
VIRTUAL = "virtual"  # over the replicas of one device


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a global batch is split, and where the state lies.

    Attributes:
      devices: of all processes, those of a replica side by side, in the order of the replicas.
      inner: name and size of the axes that the devices of one replica form; none if it has one.
      virtual: replicas that share a device or the devices of one.
      batch_size: examples per step, over all replicas.
      parts: parts into which a replica splits its examples.
      ordered: sums are formed in one fixed order.
      rules: which leaves of the state are split over which axes.
      spread: regular expression of the leaves that are spread over the replicas.
    """

    devices: tuple[jax.Device, ...]
    inner: tuple[tuple[str, int], ...] = ()
    virtual: int
    batch_size: int
    parts: int
    ordered: bool
    rules: tuple[tuple[str, P], ...] = ()
    spread: str | None = None

    @property
    def places(self) -> int:
        """How many replicas run side by side."""
        return len(self.devices) // prod(size for _, size in self.inner)

    @property
    def replicas(self) -> int:
        return self.places * self.virtual

    @property
    def split_state(self) -> bool:
        """Whether a replica has less than the whole state on one device."""
        return bool(self.inner or self.rules or self.spread)

    @property
    def processes(self) -> int:
        return len({device.process_index for device in self.devices})

    @property
    def per_replica_batch_size(self) -> int:
        return self.batch_size // self.replicas

    @property
    def axes(self) -> tuple[tuple[str, int], ...]:
        """Name and size of the mapped axes."""
        outer = ((REPLICA, self.places),)
        return outer if self.virtual == 1 else (*outer, (VIRTUAL, self.virtual))

    @cached_property
    def mesh(self) -> Mesh:
        axes = {REPLICA: self.places, **dict(self.inner)}
        auto = (jax.sharding.AxisType.Auto,) * len(axes)
        devices = np.array(self.devices).reshape(*axes.values())
        return Mesh(devices, tuple(axes), axis_types=auto)

    @property
    def mirrored(self) -> NamedSharding:
        """Of what is equal on all replicas."""
        return NamedSharding(self.mesh, P())

    def mirror(self, x: Any) -> jax.Array:
        """Copies an array, the same in every process, to all replicas."""
        return self.put(x, self.mirrored)

    def put(self, x: Any, sharding: NamedSharding) -> jax.Array:
        """An array, the same in every process or already placed, where it should lie.

        It may be the array given. Every process calls this, in the same order.
        """
        if isinstance(x, jax.Array) and x.sharding.is_equivalent_to(sharding, x.ndim):
            return x
        if self.processes == 1:
            return jax.device_put(x, sharding, may_alias=False)
        if isinstance(x, jax.Array) and not x.is_fully_addressable:
            return processes.moved(x, sharding)
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            data = self.put(jax.random.key_data(x), sharding)
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(x))
        return jax.make_array_from_callback(np.shape(x), sharding, np.asarray(x).__getitem__)

    def shardings(self, state: Any) -> Any:
        """Where each leaf of a state, or of its shapes, lies."""
        return shardings(state, self.mesh, self.rules, self.spread, REPLICA)

    @property
    def split(self) -> NamedSharding:
        """Of what has a leading axis over examples or replicas."""
        return NamedSharding(self.mesh, P(REPLICA))

    def of_process(self, process: int) -> Layout:
        """The replicas of one process alone, with their share of the batch."""
        own = tuple(d for d in self.devices if d.process_index == process)
        share = self.batch_size * len(own) // len(self.devices)
        return replace(self, devices=own, batch_size=share)


def plan(
    *,
    batch_size: int,
    replicas: int | None,
    devices: tuple[jax.Device, ...],
    workers: int,
    inner: dict[str, int],
    microbatches: int,
    blocks: int,
    rules: Rules,
    spread: str | None,
) -> Layout:
    """The layout that was asked for.

    Args:
      replicas: as many as the devices can hold side by side if None.
      devices: all there are, those of a process side by side.
      workers: how many processes hold them, the same number each.
      inner: name and size of the axes that the devices of one replica form.
      microbatches: parts of a replica's examples that are summed one by one.
      blocks: in deterministic mode, the parts of the global batch that are summed in one fixed
        order; 0 otherwise.
      rules, spread: as of `Layout`.

    Raises:
      UserError: it cannot be had; names the nearest that can.
    """
    own, each = len(devices) // workers, prod(inner.values())
    _check_inner(own, each, workers, replicas)
    replicas = len(devices) // each if replicas is None else replicas
    if replicas % workers:
        raise UserError(
            f"replicas must divide evenly over the processes; got {replicas} replicas and "
            f"{workers} processes; give a multiple of {workers}"
        )
    per_process = replicas // workers
    used = max(n for n in range(1, own // each + 1) if per_process % n == 0)  # side by side
    chosen = tuple(d for i, d in enumerate(devices) if i % own < used * each)
    virtual = per_process // used
    if blocks:
        _check_blocks(batch_size, replicas, microbatches, blocks, virtual)
        parts = blocks // replicas
    else:
        _check_split(batch_size, replicas, microbatches)
        parts = microbatches
    layout = Layout(
        devices=chosen,
        inner=tuple(inner.items()),
        virtual=virtual,
        batch_size=batch_size,
        parts=parts,
        ordered=bool(blocks),
        rules=tuple(rules),
        spread=spread,
    )
    if layout.ordered and layout.split_state:
        raise UserError(
            "deterministic mode needs the whole state on every device, since the way in which a "
            "product is split over devices changes its bits; leave out devices_per_replica, "
            "partition_rules and shard_state, or deterministic"
        )
    return layout


def _check_inner(own: int, each: int, workers: int, replicas: int | None) -> None:
    """Whether the devices of a process hold whole replicas."""
    if own < each or (replicas is None and own % each):
        raise UserError(
            f"a replica's devices belong to one process; got devices_per_replica of {each} in all "
            f"and {own} device(s) on each of {workers} process(es); the number of devices must be "
            f"a multiple: `replicax launch --devices N` gives CPU devices"
        )


def _check_split(batch_size: int, replicas: int, microbatches: int) -> None:
    shares = replicas * microbatches
    if batch_size % shares:
        below, above = batch_size // shares * shares, -(-batch_size // shares) * shares
        nearest = f"{below} and {above}" if below else f"{above}"
        raise UserError(
            f"batch_size must be a multiple of replicas x microbatches; got {batch_size} and "
            f"{replicas} x {microbatches} = {shares}; the nearest sizes are {nearest}, or give "
            "another number of replicas"
        )


def _check_blocks(
    batch_size: int, replicas: int, microbatches: int, blocks: int, virtual: int
) -> None:
    shares = replicas * microbatches
    if blocks & (blocks - 1) or blocks % shares:
        raise UserError(
            "deterministic sums are over a power of two of blocks of the batch, a multiple of "
            f"replicas x microbatches; got {blocks} blocks and {replicas} x {microbatches}; give "
            "deterministic=BLOCKS, the same for every run that is to be compared"
        )
    if batch_size % blocks:
        below, above = batch_size // blocks * blocks, -(-batch_size // blocks) * blocks
        raise UserError(
            f"in deterministic mode batch_size must be a multiple of the {blocks} blocks; got "
            f"{batch_size}; the nearest sizes are {below or above} and {above}"
        )
    if virtual > 1:
        raise UserError(
            f"deterministic mode needs a device for each replica; got {replicas} replicas on "
            f"{replicas // virtual}; several replicas on one device are equal within rounding "
            "only; give fewer replicas, or start with more devices"
        )
