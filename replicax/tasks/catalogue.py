"""The tasks that replicax knows by name: `dataset/model`, as in the published archive.

How the goals were chosen is in docs/decisions/0002.
"""

from __future__ import annotations

import difflib
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from replicax import data
from replicax.errors import UserError
from replicax.models import Model, fully_connected
from replicax.tasks.space import Parameter
from replicax.tasks.task import Batch, Task, WeightedSum

ERROR = "val/classification_error"
CROSS_ENTROPY = "val/cross_entropy_error"

DEFAULT_MODELS = {"digits": "fc_64", "mnist": "fc_1024", "fashion_mnist": "fc_100"}

_LEARNING_RATE = Parameter(
    name="learning_rate", scale="log", low=1e-4, high=10.0, limits=(1e-7, 1e4)
)
_MOMENTUM = Parameter(
    name="momentum", scale="reverse_log", low=0.0, high=0.99, limits=(0.0, 0.99999)
)


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


def _space(max_steps: int) -> dict[str, Parameter]:
    """Ranges that held the optimum of every default batch size; decay as in the paper's example."""
    return {
        "learning_rate": _LEARNING_RATE,
        "momentum": _MOMENTUM,
        "end_learning_rate_factor": Parameter(
            name="end_learning_rate_factor", scale="log", low=1e-4, high=0.1, limits=(1e-4, 1.0)
        ),
        "learning_rate_decay_steps": Parameter(
            name="learning_rate_decay_steps",
            scale="integer",
            low=max_steps // 2,
            high=max_steps,
            limits=(1, max_steps),
        ),
    }


def _digits(name: str, widths: tuple[int, ...]) -> Task:
    return classification_task(
        name,
        fully_connected(64, widths, 10),
        "digits",
        16.0,
        goal=0.04,
        optimizer="nesterov",
        schedule="constant",
        space=_space(10_000),
        batch_sizes=(1, 4, 16, 64, 256, 1024),
        trials=64,
        max_steps=10_000,
        max_examples=400_000,
    )


def _mnist(name: str, widths: tuple[int, ...]) -> Task:
    return classification_task(
        name,
        fully_connected(784, widths, 10),
        "mnist",
        255.0,
        goal=0.03,
        optimizer="sgd",
        schedule="constant",
        space=_space(200_000),
        batch_sizes=(4, 16, 64, 256, 1024, 4096),
        trials=32,
        max_steps=200_000,
        max_examples=55_000 * 100,
    )


def _fashion_mnist(name: str, widths: tuple[int, ...]) -> Task:
    return classification_task(
        name,
        fully_connected(784, widths, 10),
        "fashion_mnist",
        255.0,
        goal=0.135,
        optimizer="nesterov",
        schedule="constant",
        space=_space(100_000),
        batch_sizes=(4, 16, 64, 256, 1024, 4096),
        trials=32,
        max_steps=100_000,
        max_examples=55_000 * 50,
    )


_TASKS = {
    "digits/fc_64": partial(_digits, widths=(64,)),
    "fashion_mnist/fc_100": partial(_fashion_mnist, widths=(100,)),
    "mnist/fc_1024": partial(_mnist, widths=(1024,)),
    "mnist/fc_1024_1024": partial(_mnist, widths=(1024,) * 2),
    "mnist/fc_1024_1024_1024": partial(_mnist, widths=(1024,) * 3),
    "mnist/fc_64_64_64": partial(_mnist, widths=(64,) * 3),
    "mnist/fc_128_128_128": partial(_mnist, widths=(128,) * 3),
    "mnist/fc_256_256_256": partial(_mnist, widths=(256,) * 3),
    "mnist/fc_512_512_512": partial(_mnist, widths=(512,) * 3),
    "mnist/fc_2048_2048_2048": partial(_mnist, widths=(2048,) * 3),
}


def names() -> list[str]:
    """Every task, `dataset/model`."""
    return list(_TASKS)


def full_name(name: str) -> str:
    """`dataset/model`; a bare data set means its default model. Raises UserError if unknown."""
    full = f"{name}/{DEFAULT_MODELS[name]}" if name in DEFAULT_MODELS else name
    if full not in _TASKS:
        known = [*DEFAULT_MODELS, *_TASKS]
        near = difflib.get_close_matches(name, known, n=3) or known
        raise UserError(f"unknown task {name!r}; did you mean {', '.join(near)}?")
    return full


def get(name: str) -> Task:
    """The task of a name. Raises UserError if there is none, with the nearest names."""
    full = full_name(name)
    return _TASKS[full](full)
