"""The noisy quadratic model against plain iteration and the findings of its paper."""

import numpy as np
import pytest

from replicax.analysis.interval import Finishers, resample_steps
from replicax.analysis.quadratic import NoisyQuadratic, dynamics, loss_parts, steps_to_goal
from replicax.analysis.quadratic_grid import evaluation_steps, measure, steps_bound, tune
from replicax.analysis.result import steps_to_result
from replicax.analysis.scaling import estimate_batch_sizes, fit_hyperbola

GOAL = 0.01
SIZES = 2 ** np.arange(0, 18)
RATES = np.geomspace(1e-3, 10**0.5, 120)
MOMENTA = (0.0, 0.5, 0.8, 0.9, 0.95)
CASES = [
    (NoisyQuadratic(20), 0.3, 0.0),
    (NoisyQuadratic(20, power=0.5), 0.3, 0.0),
    (NoisyQuadratic(20, start=2.0), 0.4, 0.9),
    (NoisyQuadratic(20, power=0.25), 0.2, 0.7),
    (NoisyQuadratic(20, averaging=0.9), 0.3, 0.0),
]


def covariance_losses(model, rate, momentum, batch_size, steps):
    """The expected loss by the covariance of (theta, velocity or average), a step at a time."""
    r, losses = model.averaging, np.zeros(steps + 1)
    for h in model.curvature:
        x = rate * h ** (1 - model.power)
        if r:
            first, read = np.array([1, 1 / (1 - r)]), np.array([0, 1 - r])
            matrix = np.array([[1 - x, 0], [1 - x, r]])
        else:
            first, read = np.array([1.0, 0]), np.array([1.0, 0])
            matrix = np.array([[1 - x, momentum], [-x, momentum]])
        noise = (rate * h**-model.power) ** 2 * h / batch_size * np.ones((2, 2))
        covariance = model.start * np.outer(first, first)
        for k in range(steps + 1):
            losses[k] += 0.5 * h * read @ covariance @ read
            covariance = matrix @ covariance @ matrix.T + noise
    return losses


@pytest.mark.parametrize(("model", "rate", "momentum"), CASES)
def test_powers_equal_plain_iteration(model, rate, momentum):
    marks = [0, 1, 2, 3, 7, 20, 64, 100]
    decay, noise = loss_parts(dynamics(model, rate, momentum), marks)
    expected = covariance_losses(model, rate, momentum, 8, 100)[marks]
    assert (decay + noise / 8)[:, 0] == pytest.approx(expected, rel=1e-10)


def test_gradient_descent_equals_its_closed_form():
    model, rate, batch_size = NoisyQuadratic(1000), 0.7, 16
    h, k = model.curvature, np.array([0, 5, 1000, 12345])[:, None]
    beta = (1 - rate * h) ** 2
    limit = rate**2 * h / batch_size / (1 - beta)
    expected = 0.5 * (h * (limit + beta**k * (1 - limit))).sum(axis=1)
    decay, noise = loss_parts(dynamics(model, rate, 0.0), k[:, 0])
    assert (decay + noise / batch_size)[:, 0] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("model", "rate", "momentum"), CASES)
def test_steps_to_goal_is_the_first_step_below_it(model, rate, momentum):
    losses = covariance_losses(model, rate, momentum, 64, 400)
    goal = losses[150] * 1.0001
    first = int(np.argmax(losses < goal))
    assert steps_to_goal(dynamics(model, rate, momentum), goal, [64]) == [[first]]


def test_goals_never_or_already_reached():
    step = dynamics(NoisyQuadratic(20), [0.3, 2.5], 0.0)
    assert steps_to_goal(step, 1e-9, [1]).tolist() == [[np.inf, np.inf]]  # noise floor, divergence
    assert steps_to_goal(step, 10.0, [1]).tolist() == [[0, 0]]
    reached = int(steps_to_goal(step, 0.05, [1000])[0, 0])
    assert steps_to_goal(step, 0.05, [1000], max_steps=reached)[0, 0] == reached
    assert steps_to_goal(step, 0.05, [1000], max_steps=reached - 1)[0, 0] == np.inf


def slopes(steps):
    """Of log steps by log batch size, between neighbours a factor 2 apart."""
    return np.diff(np.log2(steps))


def test_three_regimes_and_the_learning_rate_that_makes_them():
    found = tune(NoisyQuadratic(100), GOAL, SIZES, learning_rates=RATES)
    assert slopes(found.steps)[:4] == pytest.approx(-1, abs=0.05)  # perfect scaling
    assert slopes(found.steps)[-4:] == pytest.approx(0, abs=0.05)  # maximal data parallelism
    assert (np.diff(slopes(found.steps)) > -0.05).all()  # diminishing returns between
    # linear in B: a factor 8 over three doublings, within a point of the grid; then capped
    grid = RATES[1] / RATES[0]
    assert found.learning_rate[4] / found.learning_rate[1] == pytest.approx(8, rel=2 * (grid - 1))
    assert len(set(found.learning_rate[-4:])) == 1
    assert 1.5 < found.learning_rate[-1] < 2  # 2 is where the steepest direction diverges


