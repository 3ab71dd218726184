"""Several CPU devices in one process, as a stand-in for accelerators."""

from __future__ import annotations

import os
import warnings

import jax

THREADS = "NPROC"  # how many threads XLA's CPU client starts


def ask_for_cpu_devices(count: int) -> None:
    """Has JAX show `count` CPU devices, if it has not started yet; otherwise says what to do.

    A collective blocks a thread for each device, and XLA starts as many threads as the machine has
    cores: on jax 0.10 eight devices on two cores can wait for one another for ever. So there are
    more threads than devices.
    """
    if count == 1 or jax.distributed.is_initialized():
        return
    threads = str(4 * count)
    before = os.environ.setdefault(THREADS, threads)
    try:
        if getattr(jax.config, "jax_num_cpu_devices") in (-1, 0):  # noqa: B009, JAX types it not
            jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:
        if before == threads:
            os.environ.pop(THREADS)
        if len(jax.devices()) < count:
            warnings.warn(
                f"{count} replicas share {len(jax.devices())} device(s), with the same numbers; "
                f"for {count} CPU devices enter the Replicator before anything else uses JAX, or "
                f"run `replicax launch --devices {count}`",
                stacklevel=3,
            )
