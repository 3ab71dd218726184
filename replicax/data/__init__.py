"""Which examples exist, and which of them a step sees."""

from replicax.data.catalogue import load, names, where
from replicax.data.examples import Dataset, Examples

__all__ = ["Dataset", "Examples", "load", "names", "where"]
