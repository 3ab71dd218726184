"""One contract of the collectives: outside of a replicator, on devices, on shared devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import replicax as rx
from replicax.errors import UserError

PER_REPLICA = 3
LAYOUTS = [None, (1, 1), (2, 2), (8, 8), (8, 2), (6, 1), (4, 4)]  # replicas, devices


@pytest.fixture(params=LAYOUTS, ids=str)
def on_replicas(request):
    """Runs a function of (x [3, 2], replica's number) on each replica; its values, and x in all."""

    def run(function):
        n, devices = request.param or (1, 1)
        x = np.random.default_rng(1).normal(size=(n * PER_REPLICA, 2)).astype(np.float32)
        if request.param is None:
            return function(jnp.asarray(x), 0), x.reshape(1, PER_REPLICA, 2)
        with rx.Replicator(len(x), replicas=n, devices=devices) as replicator:
            step = replicator.compile(lambda s, b: (s, function(b["x"], rx.replica_id())))
            (batch,) = replicator.inputs(lambda _: [{"x": x}])
            return step(jnp.zeros(()), batch)[1], x.reshape(n, PER_REPLICA, 2)

    return run


@pytest.mark.parametrize("name", ["sum", "mean", "min", "max"])
def test_reductions(on_replicas, name):
    found, x = on_replicas(lambda x, _: rx.all_reduce({"a": x, "b": x[0, 0]}, name))
    expected = getattr(np, name)(x, axis=0)
    np.testing.assert_allclose(found["a"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["b"], expected[0, 0], rtol=1e-5, atol=1e-6)


def test_short_names(on_replicas):
    def function(x, _):
        return {"sum": rx.all_sum(x), "min": rx.all_min(x), "max": rx.all_max(x)}

    found, x = on_replicas(function)
    for name, value in found.items():
        np.testing.assert_allclose(value, getattr(np, name)(x, axis=0), rtol=1e-5, atol=1e-6)


def test_a_mean_is_a_sum_and_a_weight(on_replicas):
    def function(x, number):
        share = jnp.float32(number + 1)
        sums = rx.weighted(x[:, 0], jnp.arange(3.0))
        return rx.all_mean(x[0, 0], share), rx.all_mean({"loss": sums})["loss"]

    (mean, of_examples), x = on_replicas(function)
    shares = np.arange(1, len(x) + 1)
    assert float(mean) == pytest.approx(np.average(x[:, 0, 0], weights=shares), abs=1e-5)
    weights = np.tile(np.arange(3.0), len(x))
    assert float(of_examples) == pytest.approx(
        np.average(x[:, :, 0].ravel(), weights=weights), abs=1e-5
    )


def test_gathering_adds_a_leading_axis_in_the_order_of_the_replicas(on_replicas):
    found, x = on_replicas(lambda x, _: rx.all_gather({"x": x}))
    np.testing.assert_array_equal(found["x"], x)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.int32, bool])
def test_broadcast_from_any_replica(on_replicas, dtype):
    def function(x, _):
        return {s: rx.broadcast(x.astype(dtype), s) for s in (0, rx.num_replicas() - 1)}

    found, x = on_replicas(function)
    for source, value in found.items():
        assert value.dtype == dtype
        np.testing.assert_array_equal(value, x[source].astype(dtype))


def test_broadcast_hides_what_the_others_hold(on_replicas):
    found, _ = on_replicas(lambda _, i: rx.broadcast(jnp.where(i == 0, 1.0, jnp.nan)))
    assert found == 1


@pytest.mark.parametrize("count", [1, 5, 16])
def test_jobs_are_spread_and_all_results_come_back(on_replicas, count):
    items = {"a": np.arange(count), "b": np.arange(count)[:, None] * np.ones(2)}

    def function(*_):
        def job(item):
            return {"square": item["a"] ** 2, "vector": item["b"] + 1}

        return rx.map_gather(job, items), rx.map_reduce(job, items, "max")

    (each, most), _ = on_replicas(function)
    np.testing.assert_array_equal(each["square"], np.arange(count) ** 2)
    np.testing.assert_array_equal(each["vector"], items["b"] + 1)
    assert most["square"] == (count - 1) ** 2


def test_each_replica_knows_its_number_and_how_many_there_are(on_replicas):
    def function(_, number):
        return rx.per_replica({"id": rx.replica_id() + 0 * number, "n": rx.num_replicas()})

    found, x = on_replicas(function)
    if isinstance(found, rx.PerReplica):  # outside
        assert found.value == {"id": 0, "n": 1}
        return
    np.testing.assert_array_equal(found["id"], np.arange(len(x)))
    np.testing.assert_array_equal(found["n"], np.full(len(x), len(x)))


def test_gradients_go_through_collectives(on_replicas):
    """d/dx of the sum over replicas of (x - mean over replicas)^2, as one device gives it."""

    def function(x, _):
        gradient = jax.grad(lambda x: ((x - rx.all_mean(x)) ** 2).sum())(x)
        return rx.all_gather(gradient)

    found, x = on_replicas(function)
    expected = jax.grad(lambda x: ((x - x.mean(0)) ** 2).sum())(x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_hosts_agree_with_themselves():
    assert [bool(rx.agree(v, how)) for v in (True, False) for how in ("all", "any")] == [
        True, True, False, False,
    ]  # fmt: skip
    assert rx.agree(np.array([3, 1]), "max").tolist() == [3, 1]
    rx.barrier()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rx.all_reduce(1.0, "median"), "knows sum, mean, min, max; got 'median'"),
        (lambda: rx.map_reduce(abs, jnp.ones(2), "prod"), "knows sum.*'prod'"),
        (lambda: rx.broadcast(1.0, 3), r"one of the replicas, 0\.\.0; got 3"),
        (lambda: rx.map_gather(abs, [jnp.ones(2), jnp.ones(3)]), r"got \[2, 3\]"),
        (lambda: rx.agree(1, "most"), "knows all, any, min, max, first; got 'most'"),
        (lambda: rx.weighted(jnp.ones((2, 3)), jnp.ones(2)), r"got \[2, 3\] and \[2\]"),
        (rx.example_keys, "random streams belong to a step"),
    ],
)
def test_wrong_use(call, message):
    with pytest.raises(UserError, match=message):
        call()
