"""The contract of a task: what is learned, from which data, and when it counts as learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from replicax.data import Batch, Dataset, Examples
from replicax.replicate import WeightedSum
from replicax.tasks.space import Parameter


@dataclass(frozen=True, kw_only=True)
class Task:
    """A data set, a model, a loss, metrics and a goal; and what a good study of it looks like.

    Attributes:
      name: `dataset/model`.
      init: key -> params.
      loss: (params, batch) -> loss of each example, float32 [batch]; a step minimises its weighted
        mean.
      metrics: (params, batch) -> weighted sum of each metric over the batch.
      load: folder or None -> the data set.
      image_scale: value of the brightest pixel, which becomes 1.
      metric: the metric that decides, one of `metrics`.
      metric_range: values it can take.
      maximize: larger is better.
      goal: reached as soon as the metric on the validation split is strictly better.
      optimizer, schedule: the defaults.
      space: range of every hyperparameter that an optimizer or a schedule may ask for.
      batch_sizes: examples per step of each study.
      trials: points per study.
      max_steps: step budget of a trial, in optimizer updates.
      max_examples: example budget of a trial, in examples.
    """

    name: str
    init: Callable[[jax.Array], Any]
    loss: Callable[[Any, Batch], jax.Array]
    metrics: Callable[[Any, Batch], dict[str, WeightedSum]]
    load: Callable[[Path | None], Dataset]
    image_scale: float
    metric: str
    metric_range: tuple[float, float]
    maximize: bool
    goal: float
    optimizer: str
    schedule: str
    space: Mapping[str, Parameter]
    batch_sizes: tuple[int, ...]
    trials: int
    max_steps: int
    max_examples: int

    def batch(self, examples: Examples, indices: jax.Array) -> Batch:
        """The examples at some indices as a batch; works inside compiled loops."""
        image = jnp.asarray(examples.image)[indices].astype(jnp.float32) / self.image_scale
        label = jnp.asarray(examples.label)[indices].astype(jnp.int32)
        return Batch(image, label, jnp.ones(label.shape, jnp.float32))
