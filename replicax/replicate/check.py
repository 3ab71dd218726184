"""Proves on a user's own functions that N replicas equal one, or names what differs first."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_leaves_with_path

from replicax.errors import UserError
from replicax.replicate.cpu_devices import ask_for_cpu_devices
from replicax.replicate.program import PerReplica
from replicax.replicate.replicator import Replicator

FUNCTIONS = ("init_fn", "input_fn", "step_fn")
RUN_NAME = "__replicax_check__"
BATCH_SIZE = 64


@dataclass(frozen=True)
class Found:
    """What one number of replicas gave, beside the first number.

    Attributes:
      replicas: how many.
      steps: compared.
      difference: the largest one of any leaf, relative to the leaf's largest element.
      leaf, step: the first leaf beyond the tolerance, and its step; None if all are within.
    """

    replicas: int
    steps: int
    difference: float
    leaf: str | None
    step: int | None


@dataclass(frozen=True)
class Subject:
    """What is checked: the functions of a training file, and its batch size."""

    init_fn: Callable[[Any], Any]
    input_fn: Callable[[Any], Any]
    step_fn: Callable[[Any, Any], Any]
    batch_size: int

    @staticmethod
    def of_file(path: Path, batch_size: int | None) -> Subject:
        """Reads a file's functions; what it does under `__name__ == "__main__"` is left out.

        Raises:
          UserError: no such file, or a function is missing.
        """
        if not path.is_file():
            raise UserError(f"no such file: {path}")
        names = runpy.run_path(str(path), run_name=RUN_NAME)
        missing = [name for name in FUNCTIONS if not callable(names.get(name))]
        if missing:
            raise UserError(
                f"a file to check has the functions {', '.join(FUNCTIONS)} at its top level; "
                f"{path} lacks {', '.join(missing)}"
            )
        size = batch_size or names.get("batch_size", names.get("BATCH_SIZE", BATCH_SIZE))
        return Subject(names["init_fn"], names["input_fn"], names["step_fn"], size)


def compare(
    subject: Subject, replicas: Sequence[int], *, steps: int, tolerance: float, seed: int = 0
) -> Iterator[Found]:
    """Runs the same steps on each number of replicas, and compares state and values.

    Args:
      replicas: numbers of replicas; the others are compared with the first.
      steps: how many.
      tolerance: of a leaf, relative to its largest element.
    """
    ask_for_cpu_devices(max(replicas))
    reference = _trajectory(subject, replicas[0], steps, seed)
    for n in replicas[1:]:
        yield _compared(n, reference, _trajectory(subject, n, steps, seed), tolerance)


def _trajectory(subject: Subject, n: int, steps: int, seed: int) -> list[dict[str, Any]]:
    """State and values after each step, on the host."""

    def step_fn(state: Any, batch: Any) -> Any:
        result = subject.step_fn(state, batch)
        if type(result) is not tuple or len(result) != 2:
            return result  # the replicator says what is wrong
        state, values = result
        return state, jax.tree.map(_unless_local, values, is_leaf=_is_local)

    devices = max(d for d in range(1, min(n, len(jax.devices())) + 1) if n % d == 0)
    with Replicator(subject.batch_size, replicas=n, devices=devices) as replicator:
        state = replicator.init(subject.init_fn, seed=seed)
        run = replicator.run(step_fn, state, subject.input_fn, steps=steps, seed=seed)
        return [jax.device_get({"state": s, "values": v}) for s, v in run]


def _is_local(x: Any) -> bool:
    return isinstance(x, PerReplica)


def _unless_local(x: Any) -> Any:
    return None if _is_local(x) else x


def _compared(n: int, reference: list[Any], other: list[Any], tolerance: float) -> Found:
    largest = 0.0
    for step, (a, b) in enumerate(zip(reference, other, strict=True)):
        for (path, x), y in zip(tree_leaves_with_path(a), jax.tree.leaves(b), strict=True):
            difference = _difference(x, y)
            if not difference <= tolerance:
                name = f"{path[0].key}{keystr(path[1:])}"
                return Found(n, len(other), difference, name, step)
            largest = max(largest, difference)
    return Found(n, len(other), largest, None, None)


def _difference(x: Any, y: Any) -> float:
    """The largest difference, relative to the largest element; NaN if one alone is not finite."""
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x, y = jax.random.key_data(x), jax.random.key_data(y)
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if np.array_equal(x, y, equal_nan=True):
        return 0.0
    scale = max(np.abs(x).max(), np.abs(y).max())
    with np.errstate(invalid="ignore"):
        return float(np.abs(x - y).max() / scale)
