"""What is learned and when it counts as learned."""

from replicax.tasks.catalogue import full_name, get, names
from replicax.tasks.classification import classification_task
from replicax.tasks.space import Parameter, Space
from replicax.tasks.task import Batch, Task, WeightedSum

__all__ = [
    "Batch",
    "Parameter",
    "Space",
    "Task",
    "WeightedSum",
    "classification_task",
    "full_name",
    "get",
    "names",
]
