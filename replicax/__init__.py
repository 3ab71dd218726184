"""Write your model for one device, run it on any number, know how many are worth it."""

from importlib.metadata import version

__version__ = version("replicax")
