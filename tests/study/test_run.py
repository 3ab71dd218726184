"""Studies: racing is exact, interruptions leave no trace, divergence and edges are recorded."""

import pytest
from small_studies import Watch, configuration, learning_rates, run, task

from replicax.study.ledger import Ledger
from replicax.study.run import Stopped


def outcome(report):
    return [(p.steps, p.trial, p.value, p.interval, p.edges) for p in report.curve.points]


def steps_run(report):
    return sum(r.last_step for p in report.curve.points for r in p.runs)


def run_for(checks, folder, config):
    """Runs until the stop function has been asked that often; None if it was stopped."""
    countdown = iter(range(checks))
    try:
        return run(
            folder, config, stop=lambda: None if next(countdown, None) is not None else "enough"
        )
    except Stopped as stopped:
        return None if str(stopped) == "enough" else pytest.fail("stopped for another reason")


@pytest.mark.parametrize("seed", range(4))
def test_racing_returns_the_row_and_the_interval_of_the_exhaustive_run(tmp_path, seed):
    config = {"seed": seed, "batch_sizes": (16, 256), "trials": 12}
    raced = run(tmp_path / "raced", configuration(**config))
    full = run(tmp_path / "full", configuration(**config, exhaustive=True))
    assert outcome(raced) == outcome(full)
    assert all(p.steps is not None for p in full.curve.points)
    assert steps_run(raced) < steps_run(full)
    assert {r.status for p in raced.curve.points for r in p.runs} == {"complete", "stopped"}
    assert all(r.last_step == 120 for p in full.curve.points for r in p.runs)


def test_racing_stops_with_the_last_needed_finisher(tmp_path):
    (point,) = run(tmp_path, configuration(widen=False)).curve.points
    reached = sorted(r.reached for r in point.runs if r.reached is not None)
    assert len(reached) >= 3
    assert max(r.last_step for r in point.runs) == reached[2]


@pytest.mark.parametrize("checks", [1, 2, 7, 20])
def test_a_study_that_was_stopped_goes_on_to_the_same_bits(tmp_path, checks):
    config = configuration(batch_sizes=(64, 16))
    whole = run(tmp_path / "whole", config)
    pieces = [run_for(checks, tmp_path / "broken", config)]
    while pieces[-1] is None:
        pieces.append(run_for(checks, tmp_path / "broken", config))
    assert len(pieces) > 1
    assert pieces[-1].curve == whole.curve
    with Ledger.read(tmp_path / "broken") as a, Ledger.read(tmp_path / "whole") as b:
        keys = ["batch_size", "trial", "step"]
        assert a.measurements().sort(keys).equals(b.measurements().sort(keys))


def test_a_finished_study_is_not_run_again(tmp_path):
    first = run(tmp_path, configuration())
    before = sorted(p.name for p in tmp_path.glob("measurements-*"))
    again = run(tmp_path, configuration(), stop=lambda: pytest.fail("it ran"))
    assert again.curve == first.curve
    assert sorted(p.name for p in tmp_path.glob("measurements-*")) == before


def test_a_diverging_trial_is_infeasible_with_step_and_reason(tmp_path):
    hot = task(space=learning_rates(1e-2, 1e28))
    (point,) = run(tmp_path, configuration(goal=0.12, widen=False), hot).curve.points
    infeasible = [r for r in point.runs if r.status == "infeasible"]
    assert point.trials.infeasible == len(infeasible) >= 3
    for r in infeasible:
        assert "not finite at step" in r.reason
        assert r.reason.endswith(f"step {r.last_step}")
        assert r.reached is None


def test_counting_feasible_trials_tops_up(tmp_path):
    hot = task(space=learning_rates(1e-2, 1e28))
    config = configuration(goal=0.12, widen=False, count_feasible=True)
    (point,) = run(tmp_path, config, hot).curve.points
    feasible = [r for r in point.runs if r.status != "infeasible"]
    assert len(feasible) >= 8 or len(point.runs) == 4 * 8
    assert {r.wave for r in point.runs} == {"initial", "top-up"}
    plain = run(tmp_path / "plain", configuration(goal=0.12, widen=False), hot).curve.points[0]
    drawn = [r.hyperparameters for r in plain.runs]
    assert [r.hyperparameters for r in point.runs[:8]] == drawn


def test_an_optimum_at_a_bound_widens_the_space(tmp_path):
    low = task(space=learning_rates(1e-4, 1e-2))
    config = configuration(goal=0.2, batch_sizes=(256,), max_steps=60)
    (point,) = run(tmp_path, config, low).curve.points
    waves = [r.wave for r in point.runs]
    assert "learning_rate above 0.01" in waves
    assert {d.name: d.high for d in point.space}["learning_rate"] > 0.09
    added = [r for r in point.runs if r.wave == "learning_rate above 0.01"]
    assert all(0.01 <= r.hyperparameters["learning_rate"] <= 0.1 for r in added)


def test_without_widening_the_edge_is_reported(tmp_path):
    low = task(space=learning_rates(1e-4, 1e-2))
    config = configuration(goal=0.2, batch_sizes=(256,), max_steps=60, widen=False)
    (point,) = run(tmp_path, config, low).curve.points
    assert point.at_edge
    assert "learning_rate above" in point.edges
    assert {r.wave for r in point.runs} == {"initial"}


def test_an_unreached_goal_has_no_steps_and_keeps_the_best_error(tmp_path):
    config = configuration(goal=0.001, max_steps=12, widen=False)
    (point,) = run(tmp_path, config).curve.points
    assert point.steps is None
    assert 0.001 < point.best < 0.9
    assert point.trials.complete == 8
    assert all(r.last_step == 12 for r in point.runs)


def test_example_budget_ends_trials(tmp_path):
    config = configuration(goal=0.001, max_examples=64 * 9 + 5, widen=False)
    (point,) = run(tmp_path, config).curve.points
    assert all(r.last_step == 9 for r in point.runs)


def test_progress_tells_the_truth(tmp_path, monkeypatch):
    watch = Watch()
    monkeypatch.setattr("small_studies.Watch", lambda: watch)
    (point,) = run(tmp_path, configuration(widen=False)).curve.points
    states = [p.state for p in watch.seen]
    assert states[0] == "measuring"
    assert set(states[1:-1]) == {"running"}
    assert states[-1] == "done"
    assert watch.seen[-1].steps_to_result == point.steps
    assert watch.seen[-1].stopped == point.trials.stopped
    assert all(p.running + p.reached + p.stopped + p.infeasible == 8 for p in watch.seen[1:])
