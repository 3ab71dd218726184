"""Which examples exist, and which of them a step sees."""

from replicax.data.catalogue import Entry, Got, entries, find, get, load, names, where
from replicax.data.examples import Dataset, Examples

__all__ = [
    "Dataset",
    "Entry",
    "Examples",
    "Got",
    "entries",
    "find",
    "get",
    "load",
    "names",
    "where",
]
