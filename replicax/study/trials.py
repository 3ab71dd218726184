"""A trial as the study and its ledger keep it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TrialRow:
    """One trial; the fields mean what they mean in `analysis.records.Trial`."""

    trial: int
    wave: str
    hyperparameters: Mapping[str, float]
    status: str = "running"
    reason: str | None = None
    last_step: int = 0
    reached: int | None = None
    best: float | None = None
