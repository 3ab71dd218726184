"""Refuses, before anything is written, what cannot work."""

from __future__ import annotations

from replicax.errors import UserError
from replicax.study.configuration import Configuration
from replicax.tasks import Task
from replicax.train import OPTIMIZERS, SCHEDULES


def check(config: Configuration, task: Task, train_size: int) -> None:
    """Raises UserError for the first choice that cannot work."""
    low, high = task.metric_range
    _known("optimizer", config.optimizer, list(OPTIMIZERS))
    _known("schedule", config.schedule, list(SCHEDULES))
    if not low < config.goal < high:
        raise UserError(
            f"the goal must lie between {low:g} and {high:g}, the range of {task.metric}; "
            f"got {config.goal:g}; give another --goal (default {task.goal:g})"
        )
    for name in ("trials", "max_steps", "max_examples", "min_gap"):
        value = getattr(config, name)
        if value is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} must be at least 1; got {value}")
    if not 0 <= config.seed < 2**32:
        raise UserError(f"--seed must be between 0 and {2**32 - 1}; got {config.seed}")
    _check_batch_sizes(config, train_size)


def _check_batch_sizes(config: Configuration, train_size: int) -> None:
    if not config.batch_sizes:
        raise UserError("at least one batch size is needed; give --batch-sizes 16,64,256")
    repeated = sorted({b for b in config.batch_sizes if config.batch_sizes.count(b) > 1})
    if repeated:
        raise UserError(f"every batch size may stand once; given twice: {repeated}")
    for batch_size in config.batch_sizes:
        if not 1 <= batch_size <= train_size:
            raise UserError(
                f"a batch size must be between 1 and {train_size}, the training examples of "
                f"{config.task}; got {batch_size}; change --batch-sizes"
            )
        if config.step_budget(batch_size) < 1:
            raise UserError(
                f"the example budget must cover one step at every batch size; got --max-examples "
                f"{config.max_examples} at batch size {batch_size}; raise it or drop that size"
            )


def _known(kind: str, name: str, names: list[str]) -> None:
    if name not in names:
        raise UserError(f"unknown {kind} {name!r}; known: {', '.join(names)}")
