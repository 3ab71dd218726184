"""Evaluation: every example counts once, whatever the number of replicas and the tail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from replicax.errors import UserError
from replicax.replicate import processes
from replicax.replicate.pipelines import weight_of
from replicax.replicate.weighted import WeightedSum


class Metric(Protocol):
    """A state of a metric over some examples: a pytree of arrays."""

    def merge(self, other: Any) -> Any:
        """The state over the examples of both, which share none."""

    def result(self) -> Any:
        """The metric over the examples seen."""


class AveragePrecision(NamedTuple):
    """State of the average precision of a binary score; keeps every example.

    The area under the precision-recall curve as a step function: the sum over thresholds of the
    gain in recall times the precision (as in scikit-learn's `average_precision_score`). Examples
    of equal score share a threshold.
    """

    score: Any  # [n]
    positive: Any  # [n], true or false
    weight: Any  # [n], 0 for padding

    def merge(self, other: AveragePrecision) -> AveragePrecision:
        pairs = zip(self, other, strict=True)
        return AveragePrecision(*(np.concatenate(pair) for pair in pairs))

    def result(self) -> float:
        """The average precision; NaN without positive examples."""
        score, weight = np.asarray(self.score), np.asarray(self.weight, np.float64)
        order = np.argsort(-score, kind="stable")
        hits = np.cumsum((weight * np.asarray(self.positive))[order])
        seen = np.cumsum(weight[order])
        if not len(hits) or hits[-1] == 0:
            return float("nan")
        last_of_threshold = np.append(np.flatnonzero(np.diff(score[order])), len(hits) - 1)
        hits, seen = hits[last_of_threshold], seen[last_of_threshold]
        precision = hits / np.where(seen > 0, seen, 1)
        return float(np.sum(np.diff(hits, prepend=0) * precision) / hits[-1])


def accuracy(logits: jax.Array, label: jax.Array, weight: jax.Array) -> WeightedSum:
    """Share of examples whose largest logit is that of their label.

    Args:
      logits: [n, classes]. label: int [n]. weight: [n].
    """
    right = (logits.argmax(-1) == label).astype(weight.dtype)
    return WeightedSum(jnp.vdot(right, weight), weight.sum())


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found.

    Attributes:
      values: the metrics' results, in the structure that the metric function returned.
      count: examples of a weight other than 0.
    """

    values: Any
    count: int


MetricFunction = Callable[[Any, Any], Any]


def as_step(metric_fn: MetricFunction, declare: Callable[[Any], Any]) -> Callable[..., Any]:
    """A metric function as a step that leaves the state alone and returns each replica's states."""

    def step(state: Any, batch: Any) -> tuple[Any, Any]:
        metrics = metric_fn(state, batch)
        weight = weight_of(batch)
        if weight is None:
            weight = jnp.ones(jax.tree.leaves(batch)[0].shape[0])
        return state, declare((metrics, (weight != 0).sum()))

    return step


def merged(found: list[Any]) -> tuple[Any, int]:
    """Merges states: of batches, each [replicas, ...], in the order of batches, then replicas."""
    parts = [
        jax.tree.map(lambda x, i=i: x[i], batch)
        for batch in jax.device_get(found)
        for i in range(len(batch[1]))
    ]
    return reduce(_merge, (metrics for metrics, _ in parts)), int(sum(n for _, n in parts))


def over_processes(metrics: Any, count: int) -> Evaluation:
    """Merges the states of all processes, and finishes them."""
    leaves, structure = jax.tree.flatten(metrics)
    rows = [_rows_of_processes(np.asarray(leaf)) for leaf in leaves]
    states = [jax.tree.unflatten(structure, own) for own in zip(*rows, strict=True)]
    total = int(processes.gathered(count).sum())
    values = jax.tree.map(lambda m: m.result(), reduce(_merge, states), is_leaf=_is_metric)
    return Evaluation(values, total)


def _is_metric(x: Any) -> bool:
    return hasattr(x, "merge") and hasattr(x, "result")


def _merge(a: Any, b: Any) -> Any:
    def both(x: Any, y: Any) -> Any:
        if not _is_metric(x):
            raise UserError(
                "a metric function returns states that can be merged, such as WeightedSum; got "
                f"{type(x).__name__}, of which the mean over batches would depend on their sizes"
            )
        return x.merge(y)

    return jax.tree.map(both, a, b, is_leaf=_is_metric)


def _rows_of_processes(leaf: np.ndarray) -> list[np.ndarray]:
    """A leaf of each process; leading axes may differ in length."""
    if leaf.ndim == 0:
        return list(processes.gathered(leaf))
    counts = processes.gathered(len(leaf))
    padding = [(0, int(counts.max()) - len(leaf)), *[(0, 0)] * (leaf.ndim - 1)]
    stacked = processes.gathered(np.pad(leaf, padding))
    return [rows[:n] for rows, n in zip(stacked, counts, strict=True)]
