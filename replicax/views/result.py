"""The result of a scaling study as JSON; every key is described in docs/result_schema.md."""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from replicax.analysis.records import Curve, Estimate, Point, Trial
from replicax.views import wording
from replicax.views.files import replace_file

SCHEMA_VERSION = 1

Json = dict[str, Any]


def to_json(
    curve: Curve,
    *,
    status: Literal["finished", "unfinished"],
    configuration: Mapping[str, Any],
    execution: Mapping[str, Any],
    provenance: Sequence[Mapping[str, Any]],
) -> Json:
    """The result as an object that strict JSON can hold.

    Args:
      curve: what was measured and what follows.
      status: whether all studies have ended.
      configuration: settings of the scaling study.
      execution: by batch size, how its trials were run.
      provenance: one object per run that contributed.

    Returns:
      keys in the order of the schema, points by batch size, runs by trial; numbers that are not
      finite are None.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "task": curve.task,
        "optimizer": curve.optimizer,
        "metric": curve.metric,
        "maximize": curve.maximize,
        "goal": _strict(curve.goal),
        "status": status,
        "points": [_point(p) for p in sorted(curve.points, key=lambda point: point.batch_size)],
        "fit": None if curve.fit is None else _strict(asdict(curve.fit)),
        "estimates": {name: _estimate(getattr(curve, name)) for name in wording.ESTIMATES},
        "configuration": _strict(configuration),
        "execution": _strict(execution),
        "provenance": _strict(provenance),
    }


def to_text(result: Json) -> str:
    """The object as JSON text; the same object gives the same text."""
    return json.dumps(result, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def write_result(result: Json, path: Path | str) -> None:
    """Writes the object as JSON, whole or not at all."""
    replace_file(path, to_text(result).encode("utf-8"))


def _point(point: Point) -> Json:
    winner = next((run for run in point.runs if run.trial == point.trial), None)
    found: Json = {
        "batch_size": point.batch_size,
        "steps": point.steps,
        "trial": point.trial,
        "value": point.value,
        "interval": list(point.interval),
        "interval_note": point.interval_note,
        "at_edge": point.at_edge,
        "edges": list(point.edges),
        "best": point.best,
        "hyperparameters": None if winner is None else _sorted(winner.hyperparameters),
        "trials": asdict(point.trials),
        "space": [asdict(dimension) for dimension in point.space],
        "runs": [_run(run) for run in sorted(point.runs, key=lambda run: run.trial)],
    }
    return {name: _strict(value) for name, value in found.items()}


def _run(run: Trial) -> Json:
    return asdict(run) | {"hyperparameters": _sorted(run.hyperparameters)}


def _sorted(hyperparameters: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(hyperparameters.items()))


def _estimate(estimate: Estimate) -> Json:
    strict: Json = _strict(asdict(estimate))
    return strict


def _strict(value: Any) -> Any:
    """A copy made of JSON's own types; not a number and infinite become None.

    Raises:
      TypeError: a value has no meaning in JSON.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy scalars and arrays
        return _strict(value.tolist())
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else None
    raise TypeError(f"JSON holds no {type(value).__name__}; got {value!r}")
