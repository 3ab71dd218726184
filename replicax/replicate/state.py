"""The usual state of a training step: parameters and what their optimizer remembers."""

from __future__ import annotations

from typing import Any, NamedTuple

import optax


class TrainState(NamedTuple):
    """What a step changes. Any other pytree of arrays will do as well."""

    params: Any
    optimizer_state: Any

    @staticmethod
    def create(params: Any, optimizer: optax.GradientTransformation) -> TrainState:
        """The state before the first step."""
        return TrainState(params, optimizer.init(params))

    def update(self, gradient: Any, optimizer: optax.GradientTransformation) -> TrainState:
        """The state after one update by a gradient that is equal on all replicas."""
        update, optimizer_state = optimizer.update(gradient, self.optimizer_state, self.params)
        return TrainState(optax.apply_updates(self.params, update), optimizer_state)
