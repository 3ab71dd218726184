"""Write your model for one device, run it on any number, know how many are worth it."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from replicax.replicate import (
        AveragePrecision,
        Evaluation,
        InputContext,
        Moments,
        PerReplica,
        Program,
        Replicator,
        TrainState,
        WeightedSum,
        accuracy,
        agree,
        all_gather,
        all_max,
        all_mean,
        all_min,
        all_reduce,
        all_sum,
        barrier,
        batch_norm,
        broadcast,
        example_keys,
        map_gather,
        map_reduce,
        num_replicas,
        per_replica,
        replica_id,
        replica_key,
        shared_key,
        value_and_grad,
        weighted,
        wrap_optimizer,
    )

__version__ = version("replicax")

__all__ = [
    "AveragePrecision",
    "Evaluation",
    "InputContext",
    "Moments",
    "PerReplica",
    "Program",
    "Replicator",
    "TrainState",
    "WeightedSum",
    "accuracy",
    "agree",
    "all_gather",
    "all_max",
    "all_mean",
    "all_min",
    "all_reduce",
    "all_sum",
    "barrier",
    "batch_norm",
    "broadcast",
    "example_keys",
    "map_gather",
    "map_reduce",
    "num_replicas",
    "per_replica",
    "replica_id",
    "replica_key",
    "shared_key",
    "value_and_grad",
    "weighted",
    "wrap_optimizer",
]

_PACKAGES = {"analysis", "data", "models", "replicate", "study", "tasks", "train"}


def __getattr__(name: str) -> Any:
    """Imports JAX, or a package, when it is first asked for: the command line starts quickly."""
    if name in _PACKAGES:
        return import_module(f"replicax.{name}")
    if name in __all__:
        return getattr(import_module("replicax.replicate"), name)
    raise AttributeError(f"module 'replicax' has no attribute {name!r}")
