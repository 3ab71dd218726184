"""A small network on random data, written as for one device; and one step of it in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import replicax as rx

EXAMPLES, FEATURES, CLASSES = 230, 6, 3
_rng = np.random.default_rng(0)
X = _rng.normal(size=(EXAMPLES, FEATURES)).astype(np.float32)
Y = _rng.integers(0, CLASSES, EXAMPLES)
OPTIMIZER = optax.sgd(0.1, momentum=0.9, nesterov=True)


def init_fn(key):
    first, second = jax.random.split(key)
    params = {
        "w": jax.random.normal(first, (FEATURES, 8)) / 2,
        "b": jnp.zeros(8),
        "out": jax.random.normal(second, (8, CLASSES)) / 3,
    }
    return rx.TrainState.create(params, OPTIMIZER)


def apply(params, x):
    return jnp.tanh(x @ params["w"] + params["b"]) @ params["out"]


def loss_fn(params, batch):
    logits = apply(params, batch["x"])
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"])
    return rx.weighted(loss, batch["weight"])


def step_fn(state, batch):
    loss, gradient = rx.value_and_grad(loss_fn)(state.params, batch)
    return state.update(gradient, OPTIMIZER), {"loss": loss}


def one_epoch(context):
    """Each example once; the last batch is ragged, and some pipelines' share of it empty."""
    for start in range(0, EXAMPLES, context.batch_size):
        x, y = (a[start : start + context.batch_size][context.share] for a in (X, Y))
        if len(x):
            yield {"x": x, "y": y}
        else:
            yield {"x": X[:1], "y": Y[:1], "weight": np.zeros(1, np.float32)}


def input_fn(context):
    while True:
        yield from one_epoch(context)


def train(steps, batch_size=48, step_fn=step_fn, **options):
    """The losses of a run, and its last state, on the host."""
    with rx.Replicator(batch_size, **options) as replicator:
        state = replicator.init(init_fn)
        losses = []
        for state, values in replicator.run(step_fn, state, input_fn, steps=steps):
            losses.append(values["loss"])
        return np.array(jax.device_get(losses)), jax.device_get(state)
