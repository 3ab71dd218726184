"""Which examples exist, and which of them a step sees."""

from replicax.data.batches import batches
from replicax.data.catalogue import Entry, Got, entries, find, get, load, names, where
from replicax.data.examples import Batch, Dataset, Examples

__all__ = [
    "Batch",
    "Dataset",
    "Entry",
    "Examples",
    "Got",
    "batches",
    "entries",
    "find",
    "get",
    "load",
    "names",
    "where",
]
