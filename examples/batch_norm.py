"""Batch normalisation over the whole batch, whatever the number of replicas.

    python examples/batch_norm.py
    replicax check examples/batch_norm.py

Groups are counted in examples: group=64 is ghost batch normalisation, the same on any devices.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

import replicax as rx

batch_size = 256
optimizer = optax.sgd(0.2, momentum=0.9)


class State(NamedTuple):
    train: rx.TrainState
    running: Any  # moments for evaluation, equal on all replicas


def init_fn(key):
    first, second = jax.random.split(key)
    params = {
        "first": jax.random.normal(first, (64, 32)) / 8,
        "scale": jnp.ones(32),
        "offset": jnp.zeros(32),
        "second": jax.random.normal(second, (32, 10)) / 6,
    }
    moments = rx.Moments(jnp.zeros(32), jnp.ones(32))
    return State(rx.TrainState.create(params, optimizer), moments)


def input_fn(context):
    return rx.data.batches("digits", "train", context)


def apply(params, image, normalise):
    hidden, moments = normalise(image.reshape(len(image), 64) @ params["first"])
    hidden = jax.nn.relu(hidden * params["scale"] + params["offset"])
    return hidden @ params["second"], moments


def loss_fn(params, batch):
    def normalise(x):
        return rx.batch_norm(x, batch.weight, group="global")

    logits, moments = apply(params, batch.image, normalise)
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, batch.label)
    return rx.weighted(loss, batch.weight), moments


def step_fn(state, batch):
    (loss, moments), gradient = rx.value_and_grad(loss_fn, has_aux=True)(state.train.params, batch)
    found = rx.all_mean(moments)
    running = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, state.running, found)
    return State(state.train.update(gradient, optimizer), running), {"loss": loss}


def metric_fn(state, batch):
    mean, variance = state.running
    logits, _ = apply(
        state.train.params, batch.image, lambda x: ((x - mean) / jnp.sqrt(variance + 1e-5), None)
    )
    return rx.accuracy(logits, batch.label, batch.weight)


if __name__ == "__main__":
    with rx.Replicator(batch_size, replicas=8) as replicator:
        state = replicator.init(init_fn)
        for state, values in replicator.run(step_fn, state, input_fn, steps=200):
            pass
        found = replicator.evaluate(
            metric_fn, state, lambda context: rx.data.batches("digits", "test", context)
        )
        print(f"loss {values['loss']:.4f}, accuracy {found.values:.4f} over {found.count} examples")
