"""What a running study tells those who watch."""

from __future__ import annotations

from typing import Literal, NamedTuple, Protocol

State = Literal["waiting", "measuring", "running", "done", "not reached"]


class Progress(NamedTuple):
    """One study as it stands.

    Attributes:
      running, infeasible, stopped, reached: number of trials.
      best: best value of the metric so far.
      step, max_steps: of the running wave, in optimizer updates.
      steps_to_result: None until a trial has reached the goal.
      rate: trial steps per second, summed over trials.
      seconds_left: upper bound, what the budget allows; racing usually ends earlier.
    """

    batch_size: int
    state: State
    running: int = 0
    infeasible: int = 0
    stopped: int = 0
    reached: int = 0
    best: float | None = None
    step: int = 0
    max_steps: int = 0
    steps_to_result: int | None = None
    rate: float | None = None
    seconds_left: float | None = None


class Watcher(Protocol):
    """Where a study reports; views implement it."""

    def update(self, progress: Progress) -> None: ...

    def message(self, text: str) -> None: ...
