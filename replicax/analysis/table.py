"""The two input tables: what they must hold, and the one order in which their rows compete.

`measurements` has one row for each evaluation: `batch_size` (examples per step), `trial`, `step`
(optimizer updates so far), and one float column for each metric. `trials` has one row for each
trial. Both are polars DataFrames.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

KEYS = ("batch_size", "trial", "step")


def check_measurements(measurements: pl.DataFrame, metric: str) -> None:
    """Checks the key columns, their uniqueness and the metric column; about 20 ns a row.

    Raises:
      ValueError: a column is missing or of the wrong type, a key is null, or two rows share
        (batch_size, trial, step).
    """
    _check_columns(measurements, KEYS, "measurements")
    if metric not in measurements.columns:
        known = sorted(set(measurements.columns) - set(KEYS))
        raise ValueError(f"the metric must be a column of measurements; got {metric!r}, of {known}")
    if not measurements[metric].dtype.is_numeric() and measurements[metric].dtype != pl.Null:
        raise ValueError(
            f"a metric must be numeric; {metric!r} is {measurements[metric].dtype}: cast it first"
        )
    _check_unique(measurements, KEYS, "measurements")


def check_trials(trials: pl.DataFrame) -> None:
    """Checks that `trials` has its key columns and one row for each (batch_size, trial).

    Raises:
      ValueError: a column is missing or of the wrong type, a key is null, or a trial comes twice.
    """
    _check_columns(trials, ("batch_size", "trial"), "trials")
    missing = [c for c in ("status", "reason", "wave", "last_step") if c not in trials.columns]
    if missing:
        raise ValueError(f"trials must have the columns {missing}; got {trials.columns}")
    _check_unique(trials, ("batch_size", "trial"), "trials")


def first_in_order(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The first row of each group in the order of (step, trial), sorted by group.

    Args:
      rows: any table with the key columns.
      by: columns that make a group.
    """
    if rows.is_empty():
        return rows
    earliest = rows.filter(pl.col("step") == pl.col("step").min().over(*by))
    return earliest.sort(*by, "step", "trial").unique(
        subset=list(by), keep="first", maintain_order=True
    )


def _check_columns(table: pl.DataFrame, columns: Sequence[str], name: str) -> None:
    missing = [c for c in columns if c not in table.columns]
    if missing:
        raise ValueError(f"{name} must have the columns {missing}; got {table.columns}")
    for c in columns:
        if not table[c].dtype.is_integer():
            raise ValueError(f"{name}: {c!r} must hold integers; got {table[c].dtype}: cast it")
        if table[c].null_count():
            raise ValueError(
                f"{name}: {c!r} must not be null; got {table[c].null_count()} nulls: drop them"
            )


def _check_unique(table: pl.DataFrame, columns: Sequence[str], name: str) -> None:
    """Raises if two rows share the columns. Tables sorted by them are checked in one pass."""
    if table.height < 2 or _distinct(table, columns):
        return
    keys = table.select(columns)
    row = keys.row(int(np.flatnonzero(keys.is_duplicated().to_numpy())[0]), named=True)
    raise ValueError(
        f"{name}: one row for each {tuple(columns)}; got two or more with {row}: keep one of them"
    )


def _distinct(table: pl.DataFrame, columns: Sequence[str]) -> bool:
    packed, size = np.zeros(table.height, np.int64), 1
    for c in columns:
        values = table[c].to_numpy()
        low = int(values.min())
        span = int(values.max()) - low + 1
        size *= span
        if size >= 2**63:  # the keys do not fit one integer
            return table.select(columns).n_unique() == table.height
        packed = packed * span + (values - low)
    if (packed[1:] > packed[:-1]).all():
        return True
    return pl.Series(packed).n_unique() == table.height
