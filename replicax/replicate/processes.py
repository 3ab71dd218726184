"""The process group: coming up and going down, and what hosts agree on.

Everything here is called by every process, in the same order. With one process it is the identity.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from replicax.errors import UserError

COORDINATOR = "REPLICAX_COORDINATOR"
PROCESSES = "REPLICAX_PROCESSES"
PROCESS_ID = "REPLICAX_PROCESS_ID"
TIMEOUT_S = 60

# Where a scheduler says how many processes it has started; jax.distributed knows the rest.
_SCHEDULERS = ("SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE")

_AGREEMENTS: dict[str, Callable[[np.ndarray], Any]] = {
    "all": lambda x: x.astype(bool).all(0),
    "any": lambda x: x.astype(bool).any(0),
    "min": lambda x: x.min(0),
    "max": lambda x: x.max(0),
    "first": lambda x: x[0],
}


def start() -> bool:
    """Joins the process group that a launcher or scheduler has announced; True if there is one.

    Raises:
      UserError: not all of its processes came within a minute.
    """
    if jax.distributed.is_initialized():
        return False
    if COORDINATOR in os.environ:
        where = {
            "coordinator_address": os.environ[COORDINATOR],
            "num_processes": int(os.environ[PROCESSES]),
            "process_id": int(os.environ[PROCESS_ID]),
        }
    elif any(int(os.environ.get(name, "1")) > 1 for name in _SCHEDULERS):
        where = {}
    else:
        return False
    try:
        jax.distributed.initialize(
            **where,  # type: ignore[arg-type]
            initialization_timeout=TIMEOUT_S,
        )
    except Exception as error:
        raise UserError(
            f"not all processes came together within {TIMEOUT_S} s at "
            f"{where.get('coordinator_address', 'the address of the scheduler')}: {error}; look at "
            "the output of the others, and whether the port is free and can be reached"
        ) from error
    if jax.default_backend() == "cpu":
        # on jax 0.12.1 a program from the cache that communicates between processes hangs
        jax.config.update("jax_enable_compilation_cache", False)
    return True


def stop() -> None:
    """Leaves the process group once all others come to leave it too."""
    barrier("end")
    jax.distributed.shutdown()


def fail(error: BaseException | None) -> None:
    """After an error: this process will end without waiting for the others, who do not know yet.

    JAX would wait for them, and then abort with another exit code.
    """

    def end() -> None:
        code = error.code if isinstance(error, SystemExit) else hasattr(sys, "last_value")
        if code:  # else the script has caught the error
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code if isinstance(code, int) else 1)

    atexit.register(end)


# The number of programs with collectives that this process has started, as the last one returns it.
_turn: Any = np.int32(0)


def in_order(program: Callable[..., Any], *arguments: Any) -> Any:
    """Starts a program that communicates, to run after those that were started before it.

    On CPU, JAX runs programs side by side that do not wait for each other's results; if two of them
    communicate, they may do so in another order in another process, and wait for ever.

    Args:
      program: (*arguments, turn) -> (*results, turn).
    """
    if jax.process_count() == 1:
        return program(*arguments, np.int32(0))[:-1]
    global _turn  # the order is one for the whole process
    *results, _turn = program(*arguments, _turn)
    return results


def settle() -> None:
    """Waits for the programs that were started in order."""
    global _turn
    _turn = np.int32(jax.device_get(_turn))


def barrier(name: str = "barrier") -> None:
    """Waits until every process has come here."""
    if jax.process_count() > 1:
        from jax.experimental import multihost_utils

        settle()
        multihost_utils.sync_global_devices(name)


def gathered(value: Any) -> np.ndarray:
    """One value of each process, stacked in the order of the processes."""
    if jax.process_count() == 1:
        return np.asarray(value)[None]
    from jax.experimental import multihost_utils

    settle()
    return np.asarray(multihost_utils.process_allgather(np.asarray(value)))


def agree(value: Any, how: str = "all") -> np.ndarray:
    """A decision of the hosts that is the same on all: to stop, which is best, how far to shrink.

    Args:
      value: a number, a truth value or an array of them, of the same shape everywhere.
      how: all, any, min, max or first.
    """
    if how not in _AGREEMENTS:
        raise UserError(f"agree knows {', '.join(_AGREEMENTS)}; got {how!r}")
    return np.asarray(_AGREEMENTS[how](gathered(value)))


def check_same_program(lowered: Any, arguments: Any) -> None:
    """Before the first step: every process has lowered the same program for the same shapes.

    Raises:
      UserError: names the processes that differ from the first, and in what.
    """
    if jax.process_count() == 1:
        return
    shapes = [(x.shape, str(x.dtype)) for x in jax.tree.leaves(arguments)]
    structure = str(jax.tree.structure(arguments))
    own = [_digest(structure), _digest(str(shapes)), _digest(lowered.as_text())]
    all_of_them = gathered(np.stack(own))
    for i, what in enumerate(("structure of state and batch", "shapes and types", "program")):
        differing = np.flatnonzero((all_of_them[:, i] != all_of_them[0, i]).any(-1))
        if len(differing):
            raise UserError(
                "all processes must run the same step on the same shapes; the "
                f"{what} of process {', '.join(map(str, differing))} differs from that of process "
                "0; start all with the same code, arguments and versions"
            )


def _digest(text: str) -> np.ndarray:
    return np.frombuffer(hashlib.sha256(text.encode()).digest(), np.uint8)


def all_true(value: bool, mesh: Mesh) -> jax.Array:
    """Whether a value is true on every process; returns before the others have answered."""
    own = np.full(len(mesh.local_devices), value)
    split, mirrored = NamedSharding(mesh, P(mesh.axis_names)), NamedSharding(mesh, P())
    everywhere = jax.make_array_from_process_local_data(split, own, (mesh.size,))
    (answer,) = in_order(_all(mirrored), everywhere)
    return answer


@cache
def _all(mirrored: NamedSharding) -> Callable[..., Any]:
    return jax.jit(lambda x, turn: (x.all(), turn + 1), out_shardings=mirrored)


def moved(x: jax.Array, sharding: NamedSharding) -> jax.Array:
    """A global array, laid out otherwise over the devices of all processes."""
    (there,) = in_order(_move(sharding), x)
    return there


@cache
def _move(sharding: NamedSharding) -> Callable[..., Any]:
    return jax.jit(lambda x, turn: (x, turn + 1), out_shardings=(sharding, None))
