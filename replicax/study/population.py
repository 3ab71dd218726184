"""A population of trials that advance in lockstep, in groups of one fixed size.

A trial's numbers depend on its hyperparameters, its number and the group size, and on nothing else:
not on its slot, its companions, the order of work, or how often the run was interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from replicax.study.executor import Executor
from replicax.study.programs import Programs, Slots


class Group(NamedTuple):
    """Trials in the first slots; the remaining slots are padded with copies of the first."""

    trials: tuple[int, ...]
    slots: Slots


class Evaluation(NamedTuple):
    """One trial at one evaluated step.

    Attributes:
      metrics: name -> value on the whole validation split.
      diverged_at: first step whose loss was not finite, 0 if none.
    """

    metrics: dict[str, float]
    diverged_at: int


class Population:
    """The running trials of one wave."""

    def __init__(self, programs: Programs, executor: Executor, groups: Sequence[Group]) -> None:
        self._programs = programs
        self._executor = executor
        self._groups = list(groups)

    @staticmethod
    def start(
        programs: Programs, executor: Executor, points: Mapping[int, Mapping[str, float]]
    ) -> Population:
        """A population before its first step. `points`: trial -> hyperparameters."""
        groups = []
        for trials in _chunks(sorted(points), executor.size):
            padded = _padded(trials, executor.size)
            slots = programs.start(padded, [dict(points[t]) for t in padded])
            groups.append(Group(tuple(trials), slots))
        return Population(programs, executor, groups)

    @property
    def trials(self) -> list[int]:
        return [trial for group in self._groups for trial in group.trials]

    def advance(self, step: int, to: int) -> dict[int, Evaluation]:
        """Runs the steps `step + 1` .. `to` of every trial, then evaluates each."""

        def work(group: Group) -> tuple[Group, dict[str, np.ndarray], np.ndarray]:
            slots = self._programs.advance(group.slots, step, to, self._executor.loop)
            metrics = self._programs.evaluate(slots)
            return Group(group.trials, slots), metrics, np.atleast_1d(slots.diverged_at)

        if self._executor.streams == 1:
            results = [work(group) for group in self._groups]
        else:
            with ThreadPoolExecutor(self._executor.streams) as pool:
                results = list(pool.map(work, self._groups))
        self._groups = [group for group, _, _ in results]
        return {
            trial: Evaluation({k: float(v[i]) for k, v in metrics.items()}, int(diverged_at[i]))
            for group, metrics, diverged_at in results
            for i, trial in enumerate(group.trials)
        }

    def keep(self, trials: set[int]) -> None:
        """Frees the slots of all other trials, and closes up when that saves a group."""
        size = self._executor.size
        left = [g for g in self._groups if trials.intersection(g.trials)]
        if -(-len(trials) // size) < len(left):
            left = self._closed_up(trials)
        self._groups = left

    def _closed_up(self, trials: set[int]) -> list[Group]:
        size = self._executor.size
        places = {t: g * size + i for g, group in enumerate(self._groups)
                  for i, t in enumerate(group.trials) if t in trials}  # fmt: skip
        stacked = jax.tree.map(lambda *a: jnp.concatenate(a), *(g.slots for g in self._groups))
        groups = []
        for chosen in _chunks(sorted(places), size):
            where = np.array([places[t] for t in _padded(chosen, size)])
            groups.append(Group(tuple(chosen), jax.tree.map(lambda a, w=where: a[w], stacked)))
        return groups

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The whole state as named arrays."""
        arrays = {}
        for g, group in enumerate(self._groups):
            arrays[f"trials.{g}"] = np.array(group.trials, np.int64)
            for i, leaf in enumerate(jax.tree.leaves(group.slots)):
                arrays[f"slots.{g}.{i}"] = np.asarray(leaf)
        return arrays

    @staticmethod
    def from_arrays(
        programs: Programs,
        executor: Executor,
        points: Mapping[int, Mapping[str, float]],
        arrays: Mapping[str, np.ndarray],
    ) -> Population:
        """The population that `to_arrays` described."""
        some = sorted(points)[0]
        like: Any = programs.start([some], [dict(points[some])])
        structure: Any = jax.tree.structure(like)
        groups = []
        for g in range(sum(name.startswith("trials.") for name in arrays)):
            leaves = [jnp.asarray(arrays[f"slots.{g}.{i}"]) for i in range(structure.num_leaves)]
            trials = tuple(arrays[f"trials.{g}"].tolist())
            groups.append(Group(trials, jax.tree.unflatten(structure, leaves)))
        return Population(programs, executor, groups)


def _chunks(trials: list[int], size: int) -> list[list[int]]:
    return [trials[i : i + size] for i in range(0, len(trials), size)]


def _padded(trials: list[int], size: int) -> list[int]:
    return trials + trials[:1] * (size - len(trials))
