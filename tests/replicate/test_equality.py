"""Invariant 4: N replicas equal one, within rounding; in deterministic mode to the last bit."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_net import EXAMPLES, OPTIMIZER, X, Y, apply, init_fn, input_fn, loss_fn, train

import replicax as rx


@functools.cache
def one_replica():
    return train(100, replicas=1)


def plain_training(steps, batch_size):
    """The same run without replicax: jax.grad of the mean over the examples that there are."""

    def mean_loss(params, x, y):
        return optax.softmax_cross_entropy_with_integer_labels(apply(params, x), y).mean()

    @jax.jit
    def step(state, x, y):
        loss, gradient = jax.value_and_grad(mean_loss)(state.params, x, y)
        return state.update(gradient, OPTIMIZER), loss

    state, losses = init_fn(jax.random.key(0)), []
    while len(losses) < steps:
        for start in range(0, EXAMPLES, batch_size):
            stop = start + batch_size
            state, loss = step(state, X[start:stop], Y[start:stop])
            losses.append(loss)
    return np.array(losses[:steps])


def test_one_replica_is_the_plain_program():
    assert EXAMPLES % 48 != 0  # ragged tails
    np.testing.assert_allclose(one_replica()[0], plain_training(100, 48), rtol=1e-5)


@pytest.mark.parametrize("microbatches", [1, 2, 4])
@pytest.mark.parametrize("replicas", [1, 2, 4, 8])
def test_replicas_and_microbatches_change_nothing(replicas, microbatches):
    size = 64  # divides by 8 x 4
    losses, state = train(100, size, replicas=replicas, microbatches=microbatches)
    expected, reference = train(100, size, replicas=1)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(reference), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_replicas_that_share_a_device_change_nothing(devices):
    losses, _ = train(100, replicas=16, devices=devices)
    np.testing.assert_allclose(losses, one_replica()[0], rtol=1e-5)


@pytest.mark.parametrize("mode", ["one", "per_worker", "per_replica"])
def test_input_modes_change_nothing(mode):
    losses, _ = train(30, replicas=4, input_mode=mode)
    np.testing.assert_allclose(losses, one_replica()[0][:30], rtol=1e-5)


@pytest.mark.parametrize("microbatches", [1, 2])
@pytest.mark.parametrize("replicas", [2, 4, 8])
def test_deterministic_mode_keeps_every_bit(replicas, microbatches):
    if replicas * microbatches > 8:
        microbatches = 1
    losses, state = train(1000, replicas=replicas, microbatches=microbatches, deterministic=True)
    expected, reference = deterministic_reference()
    assert losses.tobytes() == expected.tobytes()
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(reference), strict=True):
        assert a.tobytes() == b.tobytes()


@functools.cache
def deterministic_reference():
    return train(1000, replicas=1, deterministic=True)


def test_without_deterministic_mode_some_bits_differ():
    """Or the test above would show nothing."""
    assert train(1000, replicas=8)[0].tobytes() != train(1000, replicas=1)[0].tobytes()


def noisy_loss(params, batch):
    """Dropout and noise, example by example."""
    keys = rx.example_keys("dropout")
    kept = jax.vmap(lambda k: jax.random.bernoulli(k, 0.8, (X.shape[1],)))(keys)
    noise = jax.vmap(lambda k: jax.random.normal(k, (X.shape[1],)))(rx.example_keys("noise"))
    return loss_fn(params, {**batch, "x": (batch["x"] + noise) * kept})


def noisy_step(state, batch):
    loss, gradient = rx.value_and_grad(noisy_loss)(state.params, batch)
    shift = jax.random.normal(rx.shared_key("shift"))
    gradient = jax.tree.map(lambda g: g + 0.01 * shift, gradient)
    return state.update(gradient, OPTIMIZER), {"loss": loss}


@pytest.mark.parametrize("options", [{"replicas": 4}, {"replicas": 2, "microbatches": 4}])
def test_randomness_of_examples_does_not_depend_on_the_split(options):
    expected, _ = train(50, step_fn=noisy_step, replicas=1)
    losses, _ = train(50, step_fn=noisy_step, **options)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert np.abs(losses - train(50, replicas=1)[0]).max() > 0.01  # there is noise


def test_a_run_that_goes_on_equals_one_that_was_never_interrupted():
    def from_batch(first):
        def inputs(context):
            batches = input_fn(context)
            for _ in range(first):
                next(batches)
            return batches

        return inputs

    with rx.Replicator(48, replicas=4) as replicator:
        start = replicator.init(init_fn)
        whole = [v for _, v in replicator.run(noisy_step, start, input_fn, steps=12)]
        for state, _ in replicator.run(noisy_step, start, input_fn, steps=5):
            kept = jax.device_get(state)
        resumed = replicator.run(noisy_step, kept, from_batch(5), steps=7, first_step=5)
        rest = [v for _, v in resumed]
    assert jax.device_get(rest) == jax.device_get(whole[5:])


def two_phases(state, batch):
    """A step in free form: its own gradients, two optimizers, a collective in the middle."""
    (params, first), second = state
    count = batch["weight"].sum()

    def local_mean(params):
        return loss_fn(params, batch).total / count

    update, first = rx.wrap_optimizer(OPTIMIZER).update(
        jax.grad(local_mean)(params), first, params, weight=count
    )
    params = optax.apply_updates(params, update)
    centre = rx.all_mean(batch["x"].mean(0))
    return ((params, first), 0.9 * second + centre), {"loss": rx.all_mean(loss_fn(params, batch))}


def test_free_form_steps_are_equal_too():
    def run(n):
        with rx.Replicator(48, replicas=n) as replicator:
            state = replicator.init(lambda key: (tuple(init_fn(key)), jnp.zeros(X.shape[1])))
            values = [v["loss"] for _, v in replicator.run(two_phases, state, full, steps=40)]
            return np.array(jax.device_get(values))

    def full(context):
        return (b for b in input_fn(context) if "weight" not in b and len(b["x"]) == 48)

    np.testing.assert_allclose(run(8), run(1), rtol=1e-5)


def test_two_thousand_queued_steps_on_eight_devices_do_not_hang():
    losses, _ = train(2000, replicas=8)
    assert np.isfinite(losses).all()
