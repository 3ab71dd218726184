"""Which replica runs where: a mesh of devices, and how many replicas share each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from replicax.errors import UserError

REPLICA = "replica"  # over devices
VIRTUAL = "virtual"  # over the replicas of one device


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a global batch is split.

    Attributes:
      devices: of all processes, in the order of the replicas.
      virtual: replicas on each device.
      batch_size: examples per step, over all replicas.
      parts: parts into which a replica splits its examples.
      ordered: sums are formed in one fixed order.
    """

    devices: tuple[jax.Device, ...]
    virtual: int
    batch_size: int
    parts: int
    ordered: bool

    @property
    def replicas(self) -> int:
        return len(self.devices) * self.virtual

    @property
    def processes(self) -> int:
        return len({device.process_index for device in self.devices})

    @property
    def per_replica_batch_size(self) -> int:
        return self.batch_size // self.replicas

    @property
    def axes(self) -> tuple[tuple[str, int], ...]:
        """Name and size of the mapped axes."""
        outer = ((REPLICA, len(self.devices)),)
        return outer if self.virtual == 1 else (*outer, (VIRTUAL, self.virtual))

    @cached_property
    def mesh(self) -> Mesh:
        auto = (jax.sharding.AxisType.Auto,)
        return Mesh(np.array(self.devices), (REPLICA,), axis_types=auto)

    @property
    def mirrored(self) -> NamedSharding:
        """Of what is equal on all replicas."""
        return NamedSharding(self.mesh, P())

    def mirror(self, x: Any) -> jax.Array:
        """Copies an array, the same in every process, to all replicas."""
        if self.processes == 1:
            return jax.device_put(x, self.mirrored, may_alias=False)
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            data = self.mirror(jax.random.key_data(x))
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(x))
        return jax.make_array_from_process_local_data(self.mirrored, np.asarray(x), np.shape(x))

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
    processes: int,
    microbatches: int,
    blocks: int,
) -> Layout:
    """The layout that was asked for.

    Args:
      replicas: one for each device if None.
      devices: all there are, those of a process side by side.
      processes: how many hold them, the same number each.
      microbatches: parts of a replica's examples that are summed one by one.
      blocks: in deterministic mode, the parts of the global batch that are summed in one fixed
        order; 0 otherwise.

    Raises:
      UserError: it cannot be had; names the nearest that can.
    """
    replicas = len(devices) if replicas is None else replicas
    if replicas % processes:
        raise UserError(
            f"replicas must divide evenly over the processes; got {replicas} replicas and "
            f"{processes} processes; give a multiple of {processes}"
        )
    per_process, own = replicas // processes, len(devices) // processes
    used = max(n for n in range(1, own + 1) if per_process % n == 0)  # devices of each process
    chosen = tuple(d for i, d in enumerate(devices) if i % own < used)
    virtual = replicas // len(chosen)
    if blocks:
        _check_blocks(batch_size, replicas, microbatches, blocks, virtual)
        parts = blocks // replicas
    else:
        _check_split(batch_size, replicas, microbatches)
        parts = microbatches
    return Layout(
        devices=chosen, virtual=virtual, batch_size=batch_size, parts=parts, ordered=bool(blocks)
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
