"""The one step: built once from a task and an optimizer."""

from replicax.train.optimizers import OPTIMIZERS, SCHEDULES, Optimizer, make_optimizer
from replicax.train.step import make_evaluate, make_init, make_step

__all__ = [
    "OPTIMIZERS",
    "SCHEDULES",
    "Optimizer",
    "make_evaluate",
    "make_init",
    "make_optimizer",
    "make_step",
]
