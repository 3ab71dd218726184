"""Copies of the state that differ are noticed, and named."""

from itertools import count, islice

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from small_net import init_fn, input_fn, step_fn

import replicax as rx
from replicax.errors import UserError

FOUND = r"after step 9 those of state\.params\['out'\] differ \(on .*:2\)"


def with_one_wrong_copy(x, device):
    """The array, with one element a bit larger in the copy on one device."""
    parts = [np.array(shard.data) for shard in x.addressable_shards]
    parts[device].flat[-1] += 1e-6
    placed = [
        jax.device_put(part, shard.device)
        for part, shard in zip(parts, x.addressable_shards, strict=True)
    ]
    return jax.make_array_from_single_device_arrays(x.shape, x.sharding, placed)


@pytest.mark.parametrize(
    "options",
    [
        {"replicas": 4},
        {"replicas": 8, "devices": 4},
        {"replicas": 4, "shard_state": "optimizer_state"},
        {"replicas": 4, "devices_per_replica": 2, "partition_rules": [("out", P("model"))]},
    ],
)
def test_a_copy_that_differs_is_named_with_its_step_and_device(options):
    with rx.Replicator(48, compare_every=10, **options) as replicator:
        state = replicator.init(init_fn)
        wrong = with_one_wrong_copy(state.params["out"], 2)
        state = state._replace(params={**state.params, "out": wrong})
        run = replicator.run(step_fn, state, input_fn, steps=15)
        assert len(list(islice(run, 15))) == 15  # no step waits for the comparison
        with pytest.raises(UserError, match=FOUND):
            next(run)


def test_a_callback_that_tells_each_device_something_else_is_found():
    calls = count()

    def drifting(state, batch):
        net, values = step_fn(state["net"], batch)
        told = jax.pure_callback(lambda: np.float32(next(calls)), jax.ShapeDtypeStruct((), "f"))
        return {"net": net, "told": told, "key": jax.random.key(3)}, values

    def init(key):
        return {"net": init_fn(key), "told": jnp.zeros(()), "key": jax.random.key(3)}

    with rx.Replicator(48, replicas=4, compare_every=5) as replicator:
        run = replicator.run(drifting, replicator.init(init), input_fn, steps=100)
        assert len(list(islice(run, 9))) == 9
        with pytest.raises(UserError, match=r"after step 4 those of state\['told'\] differ"):
            next(run)
    assert next(calls) > 1


@pytest.mark.parametrize("options", [{}, {"shard_state": True}, {"devices_per_replica": 2}])
def test_copies_that_are_equal_are_let_through(options):
    with rx.Replicator(48, compare_every=2, **options) as replicator:
        state = replicator.init(init_fn)
        assert sum(1 for _ in replicator.run(step_fn, state, input_fn, steps=31)) == 31


def test_no_comparison_on_request():
    with rx.Replicator(48, replicas=4, compare_every=0) as replicator:
        state = replicator.init(init_fn)
        wrong = with_one_wrong_copy(state.params["out"], 1)
        state = state._replace(params={**state.params, "out": wrong})
        assert sum(1 for _ in replicator.run(step_fn, state, input_fn, steps=31)) == 31
