"""One study: waves of trials race to the goal at one batch size.

All trials of a wave advance in lockstep and are evaluated at the same steps. A trial that reaches
the goal is complete. Once `finishers_needed` trials of the study have reached it, the others are
stopped: they cannot change the result any more, nor its interval (docs/decisions/0003). With
`exhaustive` every trial runs its budget instead; the result is the same.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import polars as pl

from replicax.analysis import finishers_needed, first_reached
from replicax.study.configuration import Configuration
from replicax.study.evaluations import Evaluations, affordable
from replicax.study.executor import Executor
from replicax.study.ledger import Ledger
from replicax.study.measure import fastest_executor
from replicax.study.points import points, search_space
from replicax.study.population import Evaluation, Population
from replicax.study.programs import Programs
from replicax.study.progress import Progress, State, Watcher
from replicax.study.trials import TrialRow
from replicax.study.waves import INITIAL, Rules, near_edges, next_wave
from replicax.tasks import Parameter, Space, Task

_COMMIT_SECONDS = (0.5, 30.0)  # between commits, at least and at most
_COMMIT_SHARE = 0.05  # of the time that a kill may cost; and that commits may take, of large nets

Stop = Callable[[], str | None]  # why to stop now, if at all


class Stopped(Exception):
    """The run was asked to stop; everything so far is in the ledger. The message says why."""


class Study:
    """One study, from its beginning or from where the ledger left it, to its end."""

    def __init__(
        self, task: Task, configuration: Configuration, programs: Programs, ledger: Ledger
    ) -> None:
        self.batch_size = programs.batch_size
        self._configuration = configuration
        self._programs = programs
        self._ledger = ledger
        self._budget = configuration.step_budget(self.batch_size)
        self._space: Space = search_space(task, configuration, self.batch_size)
        self._trials: list[TrialRow] = []
        self._step = 0
        self._facts: dict[str, Any] = {}
        self._new_rows: list[dict[str, Any]] = []
        self._committed = time.monotonic()
        self._commit_after = _COMMIT_SECONDS[0]
        self._rate: float | None = None

    def run(self, watcher: Watcher, stop: Stop) -> None:
        """Runs to the end. Raises Stopped as soon as `stop` gives a reason."""
        stored = self._ledger.study(self.batch_size, with_snapshot=True)
        if stored is not None:
            self._facts, self._trials, self._step = stored.facts, stored.trials, stored.step
            self._space = tuple(_parameter(p) for p in stored.facts["space"])
            if stored.done:
                watcher.update(self._progress("done" if self._reached() else "not reached"))
                return
        else:
            watcher.update(self._progress("measuring"))
            self._facts = self._measured(watcher, stop)
        executor = Executor(*self._facts["executor"])
        if stored is not None and stored.snapshot is not None:
            running = {t.trial: t.hyperparameters for t in self._trials if t.status == "running"}
            population = Population.from_arrays(self._programs, executor, running, stored.snapshot)
            self._race(population, watcher, stop)
        while new := self._next_wave():
            population = Population.start(self._programs, executor, new)
            self._record(population.advance(0, 0), 0)
            self._race(population, watcher, stop)
        self._commit(None, done=True)
        watcher.update(self._progress("done" if self._reached() else "not reached"))

    def _measured(self, watcher: Watcher, stop: Stop) -> dict[str, Any]:
        """Executor and evaluation spacing: measured, unless the configuration fixes them."""
        fixed = self._configuration
        facts: dict[str, Any] = {"seconds": 0.0, "measured": None, "evaluated": 0}
        executor = fixed.executor
        evaluations = None if fixed.min_gap is None else Evaluations(0, fixed.min_gap)
        if executor is None or evaluations is None:
            (point,) = points(
                self._space, 1, seed=fixed.seed, batch_size=self.batch_size, wave=INITIAL
            )
            speed = fastest_executor(
                self._programs, point, fixed.trials, executor, check=partial(_check, stop)
            )
            executor = speed.executor
            evaluations = evaluations or affordable(
                fixed.trials, speed.seconds_per_step, speed.seconds_per_evaluation
            )
            facts["measured"] = speed._asdict()
            watcher.message(f"batch size {self.batch_size:,}: {speed}")
        return facts | {"executor": list(executor), "evaluations": list(evaluations)}

    def _next_wave(self) -> dict[int, Any] | None:
        """Adds the next wave's trials; returns their points, None if the study has ended."""
        c = self._configuration
        rules = Rules(c.trials, c.count_feasible, c.widen, c.seed, self.batch_size)
        wave = next_wave(rules, self._space, self._trials, self._best_trial())
        if wave is None:
            return None
        self._trials += wave.trials
        self._space, self._step, self._facts["evaluated"] = wave.space, 0, 0
        return {t.trial: t.hyperparameters for t in wave.trials}

    def _race(self, population: Population, watcher: Watcher, stop: Stop) -> None:
        evaluations = Evaluations(*self._facts["evaluations"])
        while population.trials and self._step < self._budget and not self._decided():
            watcher.update(self._progress("running"))
            try:
                _check(stop)
            except Stopped:
                self._commit(population, done=False)
                raise
            begin = time.perf_counter()
            to = evaluations.next(self._step, self._facts["evaluated"], self._budget)
            evaluated = population.advance(self._step, to)
            seconds = time.perf_counter() - begin
            self._observe_rate(len(evaluated) * (to - self._step), seconds)
            self._record(evaluated, to)
            population.keep({t.trial for t in self._trials if self._runs(t)})
            if time.monotonic() - self._committed > self._commit_after:
                self._commit(population, done=False)
        ended = "complete" if self._step >= self._budget else "stopped"
        self._trials = [
            replace(t, status=ended if t.reached is None else "complete")
            if t.status == "running"
            else t
            for t in self._trials
        ]

    def _record(self, evaluations: dict[int, Evaluation], step: int) -> None:
        """Takes in one evaluation of every running trial."""
        self._step = step
        self._facts["evaluated"] += 1
        rows = []
        for trial, evaluation in evaluations.items():
            row = replace(self._trials[trial], last_step=step)
            reason = _divergence(evaluation, step)
            if reason is not None:
                at = evaluation.diverged_at or step
                row = replace(row, status="infeasible", reason=reason, last_step=at)
            else:
                value = evaluation.metrics[self._configuration.metric]
                row = replace(row, best=self._better(row.best, value))
                keys = {"batch_size": self.batch_size, "trial": trial, "step": step}
                rows.append(keys | evaluation.metrics)
            self._trials[trial] = row
        self._new_rows += rows
        for trial in self._first_to_reach(rows):
            row = self._trials[trial]
            if row.reached is None:
                status = row.status if self._configuration.exhaustive else "complete"
                self._trials[trial] = replace(row, reached=step, status=status)

    def _first_to_reach(self, rows: list[dict[str, Any]]) -> list[int]:
        if not rows:
            return []
        c = self._configuration
        found = first_reached(pl.DataFrame(rows), c.goal, metric=c.metric, maximize=c.maximize)
        trials: list[int] = found["trial"].to_list()
        return trials

    def _runs(self, trial: TrialRow) -> bool:
        return trial.status == "running"

    def _decided(self) -> bool:
        """Whether the running trials can no longer change the result or its interval."""
        needed = finishers_needed(len(self._trials))
        finished = [step for step, _ in self._reached() if step <= self._step]
        return not self._configuration.exhaustive and len(finished) >= needed

    def _reached(self) -> list[tuple[int, TrialRow]]:
        """(steps, trial) of those that reached the goal, the fastest first."""
        reached = [(t.reached, t) for t in self._trials if t.reached is not None]
        return sorted(reached, key=lambda pair: (pair[0], pair[1].trial))

    def _best_trial(self) -> TrialRow | None:
        """The trial of the result; the one with the best metric where there is no result."""
        if reached := self._reached():
            return reached[0][1]
        sign = -1 if self._configuration.maximize else 1
        measured = [(sign * t.best, t.trial) for t in self._trials if t.best is not None]
        return self._trials[min(measured)[1]] if measured else None

    def _better(self, a: float | None, b: float | None) -> float | None:
        if a is None or b is None:
            return b if a is None else a
        return max(a, b) if self._configuration.maximize else min(a, b)

    def _commit(self, population: Population | None, *, done: bool) -> None:
        best = self._best_trial()
        now = time.monotonic()
        self._facts["seconds"] += now - self._committed
        self._facts["space"] = [asdict(p) for p in self._space]
        self._facts["edges"] = [
            f"{self._space[i].name} {side}" for i, side in near_edges(self._space, best)
        ]
        self._ledger.commit(
            self.batch_size,
            step=self._step,
            facts=self._facts,
            trials=self._trials,
            measurements=self._new_rows,
            snapshot=None if population is None else population.to_arrays(),
            done=done,
        )
        self._new_rows = []
        self._committed = now
        least, most = _COMMIT_SECONDS
        at_risk = min(max(_COMMIT_SHARE * self._facts["seconds"], least), most)
        self._commit_after = max(at_risk, (time.monotonic() - now) / _COMMIT_SHARE)

    def _observe_rate(self, trial_steps: int, seconds: float) -> None:
        rate = trial_steps / seconds
        self._rate = rate if self._rate is None else 0.8 * self._rate + 0.2 * rate

    def _progress(self, state: State) -> Progress:
        count = {
            s: sum(t.status == s for t in self._trials)
            for s in ("running", "infeasible", "stopped")
        }
        reached = self._reached()
        left = (self._budget - self._step) * count["running"]
        best: float | None = None
        for t in self._trials:
            best = self._better(best, t.best)
        return Progress(
            batch_size=self.batch_size,
            state=state,
            running=count["running"],
            infeasible=count["infeasible"],
            stopped=count["stopped"],
            reached=len(reached),
            best=best,
            step=self._step,
            max_steps=self._budget,
            steps_to_result=reached[0][0] if reached else None,
            rate=self._rate,
            seconds_left=left / self._rate if self._rate else None,
        )


def _check(stop: Stop) -> None:
    if reason := stop():
        raise Stopped(reason)


def _divergence(evaluation: Evaluation, step: int) -> str | None:
    if evaluation.diverged_at:
        return f"loss not finite at step {evaluation.diverged_at}"
    for name, value in evaluation.metrics.items():
        if not math.isfinite(value):
            return f"{name} not finite at step {step}"
    return None


def _parameter(stored: dict[str, Any]) -> Parameter:
    lists = {"limits": tuple(stored["limits"]), "points": tuple(stored["points"])}
    return Parameter(**(stored | lists))
