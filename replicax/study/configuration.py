"""What defines a scaling study; two runs of one configuration give one result."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from replicax.study.executor import Executor

if TYPE_CHECKING:
    from replicax.tasks import Task

_CHOICES = ("optimizer", "schedule", "goal", "batch_sizes", "trials", "max_steps", "max_examples")


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """The choices of a scaling study.

    Attributes:
      task, optimizer, schedule: names.
      metric: what decides, on the validation split; `maximize`: larger is better.
      goal: reached as soon as the metric is strictly better.
      batch_sizes: examples per step of each study.
      trials: trials per study.
      count_feasible: `trials` counts trials that did not diverge, as in Shallue et al. 2019,
        instead of points drawn.
      max_steps: step budget of a trial, in optimizer updates.
      max_examples: example budget of a trial, in examples.
      exhaustive: every trial runs its budget.
      widen: search spaces whose best trial lies near a bound are widened.
      seed: of points, initial weights and data order.
      executor: how populations run; None to measure.
      min_gap: least number of steps between evaluations; None to measure.
    """

    task: str
    optimizer: str
    schedule: str
    metric: str
    maximize: bool
    goal: float
    batch_sizes: tuple[int, ...]
    trials: int
    max_steps: int
    max_examples: int
    count_feasible: bool = False
    exhaustive: bool = False
    widen: bool = True
    seed: int = 0
    executor: Executor | None = None
    min_gap: int | None = None

    @staticmethod
    def of(task: Task, **choices: Any) -> Configuration:
        """The study that the task suggests, with some of its choices replaced."""
        suggested: dict[str, Any] = {name: getattr(task, name) for name in _CHOICES}
        return Configuration(
            task=task.name, metric=task.metric, maximize=task.maximize, **(suggested | choices)
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Configuration:
        stored: dict[str, Any] = json.loads(text)
        stored["batch_sizes"] = tuple(stored["batch_sizes"])
        stored["executor"] = Executor(*stored["executor"]) if stored["executor"] else None
        return Configuration(**stored)

    def differences(self, other: Configuration) -> list[str]:
        """One text for each choice that differs: `name: this, not other`."""
        pairs = ((f.name, getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return [f"{name}: {mine}, not {theirs}" for name, mine, theirs in pairs if mine != theirs]

    def step_budget(self, batch_size: int) -> int:
        """Steps that both budgets allow a trial."""
        return min(self.max_steps, self.max_examples // batch_size)
