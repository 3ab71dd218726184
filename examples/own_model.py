"""A scaling study of a model that replicax has never seen.

A model is two pure functions, a task adds data, a goal and a search space, a scaling study does the
rest: `python examples/own_model.py [FOLDER]` takes half a minute, and goes on if it is interrupted.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp

from replicax.models import Model
from replicax.study.configuration import Configuration
from replicax.study.ledger import Ledger
from replicax.study.report import report
from replicax.study.scaling_study import run
from replicax.tasks import Parameter, classification_task
from replicax.views.live import watcher


def init(key):
    """A bilinear readout of 8 x 8 pixels: rows and columns are weighted separately."""
    rows, columns = jax.random.split(key)
    return {
        "rows": jax.random.normal(rows, (10, 4, 8)) / 8,
        "columns": jax.random.normal(columns, (10, 4, 8)) / 8,
    }


def apply(params, image):
    return jnp.einsum("bhw,ckh,ckw->bc", image, params["rows"], params["columns"])


task = classification_task(
    "digits/bilinear",
    Model(init, apply),
    "digits",
    image_scale=16.0,
    goal=0.1,
    optimizer="momentum",
    schedule="constant",
    space={
        "learning_rate": Parameter(name="learning_rate", scale="log", low=1e-3, high=3.0),
        "momentum": Parameter(name="momentum", scale="reverse_log", low=0.0, high=0.99),
    },
    batch_sizes=(4, 16, 64, 256),
    trials=32,
    max_steps=5_000,
    max_examples=200_000,
)

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/own_model")
    configuration = Configuration.of(task)
    with watcher(sys.stderr, configuration.batch_sizes) as watching:
        run(task, configuration, folder, watching)
    with Ledger.read(folder) as ledger:
        curve = report(ledger).curve
    for point in curve.points:
        print(f"batch size {point.batch_size:>4}: {point.steps} steps, 90 % in {point.interval}")
    end = curve.end_of_perfect_scaling
    found = f"{end.value:.0f}" if end.value else f"unknown, {end.reason}"
    print("end of perfect scaling, in examples per step:", found)
