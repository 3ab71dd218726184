"""`replicax check` proves that N equals 1 on a user's file, or names what differs; `doctor`."""

import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import replicax as rx
from replicax.errors import UserError
from replicax.replicate.check import Subject, compare

REPLICAX = [sys.executable, "-m", "replicax.cli"]
X = np.random.default_rng(2).normal(size=(64, 3)).astype(np.float32)


def subject(step_fn):
    def input_fn(context):
        while True:
            yield {"x": X[context.share]}

    return Subject(lambda _: {"w": jnp.ones(3), "n": jnp.zeros(())}, input_fn, step_fn, 64)


def found(step_fn, replicas=(1, 2, 4), **options):
    return list(compare(subject(step_fn), replicas, **{"steps": 5, "tolerance": 1e-4, **options}))


def right(state, batch):
    def loss(w, batch):
        return rx.weighted((batch["x"] @ w) ** 2, batch["weight"])

    value, gradient = rx.value_and_grad(loss)(state["w"], batch)
    values = {"loss": value, "own": rx.per_replica(batch["x"].sum())}
    return {"w": state["w"] - 0.1 * gradient, "n": state["n"] + 1}, values


def test_a_right_step_is_equal():
    results = found(right)
    assert [r.replicas for r in results] == [2, 4]
    for result in results:
        assert (result.leaf, result.step, result.steps) == (None, None, 5)
        assert 0 <= result.difference < 1e-5


def mean_of_medians(state, batch):
    """Differs for N > 1, since a mean of medians is not the median."""
    after, values = right(state, batch)
    return after, {**values, "median": rx.all_mean(jnp.median(batch["x"]))}


def own_clock(state, batch):
    """A counter that advances with the replicas, from step 2 on."""
    after, values = right(state, batch)
    late = jnp.maximum(state["n"] - 1, 0) * (rx.num_replicas() - 1)
    return {**after, "n": after["n"] + late}, values


@pytest.mark.parametrize(
    ("step_fn", "leaf", "step"),
    [(mean_of_medians, "values['median']", 0), (own_clock, "state['n']", 2)],
)
def test_the_first_leaf_and_step_that_differ_are_named(step_fn, leaf, step):
    for result in found(step_fn):
        assert (result.leaf, result.step) == (leaf, step)
        assert result.difference > 1e-4


def test_what_is_not_a_number_on_one_side_differs():
    def step(state, batch):
        after, values = right(state, batch)
        return {**after, "n": after["n"] / (2 - rx.num_replicas())}, values

    (result,) = found(step, (1, 2))
    assert (result.leaf, result.step) == ("state['n']", 0)


FILE = """
import jax.numpy as jnp, numpy as np, replicax as rx

BATCH_SIZE = 32

def init_fn(key):
    return jnp.zeros(())

def input_fn(context):
    while True:
        yield {"x": np.arange(32.0, dtype=np.float32)[context.share]}

def step_fn(state, batch):
    return state + 1, rx.all_REDUCED(batch["x"].sum())

if __name__ == "__main__":
    raise SystemExit("a check runs the functions only")
"""


@pytest.mark.parametrize(("reduced", "code"), [("sum", 0), ("mean", 1)])
def test_the_command(tmp_path, reduced, code):
    file = tmp_path / "train.py"
    file.write_text(FILE.replace("REDUCED", reduced))
    command = [*REPLICAX, "check", file, "--replicas", "1,2,8", "--steps", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["2", "8"]
    if code == 0:
        assert all(line.endswith("equal, largest relative difference 0.0e+00") for line in lines)
    else:  # 496 on one replica, 248 and 62 on the others
        assert lines[0].endswith("beside 1, 3 steps: values differs in step 0 by 5.0e-01")
        assert lines[1].endswith("beside 1, 3 steps: values differs in step 0 by 8.8e-01")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py"], "no such file: nowhere.py"),
        ([Path(__file__).parent / "test_check.py"], "lacks init_fn, input_fn, step_fn"),
        (["x.py", "--replicas", "4"], "--replicas is two or more counts such as 1,2,4,8; got '4'"),
        (["x.py", "--replicas", "0,1"], "got '0,1'"),
    ],
)
def test_wrong_use(arguments, message):
    command = [*REPLICAX, "check", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_batch_that_cannot_be_split_is_an_error_of_one_line(tmp_path):
    file = tmp_path / "train.py"
    file.write_text(FILE.replace("REDUCED", "sum").replace("= 32", "= 12"))
    command = [*REPLICAX, "check", file, "--replicas", "1,8"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "got 12 and 8 x 1 = 8; the nearest sizes are 8 and 16" in done.stderr


def test_the_doctor_finds_a_sound_machine_sound():
    done = subprocess.run([*REPLICAX, "doctor"], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout
    looked_at = [line.split(":")[0].split(maxsplit=1) for line in done.stdout.splitlines()]
    assert [what for _, what in looked_at] == [
        "versions", "devices", "proxies", "ports", "8 CPU devices, one process", "two processes",
    ]  # fmt: skip
    assert {verdict for verdict, _ in looked_at} <= {"ok", "note"}


def test_the_doctor_names_a_proxy(monkeypatch):
    from replicax.replicate import doctor

    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    finding = doctor.proxies()
    assert finding.verdict == "note"
    assert "http_proxy" in finding.said
    assert "no_proxy=localhost,127.0.0.1" in finding.said
    monkeypatch.setenv("no_proxy", "localhost,127.0.0.1")
    assert doctor.proxies().verdict == "ok"


def test_a_subject_names_what_its_file_lacks(tmp_path):
    file = tmp_path / "train.py"
    file.write_text("def init_fn(key): ...\ninput_fn = 3\n")
    with pytest.raises(UserError, match=r"lacks input_fn, step_fn$"):
        Subject.of_file(file, None)
