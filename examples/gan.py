"""Two networks, two optimizers, two step functions on one state: a GAN for points on a circle.

python examples/gan.py
replicax check examples/gan.py
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import replicax as rx
from replicax.models import fully_connected

batch_size = 128
generator, discriminator = fully_connected(2, (64,), 2), fully_connected(2, (64,), 1)
optimizer = optax.adam(1e-3, b1=0.5)


class State(NamedTuple):
    generator: Any
    discriminator: Any


def init_fn(key):
    first, second = jax.random.split(key)
    return State(
        rx.TrainState.create(generator.init(first), optimizer),
        rx.TrainState.create(discriminator.init(second), optimizer),
    )


def input_fn(context):
    random = np.random.default_rng(0)
    while True:  # every pipeline draws the global batch and takes its share of it
        angle = random.uniform(0, 2 * np.pi, batch_size)[context.share]
        yield {"point": np.stack([np.cos(angle), np.sin(angle)], 1).astype(np.float32)}


def fakes(params):
    noise = jax.vmap(lambda key: jax.random.normal(key, (2,)))(rx.example_keys("noise"))
    return generator.apply(params, noise)


def real_or_fake(params, points, label):
    logit = discriminator.apply(params, points)[:, 0]
    return optax.sigmoid_binary_cross_entropy(logit, jnp.full(len(points), label))


def discriminator_step(state, batch):
    def loss_fn(params, batch):
        loss = real_or_fake(params, batch["point"], 1.0)
        loss += real_or_fake(params, fakes(state.generator.params), 0.0)
        return rx.weighted(loss, batch["weight"])

    loss, gradient = rx.value_and_grad(loss_fn)(state.discriminator.params, batch)
    after = state.discriminator.update(gradient, optimizer)
    return state._replace(discriminator=after), {"discriminator": loss}


def generator_step(state, batch):
    def loss_fn(params, batch):
        loss = real_or_fake(state.discriminator.params, fakes(params), 1.0)
        return rx.weighted(loss, batch["weight"])

    loss, gradient = rx.value_and_grad(loss_fn)(state.generator.params, batch)
    return state._replace(generator=state.generator.update(gradient, optimizer)), {
        "generator": loss
    }


def step_fn(state, batch):
    state, losses = discriminator_step(state, batch)
    state, more = generator_step(state, batch)
    return state, losses | more


if __name__ == "__main__":
    with rx.Replicator(batch_size, replicas=4) as replicator:
        state = replicator.init(init_fn)
        discriminate = replicator.compile(discriminator_step)
        generate = replicator.compile(generator_step)
        for number, batch in zip(range(400), replicator.inputs(input_fn), strict=False):
            state, real_or_fake_loss = discriminate(state, batch, number)
            state, fooling_loss = generate(state, batch, number)
        for name, loss in (real_or_fake_loss | fooling_loss).items():
            print(f"{name} loss {loss:.3f}")
