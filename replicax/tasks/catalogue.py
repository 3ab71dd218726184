"""The tasks that replicax knows by name: `dataset/model`, as in the published archive.

How the goals were chosen is in docs/decisions/0002.
"""

from __future__ import annotations

import difflib
from functools import partial

from replicax.errors import UserError
from replicax.models import fully_connected
from replicax.tasks.classification import classification_task
from replicax.tasks.space import Parameter
from replicax.tasks.task import Task

DEFAULT_MODELS = {"digits": "fc_64", "mnist": "fc_1024", "fashion_mnist": "fc_100"}


def _space(lowest_learning_rate: float) -> dict[str, Parameter]:
    """Ranges that held the optimum of every default batch size; decay as in the paper's example."""
    return {
        "learning_rate": Parameter(
            name="learning_rate",
            scale="log",
            low=lowest_learning_rate,
            high=10.0,
            limits=(1e-7, 1e4),
        ),
        "momentum": Parameter(
            name="momentum", scale="reverse_log", low=0.0, high=0.99, limits=(0.0, 0.99999)
        ),
        "end_learning_rate_factor": Parameter(
            name="end_learning_rate_factor", scale="log", low=1e-4, high=0.1, limits=(1e-4, 1.0)
        ),
    }


def _digits(name: str, widths: tuple[int, ...]) -> Task:
    return classification_task(
        name,
        fully_connected(64, widths, 10),
        "digits",
        16.0,
        goal=0.06,
        optimizer="nesterov",
        schedule="constant",
        space=_space(1e-3),
        batch_sizes=(1, 4, 16, 64, 256, 1024),
        trials=64,
        max_steps=5_000,
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
        space=_space(1e-4),
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
        space=_space(1e-4),
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
