"""Reference networks as init/apply pairs of pure functions."""

from replicax.models.fully_connected import fully_connected
from replicax.models.model import Model

__all__ = ["Model", "fully_connected"]
