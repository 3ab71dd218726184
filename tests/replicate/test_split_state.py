"""A state in parts: replicas of several devices, and leaves spread over the replicas."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec as P
from small_net import EXAMPLES, X, input_fn, one_epoch

import replicax as rx
from replicax.errors import UserError

WIDTH, CLASSES = 256, 4
OPTIMIZER = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(1e-2))
# the columns of the first layer, the rows of the second: one sum over the devices of a replica
RULES = [(r"params/w|mu/w|nu/w", P(None, "model")), (r"/out$", P("model"))]


def init_fn(key):
    first, second = jax.random.split(key)
    params = {
        "w": jax.random.normal(first, (X.shape[1], WIDTH)) / 2,
        "b": jnp.zeros(WIDTH),
        "out": jax.random.normal(second, (WIDTH, CLASSES)) / 16,
    }
    return rx.TrainState.create(params, OPTIMIZER)


def apply(params, x):
    return jnp.tanh(x @ params["w"] + params["b"]) @ params["out"]


def loss_fn(params, batch):
    noise = jax.vmap(lambda k: jax.random.normal(k, (X.shape[1],)))(rx.example_keys("noise"))
    logits = apply(params, batch["x"] + 0.1 * noise)
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"])
    return rx.weighted(loss, batch["weight"])


def step_fn(state, batch):
    loss, gradient = rx.value_and_grad(loss_fn)(state.params, batch)
    values = {
        "loss": loss,
        "norm": optax.tree.norm(gradient),
        "mean": rx.all_mean(batch["x"].mean()),
        "of_each": rx.per_replica(rx.replica_id()),
    }
    return state.update(gradient, OPTIMIZER), values


def metric_fn(state, batch):
    logits = apply(state.params, batch["x"])
    return rx.accuracy(logits, batch["y"], batch["weight"])


def train(steps=60, **options):
    """What each step said, the last state on the host, an evaluation, and the state's parts."""
    with rx.Replicator(64, **options) as replicator:
        state = replicator.init(init_fn)
        said = []
        for state, values in replicator.run(step_fn, state, input_fn, steps=steps):
            assert values["of_each"].tolist() == list(range(replicator.replicas))
            said.append([values["loss"], values["norm"], values["mean"]])
        found = replicator.evaluate(metric_fn, state, one_epoch)
        parts = jax.tree.map(lambda x: x.addressable_shards[0].data.shape, state)
        return np.array(jax.device_get(said)), replicator.fetch(state), found, parts


@functools.cache
def on_one_device():
    return train(replicas=1)


def check_equal(options):
    said, state, found, parts = train(**options)
    expected, reference, evaluated, _ = on_one_device()
    np.testing.assert_allclose(said, expected, rtol=2e-5, atol=1e-7)
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(reference), strict=True):
        assert isinstance(a, np.ndarray)
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    assert found.count == EXAMPLES
    assert found.values == pytest.approx(evaluated.values, abs=0.01)
    return parts


@pytest.mark.parametrize(
    ("replicas", "options"),
    [(1, {}), (2, {}), (4, {"devices": 4}), (2, {"microbatches": 4}), (2, {"shard_state": True})],
)
def test_a_replica_over_several_devices_equals_one_device(replicas, options):
    parts = check_equal(
        {"replicas": replicas, "devices_per_replica": 2, "partition_rules": RULES, **options}
    )
    spread = 2 if options.get("shard_state") else 1
    assert parts.params["w"] == (X.shape[1] // spread, WIDTH // 2)
    assert parts.params["out"] == (WIDTH // 2, CLASSES // spread)
    assert parts.optimizer_state[1][0].mu["out"] == parts.params["out"]
    assert parts.params["b"] == (WIDTH,)


def test_the_axes_of_a_replica_have_names():
    rules = [("/w", P("in", "out")), ("/out", P("out"))]
    parts = check_equal(
        {"replicas": 1, "devices_per_replica": {"in": 2, "out": 4}, "partition_rules": rules}
    )
    assert parts.params["w"] == (X.shape[1] // 2, WIDTH // 4)


@pytest.mark.parametrize(
    "options", [{"replicas": 2}, {"replicas": 8}, {"replicas": 8, "devices": 2}]
)
def test_a_state_spread_over_replicas_equals_one_device(options):
    parts = check_equal({**options, "shard_state": True})
    places = options.get("devices", options["replicas"])
    assert parts.params["w"] == (X.shape[1], WIDTH // places)
    assert parts.optimizer_state[1][0].nu["out"] == (WIDTH // places, CLASSES)
    assert parts.params["b"] == (WIDTH,)  # too small


def test_the_optimizer_alone_can_be_spread():
    parts = check_equal({"replicas": 4, "shard_state": "optimizer_state"})
    assert parts.params["w"] == (X.shape[1], WIDTH)
    assert parts.optimizer_state[1][0].nu["w"] == (X.shape[1], WIDTH // 4)


def test_a_run_goes_on_with_a_state_that_was_laid_out_otherwise():
    def losses(state, replicator):
        run = replicator.run(step_fn, state, input_fn, steps=5)
        return np.array([v["loss"] for _, v in run])

    with rx.Replicator(64, replicas=4, shard_state=True) as replicator:
        spread = replicator.init(init_fn)
        expected = losses(spread, replicator)
        host = replicator.fetch(spread)
    with rx.Replicator(64, replicas=4) as replicator:
        np.testing.assert_allclose(losses(spread, replicator), expected, rtol=1e-5)
        np.testing.assert_allclose(losses(host, replicator), expected, rtol=1e-5)
        with_copies = replicator.place(spread)
    with rx.Replicator(64, replicas=2, devices_per_replica=2, partition_rules=RULES) as replicator:
        np.testing.assert_allclose(losses(with_copies, replicator), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partition_rules": [("nowhere", P("model"))]}, "'nowhere' .* is found in none of params"),
        ({"partition_rules": [("/b", P(None, "model"))]}, r"params/b, which has shape \[256\]"),
        ({"partition_rules": [("/w", P("modle"))]}, "replica, model; got 'modle' for params/w"),
        ({"devices_per_replica": 4, "partition_rules": [("/w", P("model"))]},
         r"size 6 of params/w, shape \[6, 256\], into 4"),
        ({"shard_state": "optimiser"}, "'optimiser' is found in none of params/b"),
    ],
)  # fmt: skip
def test_rules_that_do_not_fit(options, message):
    with (
        rx.Replicator(64, **{"replicas": 2, "devices_per_replica": 2, **options}) as replicator,
        pytest.raises(UserError, match=message),
    ):
        replicator.init(init_fn)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"devices_per_replica": 16}, r"got devices_per_replica of 16 in all and 8 device"),
        ({"devices_per_replica": 3}, "of 3 in all and 8 device.*must be a multiple"),
        ({"devices_per_replica": 2, "deterministic": True}, "deterministic mode needs the whole"),
        ({"shard_state": True, "deterministic": True}, "deterministic mode needs the whole"),
    ],
)
def test_layouts_that_cannot_be_had(options, message):
    with pytest.raises(UserError, match=message), rx.Replicator(48, **options):
        pass


@pytest.mark.parametrize("wanted", [0, {"model": 0}, {"replica": 2}, {"model": 1.5}])
def test_devices_per_replica_is_checked_at_once(wanted):
    with pytest.raises(UserError, match="devices_per_replica is a whole number of at least 1"):
        rx.Replicator(48, devices_per_replica=wanted)
