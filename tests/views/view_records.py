"""Made-up but realistic curves, for looking at and for the tests of the views."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from replicax.analysis.records import Curve, Dimension, Estimate, Fit, Point, Trial, TrialCounts

LEARNING_RATE = Dimension(name="learning_rate", scale="log", low=1e-3, high=10.0)
MOMENTUM = Dimension(name="momentum", scale="reverse_log", low=0.5, high=0.999)
DECAY = Dimension(name="learning_rate_decay_steps", scale="integer", low=100, high=9000)

REFUSED = Estimate(value=None, low=None, high=None, reason="the largest batch is not on a plateau")


def known(value: float, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(value=value, low=low, high=high, reason=None)


def _draw(dimension: Dimension, rng: random.Random) -> float:
    u = rng.random()
    if dimension.scale == "log":
        return dimension.low * (dimension.high / dimension.low) ** u
    if dimension.scale == "reverse_log":
        near, far = 1 - dimension.high, 1 - dimension.low
        return 1 - near * (far / near) ** u
    return round(dimension.low + u * (dimension.high - dimension.low))


def trials(
    batch_size: int, steps: int | None, space: tuple[Dimension, ...], number: int
) -> tuple[Trial, ...]:
    """Trials around a best effective learning rate that grows with the batch size."""
    rng = random.Random(batch_size)
    best_rate = min(0.005 * batch_size, 1.5)
    limit = steps if steps is not None else 20_000
    found: list[tuple[float, dict[str, float]]] = []
    for _ in range(number):
        h = {dimension.name: _draw(dimension, rng) for dimension in space}
        effective = h["learning_rate"] / (1 - h.get("momentum", 0.0))
        found.append((math.log2(effective / best_rate), h))
    order = sorted(range(number), key=lambda i: abs(found[i][0]))
    winner = order[0]
    runs = []
    for i, (octaves, h) in enumerate(found):
        status, reached, best, reason = "stopped", None, 0.1 + 0.02 * abs(octaves), None
        if octaves > 4:
            status, best, reason = "infeasible", None, "loss not finite"
        elif i in order[: max(number // 6, 1)] and steps is not None:
            reached = limit if i == winner else int(limit * (1.05 + abs(octaves)))
            status, best = "complete", 0.0987
        elif octaves < -6 or steps is None:
            status = "complete"
        last = max(limit // 7, 1) if status == "infeasible" else reached or limit
        runs.append(
            Trial(
                trial=i,
                status=status,
                reason=reason,
                wave="initial",
                hyperparameters=h,
                last_step=last,
                reached=reached,
                best=best,
            )
        )
    return tuple(runs)


def point(
    batch_size: int,
    steps: int | None,
    *,
    interval: tuple[int | None, int | None] = (None, None),
    edges: tuple[str, ...] = (),
    space: tuple[Dimension, ...] = (LEARNING_RATE, MOMENTUM),
    number: int = 24,
) -> Point:
    runs = trials(batch_size, steps, space, number)
    reached = [run for run in runs if run.reached is not None]
    winner = min(reached, key=lambda run: (run.reached, run.trial), default=None)
    unknown = steps is not None and None in interval
    return Point(
        batch_size=batch_size,
        steps=steps,
        trial=winner.trial if winner else None,
        value=winner.best if winner else None,
        interval=interval,
        interval_note="too few trials reached the goal" if unknown else None,
        at_edge=bool(edges),
        edges=edges,
        best=min((run.best for run in runs if run.best is not None), default=None),
        trials=TrialCounts(
            complete=sum(run.status == "complete" for run in runs),
            infeasible=sum(run.status == "infeasible" for run in runs),
            stopped=sum(run.status == "stopped" for run in runs),
        ),
        runs=runs,
        space=space,
    )


def curve(points: list[Point], **changes: object) -> Curve:
    base = Curve(
        task="fashion_mnist/simple_cnn",
        optimizer="nesterov",
        metric="validation_error",
        maximize=False,
        goal=0.1,
        points=tuple(points),
        fit=None,
        end_of_perfect_scaling=REFUSED,
        critical_batch_size=REFUSED,
        overhead_20_batch_size=REFUSED,
        maximum_useful_batch_size=REFUSED,
    )
    return replace(base, **changes)


# Steps to result of ResNet-8 on CIFAR-10 (Shallue et al. 2019, figure 1c, digitised).
_RESNET_8 = (130_000, 52_800, 30_500, 13_200, 6_630, 3_580, 1_530, 1_030, 900, 690, 930, 710, 720)


def resnet_8(**changes: object) -> Curve:
    """13 batch sizes, everything known, from a published curve."""
    points = [
        point(2 ** (k + 1), s, interval=(int(s * 0.85), int(s * 1.2)))
        for k, s in enumerate(_RESNET_8)
    ]
    settings: dict[str, object] = {
        "task": "cifar10/resnet_8",
        "goal": 0.3,
        "fit": Fit(s_min=614, b_crit=324, rms_octaves=0.27),
        "end_of_perfect_scaling": known(256, 130, 410),
        "critical_batch_size": known(324.2, 250.1, 430.7),
        "overhead_20_batch_size": known(67.3, 51.0, 88.8),
        "maximum_useful_batch_size": known(1024, 512, 2048),
    }
    return curve(points, **{**settings, **changes})


def _few() -> Curve:
    points = [
        point(16, 2310, interval=(2100, 2500)),
        point(64, 640, interval=(None, 790)),
        point(256, 300, interval=(280, None)),
    ]
    return curve(
        points,
        fit=Fit(s_min=170, b_crit=200, rms_octaves=0.05),
        end_of_perfect_scaling=known(51.3, 22.0, None),
    )


def _unsolved() -> Curve:
    why = Estimate(value=None, low=None, high=None, reason="no batch size has a result")
    return curve(
        [point(16, None), point(64, None), point(256, None)],
        end_of_perfect_scaling=why,
        maximum_useful_batch_size=why,
    )


def _flagged() -> Curve:
    wide = replace(LEARNING_RATE, low=1e-5, high=1000.0)
    points = [
        point(1, None),
        point(8, 4096, interval=(3500, 5000), edges=("learning_rate below",)),
        point(32, 1100, interval=(900, 1300), space=(wide, MOMENTUM, DECAY)),
        point(128, 350, interval=(300, 420), edges=("learning_rate above", "momentum above")),
        point(512, 180, interval=(150, 260)),
        point(2048, None),
        point(8192, None),
    ]
    return curve(
        points,
        fit=Fit(s_min=130, b_crit=230, rms_octaves=0.1),
        end_of_perfect_scaling=known(100.0, 80.0, 160.0),
        maximum_useful_batch_size=Estimate(
            value=None,
            low=None,
            high=None,
            reason="the goal was not reached at the two largest batch sizes, so that no plateau "
            "was seen, and the steps at batch size 512 are still falling",
        ),
    )


def _plain(steps: tuple[int | None, ...], **changes: object) -> Curve:
    points = [
        point(
            8 * 4**k, s, interval=(s and int(s * 0.9), s and int(s * 1.1)), space=(LEARNING_RATE,)
        )
        for k, s in enumerate(steps)
    ]
    return curve(points, optimizer="sgd", **changes)


def _huge() -> Curve:
    points = [
        point(2 ** (2 * k), max(2**24 // 4**k, 40) + k, interval=(None, None)) for k in range(14)
    ]
    return curve(
        points,
        task="a_rather_long_data_set_name_of_$100$/and_a_model_with_an_even_longer_name_"
        "that_goes_on_and_on_and_on_and_on_and_on_and_on",
        fit=Fit(s_min=45, b_crit=372_000, rms_octaves=0.01),
        end_of_perfect_scaling=known(260_000.0, 200_000.0, 300_000.0),
        maximum_useful_batch_size=known(300_000.0, 290_000.0, 400_000.0),
    )


def _tiny() -> Curve:
    points = [point(b, s, interval=(s, s)) for b, s in ((60, 101), (64, 100), (70, 100))]
    return curve(
        points,
        metric="average_precision",
        maximize=True,
        goal=0.31,
        maximum_useful_batch_size=known(61.0, 60.0, 64.0),
    )


def _one() -> Curve:
    return curve([point(128, 100, interval=(90, 120))])


CURVES = {
    "resnet_8": resnet_8(),
    "few": _few(),
    "unsolved": _unsolved(),
    "flagged": _flagged(),
    "sgd": _plain((5000, 1400, 500, 300, None), end_of_perfect_scaling=known(90.0, 60.0, 130.0)),
    "contradiction": resnet_8(
        end_of_perfect_scaling=known(900.0, 300.0, 1100.0),
        maximum_useful_batch_size=known(512.0, 400.0, 2048.0),
    ),
    "huge": _huge(),
    "tiny": _tiny(),
    "one": _one(),
    "empty": curve([]),
}
