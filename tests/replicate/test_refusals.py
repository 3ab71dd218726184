"""What is refused before the first step, on one replica as on many."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import replicax as rx
from replicax.errors import UserError

X = np.ones((16, 3), np.float32)


def init_fn(_):
    return {"w": jnp.ones(3), "n": jnp.int32(0)}


def input_fn(context):
    while True:
        yield {"x": X[context.share]}


def loss_fn(w, batch):
    return rx.weighted(batch["x"] @ w, batch["weight"])


def unreduced(state, batch):
    gradient = jax.grad(lambda w: loss_fn(w, batch).total)(state["w"])
    return {**state, "w": state["w"] - gradient}, {}


def in_branch(state, batch):
    def summed():
        return rx.all_sum(batch["x"].sum())

    return state, {"sum": jax.lax.cond(state["n"] > 0, summed, lambda: 0.0)}


def in_while(state, batch):
    def more(x):
        return x + rx.all_sum(batch["x"].sum())

    return state, {"sum": jax.lax.while_loop(lambda x: x < 9, more, 0.0)}


def with_bare_mean(state, batch):
    _, gradient = rx.value_and_grad(lambda w, b: (b["x"] @ w).mean())(state["w"], batch)
    return {**state, "w": gradient}, {}


def with_bare_aux(state, batch):
    _, gradient = rx.value_and_grad(loss_fn, has_aux=True)(state["w"], batch)
    return {**state, "w": gradient}, {}


REFUSED = {
    "unreduced": (unreduced, r"state\['w'\] depends on the replica's own.*value_and_grad"),
    "local value": (lambda s, b: (s, {"m": b["x"].mean()}), r"values\['m'\] depends.*per_replica"),
    "number": (lambda s, _: (s, rx.replica_id()), r"values depends on the replica"),
    "in cond": (in_branch, "psum stands inside lax.cond or lax.switch"),
    "in while": (in_while, "psum stands inside lax.while_loop"),
    "structure": (lambda s, _: ({"w": s["w"]}, {}), r"gone: \['n'\]; new: nothing"),
    "new leaf": (lambda s, _: ({**s, "z": s["w"]}, {}), r"gone: nothing; new: \['z'\]"),
    "container": (lambda s, _: (list(s.values()), {}), r"gone: .*; new: \[0\], \[1\]"),
    "shape": (lambda s, _: ({**s, "w": s["w"][:2]}, {}), r"\['w'\] was float32\[3\].*float32\[2\]"),
    "type": (lambda s, _: ({**s, "n": s["n"] + 0.5}, {}), r"\['n'\] was int32\[\].*float32\[\]"),
    "no values": (lambda s, _: s, r"returns \(state, values\).*got dict"),
    "not an array": (lambda s, _: ({**s, "n": "x"}, {}), r"returned state\['n'\] is of type str"),
    "bare mean": (with_bare_mean, r"returns weighted\(values, weight\).*an array of shape \[\]"),
    "no aux": (with_bare_aux, r"\(weighted\(values, weight\), aux\)"),
}


@pytest.mark.parametrize("replicas", [1, 4, 16])
@pytest.mark.parametrize("name", REFUSED)
def test_steps_that_are_refused(replicas, name):
    step_fn, message = REFUSED[name]
    with rx.Replicator(16, replicas=replicas) as replicator:
        state = replicator.init(init_fn)
        with pytest.raises((UserError, ValueError), match=message):
            next(replicator.run(step_fn, state, input_fn))
        assert state["w"].tolist() == [1, 1, 1]  # nothing is lost


def test_an_error_of_the_step_itself_is_shown_as_it_is():
    def broken(*_):
        raise ValueError("mine")

    with rx.Replicator(16, replicas=2) as replicator:
        state = replicator.init(init_fn)
        with pytest.raises(ValueError, match="mine"):
            next(replicator.run(broken, state, input_fn))


def test_branches_without_collectives_are_fine():
    def step(state, batch):
        x = jax.lax.cond(batch["x"].sum() > 0, lambda: 1.0, lambda: 2.0)
        return state, jax.lax.scan(lambda c, r: (c + rx.all_sum(r), None), 0.0, jnp.ones(3) * x)[0]

    with rx.Replicator(16, replicas=4) as replicator:
        _, found = next(replicator.run(step, replicator.init(init_fn), input_fn))
    assert found == 12


LAYOUTS = {
    "batch": ({"batch_size": 10, "replicas": 4}, "got 10 and 4 x 1 = 4; the nearest.* 8 and 12"),
    "small batch": ({"batch_size": 3, "replicas": 4}, "the nearest sizes are 4"),
    "microbatches": ({"batch_size": 8, "replicas": 4, "microbatches": 4}, "4 x 4 = 16.* 16"),
    "devices": ({"batch_size": 8, "devices": 99}, "got 99, and JAX has 8.*launch --devices"),
    "zero": ({"batch_size": 0}, "batch_size must be a whole number of at least 1; got 0"),
    "fraction": ({"batch_size": 8, "replicas": 2.0}, "replicas must be a whole number.*got 2.0"),
    "blocks": ({"batch_size": 12, "replicas": 2, "deterministic": 6}, "power of two.*got 6"),
    "many": ({"batch_size": 16, "replicas": 16, "deterministic": True}, "8 blocks and 16 x 1"),
    "odd": ({"batch_size": 12, "replicas": 4, "deterministic": True}, "multiple of the 8 blocks"),
    "shared": (
        {"batch_size": 8, "replicas": 8, "devices": 4, "deterministic": True},
        "needs a device for each replica; got 8 replicas on 4",
    ),
    "mode": ({"batch_size": 8, "input_mode": "per_gpu"}, "one of one, per_worker, per_replica"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_that_are_refused(name):
    options, message = LAYOUTS[name]
    with pytest.raises(UserError, match=message), rx.Replicator(**options):
        pass
    with rx.Replicator(8) as replicator:  # nothing is left behind
        assert replicator.replicas == 8


def test_replicators_are_not_nested_and_work_in_their_context_only():
    with rx.Replicator(8) as first:
        with pytest.raises(UserError, match="cannot be nested"), rx.Replicator(8):
            pass
        assert first.replicas == 8
    with pytest.raises(UserError, match="works inside its context"):
        _ = first.replicas


def test_batches_of_another_size_are_refused():
    with rx.Replicator(16, replicas=2) as replicator:
        step = replicator.compile(lambda s, _: (s, {}))
        with pytest.raises(UserError, match=r"the 16 examples.*batch\['x'\] has shape \[8, 3\]"):
            step(jnp.zeros(()), {"x": jnp.ones((8, 3))})
        with pytest.raises(UserError, match=r"state\[0\] is of type int"):
            step([1], {"x": jnp.ones((16, 3))})
        with pytest.raises(UserError, match="at least one array"):
            step(jnp.zeros(()), {})


def test_what_comes_back_is_of_one_type_for_every_number_of_replicas():
    def step(state, batch):
        values = {"sum": rx.all_sum(batch["x"].sum()), "of": rx.per_replica({"x": batch["x"]})}
        return state, values

    for n in (1, 4, 16):
        with rx.Replicator(16, replicas=n) as replicator:
            _, values = next(replicator.run(step, replicator.init(init_fn), input_fn))
        assert values["sum"].shape == ()
        assert values["of"]["x"].shape == (n, 16 // n, 3)


def test_a_step_that_was_compiled_takes_other_shapes_too():
    with rx.Replicator(16, replicas=2) as replicator:
        step = replicator.compile(lambda s, b: (s + rx.all_sum(b["x"].sum()), {}))
        for width in (3, 5):
            state, _ = step(jnp.zeros(()), {"x": jnp.ones((16, width))})
            assert state == 16 * width


def test_auxiliary_values_of_parts_are_joined():
    def loss(w, batch):
        value = batch["x"] @ w
        return rx.weighted(value, batch["weight"]), {
            "each": value, "sum": rx.weighted(value, batch["weight"]),
        }  # fmt: skip

    def step(state, batch):
        (_, aux), _ = rx.value_and_grad(loss, has_aux=True)(state["w"], batch)
        return state, {"each": rx.per_replica(aux["each"]), "mean": rx.all_mean(aux["sum"])}

    for options in ({"microbatches": 1}, {"microbatches": 4}, {"deterministic": True}):
        with rx.Replicator(16, replicas=2, **options) as replicator:
            state = replicator.init(init_fn)
            _, values = next(replicator.run(step, state, input_fn))
        assert values["each"].tolist() == [[3.0] * 8] * 2
        assert values["mean"] == 3
