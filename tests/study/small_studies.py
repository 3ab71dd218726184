"""Small real studies: digits, few trials, and a fixed executor, so that bits can match."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from replicax import tasks
from replicax.study.configuration import Configuration
from replicax.study.executor import Executor
from replicax.study.ledger import Ledger
from replicax.study.programs import Programs
from replicax.study.report import Report, report
from replicax.study.run import Study
from replicax.tasks import Parameter, Task
from replicax.train import make_optimizer


class Watch:
    """Keeps what a study reports."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def update(self, progress: Any) -> None:
        self.seen.append(progress)

    def message(self, text: str) -> None:
        self.seen.append(text)


def task(**changes: Any) -> Task:
    """The digits task, or a variant of it."""
    return replace(tasks.get("digits"), **changes)


def configuration(**changes: Any) -> Configuration:
    """Eight trials at batch size 64, with executor and evaluation spacing fixed."""
    chosen: dict[str, Any] = {
        "task": "digits/fc_64",
        "optimizer": "nesterov",
        "schedule": "constant",
        "metric": "val/classification_error",
        "maximize": False,
        "goal": 0.1,
        "batch_sizes": (64,),
        "trials": 8,
        "count_feasible": False,
        "max_steps": 120,
        "max_examples": 10**6,
        "exhaustive": False,
        "widen": True,
        "seed": 0,
        "executor": Executor("scan", 4, 2),
        "min_gap": 1,
    }
    return Configuration(**(chosen | changes))


def run(folder: Path, config: Configuration, of: Task | None = None, stop: Any = None) -> Report:
    """Runs every study of a configuration, and reports."""
    learned = of or task()
    data = learned.load(None)
    optimizer = make_optimizer(config.optimizer, config.schedule)
    with Ledger.create_or_resume(folder, config) as ledger:
        for batch_size in config.batch_sizes:
            programs = Programs(learned, optimizer, data, batch_size=batch_size, seed=config.seed)
            Study(learned, config, programs, ledger).run(Watch(), stop or (lambda: None))
        return report(ledger)


def learning_rates(low: float, high: float) -> dict[str, Parameter]:
    """A space with another range of learning rates."""
    space = dict(task().space)
    space["learning_rate"] = Parameter(
        name="learning_rate", scale="log", low=low, high=high, limits=(1e-30, 1e30)
    )
    return space
