"""From a ledger to the analysis of what it holds."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

from replicax.analysis import Curve, Dimension, analyse
from replicax.study.configuration import Configuration
from replicax.study.ledger import Ledger, StudyRow


class Report(NamedTuple):
    """A scaling study as it stands in its ledger.

    Attributes:
      curve: over the studies that have ended.
      finished: every study has ended.
      configuration: what was asked for.
      execution: batch size -> executor, evaluation spacing, seconds.
      provenance: a record for every run that added to the ledger.
    """

    curve: Curve
    finished: bool
    configuration: Configuration
    execution: dict[int, dict[str, Any]]
    provenance: list[dict[str, Any]]


def report(ledger: Ledger) -> Report:
    """Analyses a ledger; a writer may be at work."""
    configuration = ledger.configuration()
    rows = {b: ledger.study(b) for b in sorted(configuration.batch_sizes)}
    ended = {b: row for b, row in rows.items() if row is not None and row.done}
    measurements = ledger.measurements().filter(pl.col("batch_size").is_in(list(ended)))
    curve = analyse(
        measurements.with_columns(pl.lit(None, pl.Float64).alias(configuration.metric))
        if configuration.metric not in measurements.columns
        else measurements,
        _trials(ended),
        task=configuration.task,
        optimizer=configuration.optimizer,
        goal=configuration.goal,
        metric=configuration.metric,
        maximize=configuration.maximize,
        spaces={b: [_dimension(p) for p in row.facts["space"]] for b, row in ended.items()},
        edges={b: row.facts["edges"] for b, row in ended.items()},
        batch_sizes=list(ended),
        seed=configuration.seed,
    )
    execution = {
        b: {k: v for k, v in row.facts.items() if k not in ("space", "edges")}
        for b, row in ended.items()
    }
    finished = len(ended) == len(rows)
    return Report(curve, finished, configuration, execution, ledger.provenance())


def _trials(studies: dict[int, StudyRow]) -> pl.DataFrame:
    rows = [
        {
            "batch_size": batch_size,
            "trial": t.trial,
            "status": t.status,
            "reason": t.reason,
            "wave": t.wave,
            "last_step": t.last_step,
            **t.hyperparameters,
        }
        for batch_size, study in studies.items()
        for t in study.trials
    ]
    schema = {
        "batch_size": pl.Int64,
        "trial": pl.Int64,
        "status": pl.String,
        "reason": pl.String,
        "wave": pl.String,
        "last_step": pl.Int64,
    }
    names = {name for row in rows for name in row} - set(schema)
    return pl.DataFrame(rows, schema=schema | dict.fromkeys(sorted(names), pl.Float64))


def _dimension(stored: dict[str, Any]) -> Dimension:
    return Dimension(**{k: stored[k] for k in ("name", "scale", "low", "high")})
