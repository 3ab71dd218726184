"""One meaning of a step on any number of devices, processes and hosts."""

from replicax.replicate.batch_norm import Moments, batch_norm
from replicax.replicate.collectives import (
    all_gather,
    all_max,
    all_mean,
    all_min,
    all_reduce,
    all_sum,
    broadcast,
    map_gather,
    map_reduce,
    num_replicas,
    replica_id,
)
from replicax.replicate.evaluation import AveragePrecision, Evaluation, accuracy
from replicax.replicate.gradients import value_and_grad, wrap_optimizer
from replicax.replicate.pipelines import InputContext
from replicax.replicate.processes import agree, barrier
from replicax.replicate.program import PerReplica, Program, per_replica
from replicax.replicate.replicator import Replicator
from replicax.replicate.state import TrainState
from replicax.replicate.streams import example_keys, replica_key, shared_key
from replicax.replicate.weighted import WeightedSum, weighted

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
