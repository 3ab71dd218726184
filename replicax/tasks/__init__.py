"""What is learned and when it counts as learned."""

from replicax.tasks.catalogue import full_name, get, names
from replicax.tasks.classification import classification_task
from replicax.tasks.space import Parameter, Space
from replicax.tasks.task import Task

__all__ = [
    "Parameter",
    "Space",
    "Task",
    "classification_task",
    "full_name",
    "get",
    "names",
]
