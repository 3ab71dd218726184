"""Tables in, records out: no JAX, no files, no drawing."""

from replicax.analysis.budget import apply_example_budget, apply_step_budget, best_measurement
from replicax.analysis.curve import analyse
from replicax.analysis.interval import (
    Finishers,
    Interval,
    crossings,
    finishers_needed,
    resample_steps,
    steps_interval,
)
from replicax.analysis.records import (
    Curve,
    Dimension,
    Estimate,
    Fit,
    Point,
    Trial,
    TrialCounts,
)
from replicax.analysis.result import better, first_reached, steps_to_result
from replicax.analysis.scaling import (
    Scaling,
    critical_batch_sizes,
    estimate_batch_sizes,
    fit_hyperbola,
)

__all__ = [
    "Curve",
    "Dimension",
    "Estimate",
    "Finishers",
    "Fit",
    "Interval",
    "Point",
    "Scaling",
    "Trial",
    "TrialCounts",
    "analyse",
    "apply_example_budget",
    "apply_step_budget",
    "best_measurement",
    "better",
    "critical_batch_sizes",
    "crossings",
    "estimate_batch_sizes",
    "finishers_needed",
    "first_reached",
    "fit_hyperbola",
    "resample_steps",
    "steps_interval",
    "steps_to_result",
]
