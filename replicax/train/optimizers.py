"""Optimizers and learning-rate schedules, with hyperparameters as arrays.

Since every hyperparameter is an ordinary input of the compiled program, all trials of a study share
that program. The update rules are those compared by Shallue et al. 2019, section 4.4; g_t is the
gradient of the mean loss of the mini-batch, eta_t the learning rate, gamma the momentum:

  sgd        theta <- theta - eta_t g_t
  momentum   v <- gamma v + g_t;  theta <- theta - eta_t v
  nesterov   v <- gamma v + g_t;  theta <- theta - eta_t (g_t + gamma v)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

Hyperparameters = Mapping[str, Any]  # name -> scalar
Rate = Any  # the learning rate: a scalar, or a function of the step


class Schedule(NamedTuple):
    hyperparameters: tuple[str, ...]
    rate: Callable[[Hyperparameters], Rate]


class Rule(NamedTuple):
    hyperparameters: tuple[str, ...]  # beyond those of the schedule
    transformation: Callable[[Rate, Hyperparameters], optax.GradientTransformation]


class Optimizer(NamedTuple):
    """A rule and a schedule.

    Attributes:
      hyperparameters: the names that must be given.
      build: hyperparameters -> optax transformation; they may be traced.
    """

    hyperparameters: tuple[str, ...]
    build: Callable[[Hyperparameters], optax.GradientTransformation]


def linear_decay(h: Hyperparameters) -> Rate:
    """eta(t) = eta_0 - (1 - alpha) eta_0 t / T for t <= T, and alpha eta_0 after that.

    eta_0 is `learning_rate`, alpha `end_learning_rate_factor`, T `learning_rate_decay_steps` in
    optimizer updates (Shallue et al. 2019, appendix on schedules).
    """
    eta_0, alpha = h["learning_rate"], h["end_learning_rate_factor"]
    T = h["learning_rate_decay_steps"]

    def eta(t: jax.Array) -> jax.Array:
        return eta_0 * (1 - (1 - alpha) * jnp.minimum(t / T, 1.0))

    return eta


SCHEDULES: dict[str, Schedule] = {
    "constant": Schedule(("learning_rate",), lambda h: h["learning_rate"]),
    "linear": Schedule(
        ("learning_rate", "end_learning_rate_factor", "learning_rate_decay_steps"), linear_decay
    ),
}

OPTIMIZERS: dict[str, Rule] = {
    "sgd": Rule((), lambda eta, h: optax.sgd(eta)),  # noqa: ARG005
    "momentum": Rule(("momentum",), lambda eta, h: optax.sgd(eta, h["momentum"])),
    "nesterov": Rule(("momentum",), lambda eta, h: optax.sgd(eta, h["momentum"], nesterov=True)),
}


def make_optimizer(optimizer: str, schedule: str = "constant") -> Optimizer:
    """The optimizer of those two names, keys of `OPTIMIZERS` and `SCHEDULES`."""
    rule, decay = OPTIMIZERS[optimizer], SCHEDULES[schedule]
    return Optimizer(
        decay.hyperparameters + rule.hyperparameters,
        lambda h: rule.transformation(decay.rate(h), h),
    )
