"""At which steps trials are evaluated: a rule fixed when a study begins, kept in its ledger."""

from __future__ import annotations

from typing import NamedTuple

SPACING = 0.03  # relative distance of evaluations
COARSEST = 0.25  # relative distance, where evaluation is too dear for the other one
SHARE = 0.2  # of the time that evaluation may take
FREE_SECONDS = 5.0  # of evaluation that are not worth saving


class Evaluations(NamedTuple):
    """When to evaluate.

    Attributes:
      free: this many evaluations are about 3 % of the steps apart, every step at first.
      min_gap: the later ones are at least this many steps apart too, as long as that is at most
        a quarter of the steps; so the first step at the goal is known to a quarter at worst.
    """

    free: int
    min_gap: int

    def next(self, step: int, done: int, last: int) -> int:
        """The step of the next evaluation.

        Args:
          step: of the previous one.
          done: evaluations so far in this wave.
          last: final step of the run, always evaluated.
        """
        gap = max(1, int(SPACING * step))
        if done >= self.free:
            gap = max(gap, min(self.min_gap, int(COARSEST * step)))
        return min(step + gap, last)


def affordable(trials: int, seconds_per_step: float, seconds_per_evaluation: float) -> Evaluations:
    """Evaluations that take at most `SHARE` of the time, apart from `FREE_SECONDS` at the start.

    Args:
      trials: of the study.
      seconds_per_step, seconds_per_evaluation: of one trial.
    """
    steps = seconds_per_evaluation * (1 - SHARE) / SHARE / seconds_per_step
    return Evaluations(
        free=int(FREE_SECONDS / (trials * seconds_per_evaluation)),
        # a power of two, so that two measurements of one machine mostly agree
        min_gap=1 << max(0, int(steps)).bit_length() if steps > 1 else 1,
    )
