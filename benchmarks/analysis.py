"""Times the analysis; prints JSON, seconds, best of five.

`steps_to_result` runs on 1.3 million rows, sorted and shuffled, beside the same rule in plain
pandas if it can be imported, and on a frame as small as one evaluation of a study. `refits` is a
thousand bootstrap fits of 13 batch sizes; `analyse` makes the whole curve from the large table.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

import numpy as np
import polars as pl

from replicax.analysis import analyse, critical_batch_sizes, steps_to_result

METRIC, GOAL = "val/classification_error", 0.3
SIZES, TRIALS, EVALUATIONS = 2 ** np.arange(1, 14), 100, 1000


def best_of_five(function: Callable[[], object]) -> float:
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return round(min(seconds), 6)


def study() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Noisy exponential decay, faster at larger batch sizes and at some trials than at others."""
    rng = np.random.default_rng(0)
    sizes = np.repeat(SIZES, TRIALS)
    trials = np.tile(np.arange(TRIALS), SIZES.size)
    steps = np.arange(1, EVALUATIONS + 1) * 10
    slow = (1 + 300 / sizes) * (1 + rng.random(sizes.size))
    error = np.exp(-steps / (20 * slow[:, None])) + 0.02 * rng.random((sizes.size, EVALUATIONS))
    measurements = pl.DataFrame(
        {
            "batch_size": np.repeat(sizes, EVALUATIONS),
            "trial": np.repeat(trials, EVALUATIONS),
            "step": np.tile(steps, sizes.size),
            METRIC: error.ravel(),
        }
    )
    rows = pl.DataFrame({"batch_size": sizes, "trial": trials}).with_columns(
        status=pl.lit("complete"),
        reason=pl.lit(None, pl.String),
        wave=pl.lit("initial"),
        last_step=pl.lit(int(steps[-1])),
    )
    return measurements, rows


def pandas_seconds(measurements: pl.DataFrame) -> dict[str, float]:
    """The rule as one would write it in pandas; the conversion is not timed."""
    try:
        import pandas as pd
    except ImportError:
        return {}
    frame = pd.DataFrame({c: measurements[c].to_numpy() for c in measurements.columns})

    def result() -> object:
        ordered = frame.sort_values(["batch_size", "step", "trial"])
        return ordered[ordered[METRIC] < GOAL].groupby("batch_size").first()

    def filtered_first() -> object:
        reached = frame[frame[METRIC] < GOAL]
        return reached.sort_values(["batch_size", "step", "trial"]).groupby("batch_size").first()

    return {
        "pandas_sort_then_filter": best_of_five(result),
        "pandas_filter_then_sort": best_of_five(filtered_first),
    }


def main() -> None:
    measurements, trials = study()
    shuffled = measurements.sample(fraction=1, shuffle=True, seed=0)
    evaluation = measurements.group_by("batch_size", "trial").last()[:100]
    draws = np.exp(0.2 * np.random.default_rng(1).normal(size=(1000, SIZES.size)))
    report = {
        "rows": measurements.height,
        "cpus": os.cpu_count(),
        "polars": pl.__version__,
        "seconds": {
            "steps_to_result": best_of_five(
                lambda: steps_to_result(measurements, GOAL, metric=METRIC)
            ),
            "steps_to_result_shuffled": best_of_five(
                lambda: steps_to_result(shuffled, GOAL, metric=METRIC)
            ),
            "steps_to_result_100_rows": best_of_five(
                lambda: steps_to_result(evaluation, GOAL, metric=METRIC)
            ),
            **pandas_seconds(measurements),
            "refits": best_of_five(lambda: critical_batch_sizes(SIZES, draws * (1 + 300 / SIZES))),
            "analyse": best_of_five(
                lambda: analyse(
                    measurements,
                    trials,
                    task="synthetic",
                    optimizer="none",
                    goal=GOAL,
                    metric=METRIC,
                    spaces={},
                    batch_sizes=SIZES.tolist(),
                )
            ),
        },
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
