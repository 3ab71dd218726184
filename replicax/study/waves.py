"""Which trials a study adds next: a pure function of what it has found so far.

A study begins with one wave of trials over its search space. After a wave has ended there may be
another one:

- *top-up*, only where trials are counted as Shallue et al. 2019 count them (section 4 there: equal
  budgets of trials that did not diverge): one more point for every infeasible trial.
- *widening*: if the best trial lies near a bound, the range next to that bound is searched too, as
  densely as the space so far, at most `MAX_WIDENINGS` times. A bound at its limit is no edge.

Waves race against the result so far, so that a wave that finds nothing better ends early.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from replicax.study.points import points
from replicax.study.trials import TrialRow
from replicax.tasks import Space
from replicax.tasks.space import Side

MAX_WIDENINGS = 2
MAX_POINTS = 4  # times the number of trials: a bound for topping up

INITIAL = "initial"
TOP_UP = "top-up"


class Rules(NamedTuple):
    """Attributes as in `Configuration`."""

    trials: int
    count_feasible: bool
    widen: bool
    seed: int
    batch_size: int


class Wave(NamedTuple):
    """New trials, and the search space that they complete."""

    trials: list[TrialRow]
    space: Space


def next_wave(
    rules: Rules, space: Space, trials: Sequence[TrialRow], best: TrialRow | None
) -> Wave | None:
    """The wave that follows, None if the study has ended.

    Args:
      rules: how trials are counted, and whether spaces are widened.
      space: as it stands now.
      trials: all so far, each of them ended.
      best: the trial of the result, or the one with the best metric if none reached the goal.
    """
    if not trials:
        return _wave(rules, space, space, INITIAL, rules.trials, trials, at=0)
    if rules.count_feasible:
        drawn = [t for t in trials if t.wave in (INITIAL, TOP_UP)]
        missing = rules.trials - sum(t.status != "infeasible" for t in drawn)
        count = min(missing, MAX_POINTS * rules.trials - len(drawn))
        if count > 0:
            return _wave(rules, space, space, TOP_UP, count, trials, at=len(drawn))
    widenings = {t.wave for t in trials} - {INITIAL, TOP_UP}
    edges = near_edges(space, best)
    if not rules.widen or not edges or len(widenings) >= MAX_WIDENINGS:
        return None
    i, side = edges[0]
    old = space[i]
    slab = old.beyond(side)
    bound = old.low if side == "below" else old.high
    wider = (*space[:i], old.joined(slab), *space[i + 1 :])
    share = abs(old.position(slab.high) - old.position(slab.low))
    count = math.ceil(round(len(trials) * share, 6))  # as dense as those so far
    name = f"{old.name} {side} {bound:g}"
    return _wave(rules, (*space[:i], slab, *space[i + 1 :]), wider, name, count, trials, at=0)


def near_edges(space: Space, best: TrialRow | None) -> list[tuple[int, Side]]:
    """Which bounds the best trial lies near: (number of the parameter, `below` or `above`)."""
    if best is None:
        return []
    sides = [p.near(best.hyperparameters[p.name]) for p in space]
    return [(i, side) for i, side in enumerate(sides) if side is not None]


def _wave(
    rules: Rules,
    sampled: Space,
    space: Space,
    name: str,
    count: int,
    trials: Sequence[TrialRow],
    at: int,
) -> Wave:
    sequence = INITIAL if name == TOP_UP else name
    drawn = points(
        sampled, count, seed=rules.seed, batch_size=rules.batch_size, wave=sequence, start=at
    )
    first = len(trials)
    rows = [TrialRow(trial=first + i, wave=name, hyperparameters=h) for i, h in enumerate(drawn)]
    return Wave(rows, space)
