"""What the tests of the ledger commit: numbered, so that a reader can tell what it should find."""

from __future__ import annotations

from typing import Any

import numpy as np

from replicax.study.configuration import Configuration
from replicax.study.ledger import Ledger
from replicax.study.trials import TrialRow

CONFIGURATION = Configuration(
    task="digits/fc_64",
    optimizer="sgd",
    schedule="constant",
    metric="error",
    maximize=False,
    goal=0.1,
    batch_sizes=(16, 64),
    trials=3,
    max_steps=10**6,
    max_examples=10**9,
)


def rows_of(number: int, batch_size: int = 64) -> list[dict[str, Any]]:
    return [
        {"batch_size": batch_size, "trial": t, "step": number, "error": 1 / (number + t)}
        for t in range(3)
    ]


def commit_number(ledger: Ledger, number: int, batch_size: int = 64) -> int:
    trials = [
        TrialRow(
            trial=t, wave="initial", hyperparameters={"learning_rate": 0.1 + 0.2}, last_step=number
        )
        for t in range(3)
    ]
    ledger.commit(
        batch_size,
        step=number,
        facts={"n": number},
        trials=trials,
        measurements=rows_of(number, batch_size),
        snapshot={"state": np.full(5, number)},
        done=False,
    )
    return number
