"""What is learned and when it counts as learned."""

from replicax.tasks.catalogue import full_name, get, names
from replicax.tasks.space import Parameter, Space
from replicax.tasks.task import Batch, Task, WeightedSum

__all__ = ["Batch", "Parameter", "Space", "Task", "WeightedSum", "full_name", "get", "names"]
