"""When a goal counts as reached, and the steps it took: the only home of this rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from replicax.analysis.table import check_measurements, first_in_order


def better(value: Any, goal: float, maximize: bool = False) -> NDArray[np.bool_] | np.bool_:
    """Whether a value of the metric is strictly better than the goal; NaN and None never are.

    Infinities compare like any other number, as in the published rule.

    Args:
      value: a number, None, or anything that NumPy turns into a float array.
      goal: threshold on the metric, in its unit.
      maximize: whether larger is better.

    Returns:
      booleans of the shape of `value`.
    """
    values = np.asarray(value, dtype=np.float64)
    return values > goal if maximize else values < goal


def steps_to_result(
    measurements: pl.DataFrame, goal: float, *, metric: str, maximize: bool = False
) -> pl.DataFrame:
    """Steps to result of each batch size: the first row, by (step, trial), better than the goal.

    No interpolation and no smoothing; the first crossing counts even if the metric gets worse
    later (Shallue et al. 2019, as in the authors' released code).

    Args:
      measurements: columns batch_size, trial, step (integers) and `metric`; rows in any order.
      goal: threshold on the metric, in its unit.
      metric: name of a column.
      maximize: whether larger is better.

    Returns:
      columns batch_size, step, trial, value, sorted by batch_size; no row for a batch size that
      never reached the goal.

    Raises:
      ValueError: malformed table (see `table.check_measurements`) or a goal that is NaN.
    """
    return _first(measurements, goal, metric, maximize, by=("batch_size",))


def first_reached(
    measurements: pl.DataFrame, goal: float, *, metric: str, maximize: bool = False
) -> pl.DataFrame:
    """The first step at which each trial is better than the goal; see `steps_to_result`.

    Returns:
      columns batch_size, step, trial, value, sorted by (batch_size, trial); no row for a trial
      that never reached the goal.
    """
    return _first(measurements, goal, metric, maximize, by=("batch_size", "trial"))


def _first(
    measurements: pl.DataFrame, goal: float, metric: str, maximize: bool, by: Sequence[str]
) -> pl.DataFrame:
    check_measurements(measurements, metric)
    if math.isnan(goal):
        raise ValueError("the goal must be a number; got NaN")
    reached = better(measurements[metric].to_numpy(), goal, maximize)
    rows = measurements.select("batch_size", "step", "trial", pl.col(metric).alias("value"))
    return first_in_order(rows.filter(pl.Series(reached, dtype=pl.Boolean)), by)