def test_momentum_extends_perfect_scaling_and_gives_nothing_at_small_batch_sizes():
    model = NoisyQuadratic(100)
    plain = tune(model, GOAL, SIZES, learning_rates=RATES)
    heavy = tune(model, GOAL, SIZES, learning_rates=RATES, momenta=MOMENTA)
    assert (heavy.steps <= plain.steps).all()  # the grid contains momentum 0
    assert heavy.steps[:3] == pytest.approx(plain.steps[:3], rel=0.05)
    assert heavy.steps[-1] < plain.steps[-1] / 3
    assert fit_hyperbola(SIZES, heavy.steps).b_crit > 2 * fit_hyperbola(SIZES, plain.steps).b_crit
    assert heavy.momentum[-1] > 0


@pytest.mark.parametrize(
    "options",
    [
        [{"power": 0.25}, {"power": 0.5}],
        [{"averaging": 0.9}, {"averaging": 0.99}, {"averaging": 0.999}],  # tuned, as the rate is
    ],
)
def test_preconditioning_and_averaging_help_at_small_batch_sizes_too(options):
    models = [NoisyQuadratic(100), *(NoisyQuadratic(100, **o) for o in options)]
    plain, *other = (tune(m, GOAL, SIZES[:6], learning_rates=RATES).steps for m in models)
    assert (np.min(other, axis=0) < 0.8 * plain).all()


def test_tougher_goals_move_the_knee_to_larger_batch_sizes():
    knees = [
        fit_hyperbola(SIZES, tune(NoisyQuadratic(100), c, SIZES, learning_rates=RATES).steps).b_crit
        for c in (0.1, 0.03, 0.01)
    ]
    assert knees == sorted(knees)
    assert knees[-1] > 2 * knees[0]


@pytest.mark.parametrize("options", [{}, {"power": 0.75}, {"averaging": 0.99}])
@pytest.mark.parametrize("goal", [0.1, 0.01])
def test_never_below_the_information_theoretic_bound(options, goal):
    model = NoisyQuadratic(100, **options)
    momenta = (0.0,) if options.get("averaging") else MOMENTA
    found = tune(model, goal, SIZES, learning_rates=RATES, momenta=momenta)
    assert (found.steps >= steps_bound(model, goal, SIZES)).all()


def test_evaluation_steps_are_dense_then_thinned():
    marks = evaluation_steps(5000, 0.03)
    assert marks[:10].tolist() == list(range(10))
    assert marks[-1] == 5000
    assert (np.diff(marks) <= np.maximum(1, 0.03 * marks[:-1] + 1)).all()


def test_pipeline_on_the_tables_agrees_with_the_exact_steps():
    model, sizes = NoisyQuadratic(100), SIZES[2:13]
    grid = {"learning_rates": RATES[::4]}  # without momentum the loss does not swing
    measurements, trials = measure(model, sizes, **grid, max_steps=50_000)
    exact = tune(model, GOAL, sizes, **grid)
    found = steps_to_result(measurements, GOAL, metric="val/loss")
    assert found["batch_size"].to_list() == sizes.tolist()
    ratio = found["step"].to_numpy() / exact.steps
    assert (ratio >= 1).all()
    assert (ratio <= 1.03 + 1 / exact.steps).all()
    won = found.join(trials, on=["batch_size", "trial"])
    assert set(won["status"]) == {"complete"}
    assert set(trials["status"]) == {"complete", "infeasible"}


def test_estimates_bracket_the_knee_of_the_exact_curve():
    sizes = SIZES.tolist()
    steps = tune(NoisyQuadratic(100), GOAL, SIZES, learning_rates=RATES).steps.astype(np.int64)
    studies = [
        Finishers(np.array([s, s * 1.05, s * 1.1], np.int64), np.array([s - 1] * 3), 50, int(s) * 9)
        for s in steps
    ]
    found = estimate_batch_sizes(sizes, steps.tolist(), resample_steps(studies, 500, seed=0))
    examples = SIZES * steps
    perfect = SIZES[examples <= 1.2 * examples.min()].max()
    assert found.end_of_perfect_scaling.value == pytest.approx(perfect, rel=1)  # the next doubling
    plateau = SIZES[steps <= 1.1 * steps.min()].min()
    assert found.maximum_useful_batch_size.value == pytest.approx(plateau, rel=1)


@pytest.mark.parametrize("options", [{"dimensions": 0}, {"power": 1.0}, {"averaging": -0.1}])
def test_impossible_models_are_refused(options):
    with pytest.raises(ValueError, match="dimensions >= 1"):
        NoisyQuadratic(**options)


def test_impossible_requests_are_refused():
    with pytest.raises(ValueError, match="not combined"):
        dynamics(NoisyQuadratic(5, averaging=0.9), 0.1, 0.9)
    with pytest.raises(ValueError, match="ascending"):
        loss_parts(dynamics(NoisyQuadratic(5), 0.1, 0.0), [3, 2])
