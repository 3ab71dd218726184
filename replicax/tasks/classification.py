"""Softmax classification of images: the kind of task that the catalogue consists of so far."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from replicax import data
from replicax.data import Batch
from replicax.models import Model
from replicax.replicate import WeightedSum
from replicax.tasks.task import Task

ERROR = "val/classification_error"
CROSS_ENTROPY = "val/cross_entropy_error"


def classification_task(
    name: str, model: Model, dataset: str, image_scale: float, **choices: Any
) -> Task:
    """Softmax classification of a data set: cross-entropy loss, error as the deciding metric."""

    def loss(params: Any, batch: Batch) -> jax.Array:
        logits = model.apply(params, batch.image)
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch.label)

    def metrics(params: Any, batch: Batch) -> dict[str, WeightedSum]:
        logits = model.apply(params, batch.image)
        wrong = jnp.argmax(logits, axis=-1) != batch.label
        entropy = optax.softmax_cross_entropy_with_integer_labels(logits, batch.label)
        weight = batch.weight.sum()
        return {
            ERROR: WeightedSum(jnp.vdot(wrong.astype(jnp.float32), batch.weight), weight),
            CROSS_ENTROPY: WeightedSum(jnp.vdot(entropy, batch.weight), weight),
        }

    return Task(
        name=name,
        init=model.init,
        loss=loss,
        metrics=metrics,
        load=partial(data.load, dataset),
        image_scale=image_scale,
        metric=ERROR,
        metric_range=(0.0, 1.0),
        maximize=False,
        **choices,
    )
