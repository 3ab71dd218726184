"""A trial's numbers depend on its point, its number and the group size, and on nothing else."""

from itertools import pairwise

import jax
import numpy as np
import pytest
from small_studies import task

from replicax.study.executor import Executor
from replicax.study.points import points
from replicax.study.population import Population
from replicax.study.programs import Programs
from replicax.train import make_optimizer

EXECUTORS = [
    Executor("scan", 1, 1),
    Executor("scan", 4, 2),
    Executor("unrolled", 4, 1),
    Executor("dispatch", 1, 2),
]
STEPS = [0, 1, 2, 5, 21, 48]


@pytest.fixture(scope="module", params=[4, 64])
def programs(request):
    digits = task()
    optimizer = make_optimizer("nesterov")
    return Programs(digits, optimizer, digits.load(None), batch_size=request.param, seed=3)


@pytest.fixture(scope="module")
def where():
    space = (task().space["learning_rate"], task().space["momentum"])
    return dict(enumerate(points(space, 10, seed=3, batch_size=64, wave="initial")))


def start(programs, executor, where, trials):
    return Population.start(programs, executor, {t: where[t] for t in trials})


def run(population, steps=STEPS):
    for step, to in pairwise(steps):
        evaluations = population.advance(step, to)
    return evaluations


@pytest.mark.parametrize("executor", EXECUTORS, ids=str)
def test_company_slot_and_streams_change_no_bit(programs, where, executor):
    everyone = run(start(programs, executor, where, range(10)))
    for few in ([7], [9, 2, 5], [1, 3, 4, 6, 8]):
        other = executor._replace(streams=3 - executor.streams)
        alone = run(start(programs, other, where, few))
        assert alone == {t: everyone[t] for t in few}


@pytest.mark.parametrize("executor", EXECUTORS, ids=str)
def test_interruption_changes_no_bit(programs, where, executor):
    unbroken = run(start(programs, executor, where, range(6)))
    population = start(programs, executor, where, range(6))
    run(population, STEPS[:4])
    stored = population.to_arrays()
    restored = Population.from_arrays(programs, executor, where, stored)
    assert restored.trials == list(range(6))
    assert run(restored, STEPS[3:]) == unbroken


@pytest.mark.parametrize("executor", EXECUTORS, ids=str)
def test_freeing_slots_changes_no_bit(programs, where, executor):
    everyone = run(start(programs, executor, where, range(10)))
    population = start(programs, executor, where, range(10))
    run(population, STEPS[:3])
    population.keep({0, 4, 6, 9})
    assert set(population.trials) >= {0, 4, 6, 9}
    after = run(population, STEPS[2:])
    assert {t: after[t] for t in (0, 4, 6, 9)} == {t: everyone[t] for t in (0, 4, 6, 9)}


def test_freed_slots_close_up(programs, where):
    population = start(programs, Executor("scan", 4, 1), where, range(10))
    population.keep({1, 5, 9})
    assert population.trials == [1, 5, 9]
    population.keep(set())
    assert population.trials == []


@pytest.mark.parametrize("executor", EXECUTORS[1:], ids=str)
def test_executors_agree_within_float_tolerance(programs, where, executor):
    slow = {t: dict(where[t], learning_rate=0.01, momentum=0.5) for t in range(3)}
    simple = run(Population.start(programs, EXECUTORS[0], slow))
    for trial, evaluation in run(Population.start(programs, executor, slow)).items():
        assert evaluation.metrics == pytest.approx(simple[trial].metrics, rel=1e-4)


def test_trials_start_from_weights_of_their_own(programs, where):
    same = dict.fromkeys(range(2), where[0])
    first, second = run(Population.start(programs, EXECUTORS[0], same)).values()
    assert first.metrics != second.metrics


def test_divergence_is_dated_exactly(programs):
    hot = {0: {"learning_rate": 1e30, "momentum": 0.0}, 1: {"learning_rate": 0.01, "momentum": 0.0}}
    seen = [Population.start(programs, executor, hot).advance(0, 30) for executor in EXECUTORS]
    for evaluations in seen:
        assert evaluations[1].diverged_at == 0
        assert 1 < evaluations[0].diverged_at <= 4
    assert len({evaluations[0].diverged_at for evaluations in seen}) == 1


def test_a_step_sees_the_examples_of_the_data_order(programs, where):
    """One step of the population is one step of the plain training function on those examples."""
    from replicax.data.order import example_indices, position
    from replicax.replicate import TrainState
    from replicax.train import make_init, make_step

    digits, optimizer = task(), make_optimizer("nesterov")
    data = digits.load(None)
    h = {name: np.float32(value) for name, value in where[2].items()}
    key = jax.random.fold_in(jax.random.key(3), 2)
    state: TrainState = make_init(digits, optimizer)(key, h)
    n = len(data.train.label)
    for step in range(3):
        at = position(step * programs.batch_size, n)
        indices = example_indices(3, at, programs.batch_size, n)
        batch = digits.batch(data.train, indices)
        state, _ = make_step(digits, optimizer)(state, h, batch)
    logits_sum = digits.metrics(state.params, digits.batch(data.validation, np.arange(299)))
    expected = float(logits_sum["val/cross_entropy_error"].mean())
    found = start(programs, EXECUTORS[0], where, [2]).advance(0, 3)[2]
    assert found.metrics["val/cross_entropy_error"] == pytest.approx(expected, rel=1e-4)
