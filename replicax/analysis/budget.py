"""The best measurement within a budget of steps or of examples (Shallue et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from replicax.analysis.table import check_measurements, first_in_order


def apply_step_budget(measurements: pl.DataFrame, steps: int) -> pl.DataFrame:
    """The rows with step <= steps; steps are optimizer updates."""
    if steps < 0:
        raise ValueError(f"a step budget must not be negative; got {steps}")
    return measurements.filter(pl.col("step") <= steps)


def apply_example_budget(measurements: pl.DataFrame, examples: int) -> pl.DataFrame:
    """The rows with batch_size * step <= examples; examples are counted with repetition."""
    if examples < 0:
        raise ValueError(f"an example budget must not be negative; got {examples}")
    seen = pl.col("batch_size").cast(pl.Int64) * pl.col("step").cast(pl.Int64)
    return measurements.filter(seen <= examples)


def best_measurement(
    measurements: pl.DataFrame,
    *,
    metric: str,
    maximize: bool = False,
    by: Sequence[str] = ("batch_size",),
) -> pl.DataFrame:
    """The row with the best finite metric of each batch size, over all trials and steps.

    Equal values go to the smaller step, then to the smaller trial. Apply a budget first to get
    the best measurement within it.

    Args:
      measurements: columns batch_size, trial, step (integers) and `metric`; rows in any order.
      metric: name of a column.
      maximize: whether larger is better.
      by: what makes a group; ("batch_size", "trial") gives the best of each trial.

    Returns:
      columns batch_size, step, trial, value, sorted by group; no row for a group without a
      finite value.

    Raises:
      ValueError: malformed table (see `table.check_measurements`).
    """
    check_measurements(measurements, metric)
    value = pl.col(metric).cast(pl.Float64)
    rows = measurements.select("batch_size", "step", "trial", value.alias("value"))
    rows = rows.filter(pl.col("value").is_finite())
    if rows.is_empty():
        return rows
    best = pl.col("value").max() if maximize else pl.col("value").min()
    return first_in_order(rows.filter(pl.col("value") == best.over(*by)), by)
