"""The search space of a study; its points, a function of (seed, batch size, wave, index)."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from replicax.study.configuration import Configuration
from replicax.tasks import Parameter, Space, Task
from replicax.tasks.space import values
from replicax.train import make_optimizer


def search_space(task: Task, config: Configuration, batch_size: int) -> Space:
    """The task's ranges for what the optimizer and the schedule ask for.

    A learning rate decays over at least half of the step budget, as in Shallue et al. 2019, unless
    the task has a range of its own for that.
    """
    budget = max(2, config.step_budget(batch_size))
    decay_steps = Parameter(
        name="learning_rate_decay_steps",
        scale="integer",
        low=budget // 2,
        high=budget,
        limits=(1, budget),
    )
    ranges = {decay_steps.name: decay_steps, **task.space}
    names = make_optimizer(config.optimizer, config.schedule).hyperparameters
    return tuple(ranges[name] for name in names)


def points(
    space: Space, count: int, *, seed: int, batch_size: int, wave: str, start: int = 0
) -> list[dict[str, float]]:
    """Hyperparameters of the trials `start` .. `start + count - 1` of a wave.

    Points are scrambled Halton points (Bousquet et al. 2017 recommend such sequences for this use),
    an independent scrambling for each batch size and wave. More of them never change earlier ones.
    """
    from scipy.stats import qmc  # takes a second to import

    key = [seed, batch_size, zlib.crc32(wave.encode())]
    halton: Any = qmc.Halton(d=len(space), scramble=True, rng=np.random.default_rng(key))
    halton.fast_forward(start)
    return [dict(values(space, tuple(u))) for u in halton.random(count).tolist()]
