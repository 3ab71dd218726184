"""From the tables of a scaling study to its curve: every record that a view needs, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from replicax.analysis.budget import best_measurement
from replicax.analysis.interval import (
    MIN_TRIALS,
    Finishers,
    crossings,
    resample_steps,
    steps_interval,
)
from replicax.analysis.records import Curve, Dimension, Point, Trial, TrialCounts
from replicax.analysis.result import first_reached, steps_to_result
from replicax.analysis.scaling import Scaling, estimate_batch_sizes
from replicax.analysis.table import check_measurements, check_trials

RESAMPLES = 1000
_FIXED = ("batch_size", "trial", "status", "reason", "wave", "last_step")
_STATUSES = ("running", "complete", "infeasible", "stopped")


def analyse(
    measurements: pl.DataFrame,
    trials: pl.DataFrame,
    *,
    task: str,
    optimizer: str,
    goal: float,
    metric: str,
    maximize: bool = False,
    spaces: Mapping[int, Sequence[Dimension]],
    edges: Mapping[int, Sequence[str]] | None = None,
    batch_sizes: Sequence[int],
    seed: int = 0,
) -> Curve:
    """The curve of one workload.

    Every trial's measurements count, whatever became of it later: a trial that reached the goal and
    diverged afterwards has reached it. Batch sizes whose best trial lies at an edge of the search
    space are shown but not fitted, since a wider space might have taken fewer steps.

    Args:
      measurements: batch_size, trial, step, and one column for each metric.
      trials: batch_size, trial, status, reason, wave, last_step; each other column is a
        hyperparameter, null where a trial has none of that name.
      task, optimizer: names of the two parts of the workload.
      goal: threshold on the metric, in its unit.
      metric: a column of `measurements`.
      maximize: whether larger is better.
      spaces: the search space at the end, by batch size.
      edges: the bounds that the best trial lies near, by batch size; none if absent.
      batch_sizes: the studies to report, in examples per step; one without trials has no result.
      seed: of the resampling behind the intervals of the estimates.

    Raises:
      ValueError: malformed tables, unknown statuses, measurements without their trial.
    """
    _check(measurements, trials, metric)
    wanted = sorted(set(batch_sizes))
    measurements, trials = _select(measurements, wanted), _select(trials, wanted)
    rule: dict[str, Any] = {"metric": metric, "maximize": maximize}
    runs = _runs(measurements, trials, goal, rule)
    finishers = _finishers(crossings(measurements, goal, **rule), runs)
    results = {r["batch_size"]: r for r in steps_to_result(measurements, goal, **rule).to_dicts()}
    points = tuple(
        _point(
            b,
            results.get(b),
            finishers.get(b),
            runs.get(b, ()),
            spaces.get(b, ()),
            tuple((edges or {}).get(b, ())),
            maximize,
        )
        for b in wanted
    )
    return Curve(
        task=task,
        optimizer=optimizer,
        metric=metric,
        maximize=maximize,
        goal=goal,
        points=points,
        **_scaling(points, finishers, seed)._asdict(),
    )


def _select(table: pl.DataFrame, batch_sizes: Sequence[int]) -> pl.DataFrame:
    rows = table.filter(pl.col("batch_size").is_in(batch_sizes))
    return rows.with_columns(pl.col("batch_size", "trial").cast(pl.Int64))


def _check(measurements: pl.DataFrame, trials: pl.DataFrame, metric: str) -> None:
    check_measurements(measurements, metric)
    check_trials(trials)
    unknown = set(trials["status"].to_list()) - set(_STATUSES)
    if unknown:
        raise ValueError(f"status must be one of {_STATUSES}; got {sorted(unknown, key=str)}")
    for name in _hyperparameters(trials):
        if not (trials[name].dtype.is_numeric() or trials[name].dtype == pl.Null):
            raise ValueError(
                f"a hyperparameter must be numeric; {name!r} is {trials[name].dtype}: cast it"
            )
    keys = [pl.col("batch_size", "trial").cast(pl.Int64)]
    known, measured = trials.select(keys), measurements.select(keys).unique()
    orphans = measured.join(known, on=known.columns, how="anti")
    if orphans.height:
        raise ValueError(
            f"every measured trial must be in trials; {orphans.height} are not, among them"
            f" {orphans.sort(known.columns).row(0, named=True)}"
        )


def _runs(
    measurements: pl.DataFrame, trials: pl.DataFrame, goal: float, rule: Mapping[str, Any]
) -> dict[int, tuple[Trial, ...]]:
    """Every trial, by batch size and in the order of its number."""
    keys = ["batch_size", "trial"]
    reached = first_reached(measurements, goal, **rule)
    best = best_measurement(measurements, by=keys, **rule)
    names = _hyperparameters(trials)
    table = (
        trials.with_columns(pl.col(names).cast(pl.Float64))
        .join(reached.select(*keys, pl.col("step").alias("_reached")), on=keys, how="left")
        .join(best.select(*keys, pl.col("value").alias("_best")), on=keys, how="left")
        .sort(keys)
    )
    runs: dict[int, list[Trial]] = {}
    for row in table.iter_rows(named=True):
        trial = Trial(
            trial=row["trial"],
            status=row["status"],
            reason=row["reason"],
            wave=row["wave"],
            hyperparameters={n: row[n] for n in names if row[n] is not None},
            last_step=row["last_step"],
            reached=row["_reached"],
            best=row["_best"],
        )
        runs.setdefault(row["batch_size"], []).append(trial)
    return {b: tuple(r) for b, r in runs.items()}


def _hyperparameters(trials: pl.DataFrame) -> list[str]:
    return [c for c in trials.columns if c not in _FIXED]


def _finishers(crossed: pl.DataFrame, runs: Mapping[int, Sequence[Trial]]) -> dict[int, Finishers]:
    """By batch size. Trials that still run count only once they have reached the goal."""
    found = {}
    for b, trials in runs.items():
        rows = crossed.filter(pl.col("batch_size") == b)
        ended = [t for t in trials if t.status != "running" or t.reached is not None]
        found[b] = Finishers(
            steps=rows["step"].to_numpy(),
            previous=rows["previous"].to_numpy(),
            n_trials=len(ended),
            last_step=max((t.last_step for t in trials), default=0),
        )
    return found


def _point(
    batch_size: int,
    result: Mapping[str, Any] | None,
    finishers: Finishers | None,
    runs: tuple[Trial, ...],
    space: Sequence[Dimension],
    edges: tuple[str, ...],
    maximize: bool,
) -> Point:
    """One study; `result` is its row of `steps_to_result`."""
    if finishers is None:
        finishers = Finishers(np.zeros(0, np.int64), np.zeros(0, np.int64), 0, 0)
    low, high, note = steps_interval(finishers)
    finite = [r.best for r in runs if r.best is not None]
    ended = [r.status for r in runs]
    return Point(
        batch_size=batch_size,
        steps=result["step"] if result else None,
        trial=result["trial"] if result else None,
        value=result["value"] if result else None,
        interval=(low, high),
        interval_note=note,
        at_edge=bool(edges),
        edges=edges,
        best=(max if maximize else min)(finite) if finite else None,
        trials=TrialCounts(
            complete=ended.count("complete"),
            infeasible=ended.count("infeasible"),
            stopped=ended.count("stopped"),
        ),
        runs=runs,
        space=tuple(space),
    )


def _scaling(points: Sequence[Point], finishers: Mapping[int, Finishers], seed: int) -> Scaling:
    """Fit and estimates from the points with a result inside their search space."""
    steps = {p.batch_size: p.steps for p in points if p.steps is not None and not p.at_edge}
    studies = [finishers[b] for b in steps]
    few = [b for b, s in zip(steps, studies, strict=True) if s.n_trials < MIN_TRIALS]
    refusal = f"too few trials: fewer than {MIN_TRIALS} at batch size {_listed(few)}"
    found = estimate_batch_sizes(
        list(steps),
        list(steps.values()),
        resample_steps(studies, RESAMPLES, seed=seed),
        refusal=refusal if few else None,
    )
    at_edge = [p.batch_size for p in points if p.steps is not None and p.at_edge]
    if not at_edge:
        return found
    note = f"; batch size {_listed(at_edge)} not used: optimum at the edge of the search space"
    return Scaling(
        found.fit, *(replace(e, reason=e.reason + note) if e.reason else e for e in found[1:])
    )


def _listed(batch_sizes: Sequence[int]) -> str:
    return ", ".join(map(str, batch_sizes))
