"""What racing saves: the steps of a raced study as a share of those of the exhaustive one.

Runs the same scaling study twice, raced and exhaustive, with one executor and one spacing of
evaluations so that bits can match, checks that rows and intervals agree, and prints JSON:

    python benchmarks/racing.py fashion_mnist --out runs/racing --data-dir FOLDER

The exhaustive run takes most of the time: half an hour for fashion_mnist on two cores. Both studies
are in the folder afterwards, and an interrupted benchmark goes on from there.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from replicax import tasks
from replicax.analysis import Curve
from replicax.study.configuration import Configuration
from replicax.study.executor import Executor
from replicax.study.ledger import Ledger
from replicax.study.report import report
from replicax.study.scaling_study import run
from replicax.views.live import watcher


def measured_curve(configuration: Configuration, folder: Path, data_folder: Path | None) -> Curve:
    with watcher(sys.stderr, configuration.batch_sizes) as watching:
        run(tasks.get(configuration.task), configuration, folder, watching, data_folder=data_folder)
    with Ledger.read(folder) as ledger:
        return report(ledger).curve


def compare(raced: Curve, exhaustive: Curve) -> list[dict[str, Any]]:
    rows = []
    for fast, full in zip(raced.points, exhaustive.points, strict=True):
        trial_steps = [sum(run.last_step for run in point.runs) for point in (fast, full)]
        rows.append(
            {
                "batch_size": fast.batch_size,
                "steps": fast.steps,
                "interval": fast.interval,
                "same_row": (fast.steps, fast.trial, fast.value)
                == (full.steps, full.trial, full.value),
                "same_interval": fast.interval == full.interval,
                "best_exhaustive": full.best,
                "reached_exhaustive": sum(run.reached is not None for run in full.runs),
                "trial_steps_raced": trial_steps[0],
                "trial_steps_exhaustive": trial_steps[1],
                "share": round(trial_steps[0] / trial_steps[1], 4),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--executor", default="scan:1:2")
    parser.add_argument("--min-gap", type=int, default=64)
    args = parser.parse_args()
    configuration = Configuration.of(
        tasks.get(args.task),
        seed=args.seed,
        executor=Executor.parse(args.executor),
        min_gap=args.min_gap,
    )
    raced = measured_curve(configuration, args.out / "raced", args.data_dir)
    full = replace(configuration, exhaustive=True)
    exhaustive = measured_curve(full, args.out / "exhaustive", args.data_dir)
    rows = compare(raced, exhaustive)
    totals = [sum(row[f"trial_steps_{kind}"] for row in rows) for kind in ("raced", "exhaustive")]
    print(
        json.dumps(
            {
                "task": configuration.task,
                "goal": configuration.goal,
                "trials": configuration.trials,
                "seed": args.seed,
                "rows": rows,
                "all_rows_same": all(row["same_row"] and row["same_interval"] for row in rows),
                "share": round(totals[0] / totals[1], 4),
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
