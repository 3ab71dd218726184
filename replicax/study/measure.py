"""Which executor is fastest for this task, at this batch size, on this machine: measured.

How a population is fastest depends on model, batch size and hardware, and the difference is tenfold
in both directions. A compiled loop beats one call per step where the steps are short, and loses
where the compiler gives loops a slow path; trials side by side share overheads, and thrash caches;
two groups at a time use two cores, or fight for them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jax

from replicax.study.executor import Executor
from replicax.study.programs import UNROLL, Programs, Slots

_SECONDS = 0.15  # measured time per candidate
_GAIN = 1.05  # whatever is less simple must be this much faster


class Speed(NamedTuple):
    """What a measurement found.

    Attributes:
      executor: the fastest one.
      trial_steps_per_second: of the population, summed over its trials.
      seconds_per_step: of one trial's step, at that speed.
      seconds_per_evaluation: of one trial's evaluation, at that speed.
      candidates: executor, as text -> trial steps per second.
    """

    executor: Executor
    trial_steps_per_second: float
    seconds_per_step: float
    seconds_per_evaluation: float
    candidates: dict[str, float]

    def __str__(self) -> str:
        others = [f"{e} {v:,.0f}" for e, v in self.candidates.items() if e != str(self.executor)]
        text = f"{self.executor} makes {self.trial_steps_per_second:,.0f} trial steps/s"
        return f"{text} ({', '.join(others)})" if others else text


def fastest_executor(
    programs: Programs,
    point: dict[str, float],
    trials: int,
    fixed: Executor | None = None,
    check: Callable[[], None] = lambda: None,
) -> Speed:
    """Tries executors, from the simplest, and follows what pays.

    Args:
      programs: of the study.
      point: hyperparameters to run with; speed does not depend on them.
      trials: trials of the study; no group is larger.
      fixed: measure this one only.
      check: called before each candidate; may raise.
    """
    speeds: dict[Executor, float] = {}

    def speed(executor: Executor) -> float:
        check()
        if executor not in speeds:
            speeds[executor] = _trial_steps_per_second(programs, executor, point)
        return speeds[executor]

    best = fixed or _climb(speed, trials)
    evaluation = _seconds_per_evaluation(programs, best, point)
    return Speed(
        executor=best,
        trial_steps_per_second=speed(best),
        seconds_per_step=1 / speed(best),
        seconds_per_evaluation=evaluation,
        candidates={str(e): round(v, 1) for e, v in speeds.items()},
    )


def _climb(speed: Callable[[Executor], float], trials: int) -> Executor:
    """The loop first, then more streams, then larger groups, each only if it pays."""

    def pays(candidate: Executor, best: Executor) -> bool:
        return speed(candidate) > _GAIN * speed(best)

    best = Executor("scan", 1, 1)
    if pays(best._replace(loop="dispatch"), best):
        best = best._replace(loop="dispatch")
        if pays(best._replace(loop="unrolled"), best):
            best = best._replace(loop="unrolled")
    streams = min(_cores(), trials)
    if streams > 1 and pays(best._replace(streams=streams), best):
        best = best._replace(streams=streams)
    while best.size * 4 <= trials:
        sizes = (best._replace(size=best.size * 4, streams=n) for n in {1, best.streams})
        larger = max(sizes, key=speed)
        if not pays(larger, best):
            break
        best = larger
    return best


def _cores() -> int:
    """Streams pay only where groups share the cores of the host."""
    if jax.default_backend() != "cpu":
        return 1
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _groups(programs: Programs, executor: Executor, point: dict[str, float]) -> list[Slots]:
    start = programs.start(list(range(executor.size)), [point] * executor.size)
    return [jax.tree.map(lambda a: a.copy(), start) for _ in range(executor.streams)]


def _trial_steps_per_second(
    programs: Programs, executor: Executor, point: dict[str, float]
) -> float:
    groups = _groups(programs, executor, point)
    unit = UNROLL if executor.loop == "unrolled" else 1

    def steps(slots: Slots, count: int) -> Slots:
        return jax.block_until_ready(programs.advance(slots, 0, count, executor.loop))

    def first(count: int) -> None:
        groups[0] = steps(groups[0], count)

    first(unit)  # compiles
    count = max(1, round(_SECONDS / 3 / _timed(lambda: first(unit)))) * unit
    with ThreadPoolExecutor(executor.streams) as pool:

        def all_groups() -> None:
            groups[:] = pool.map(lambda slots: steps(slots, count), groups)

        seconds = min(_timed(all_groups) for _ in range(3))
    return executor.streams * executor.size * count / seconds


def _seconds_per_evaluation(
    programs: Programs, executor: Executor, point: dict[str, float]
) -> float:
    groups = _groups(programs, executor, point)
    programs.evaluate(groups[0])  # compiles
    with ThreadPoolExecutor(executor.streams) as pool:
        seconds = min(_timed(lambda: list(pool.map(programs.evaluate, groups))) for _ in range(3))
    return seconds / (executor.streams * executor.size)


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
