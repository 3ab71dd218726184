"""A training step as for one device, run on every device there is.

python examples/train.py                                          # all devices
replicax launch --devices 8 examples/train.py                     # 8 CPU devices
replicax launch --processes 2 --devices-per-process 2 examples/train.py
replicax check examples/train.py --replicas 1,2,4,8               # N equals 1
"""

import jax
import optax

import replicax as rx
from replicax.models import fully_connected

batch_size = 256
model = fully_connected(64, (64,), 10)
optimizer = optax.sgd(0.1, momentum=0.9, nesterov=True)


def init_fn(key):
    return rx.TrainState.create(model.init(key), optimizer)


def input_fn(context):
    return rx.data.batches("digits", "train", context)


def loss_fn(params, batch):
    logits = model.apply(params, batch.image)
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, batch.label)
    return rx.weighted(loss, batch.weight)


def step_fn(state, batch):
    loss, gradient = rx.value_and_grad(loss_fn)(state.params, batch)
    return state.update(gradient, optimizer), {"loss": loss}


def metric_fn(state, batch):
    logits = model.apply(state.params, batch.image)
    return {"accuracy": rx.accuracy(logits, batch.label, batch.weight)}


if __name__ == "__main__":
    with rx.Replicator(batch_size) as replicator:
        state = replicator.init(init_fn, seed=0)
        for step, (state, values) in enumerate(
            replicator.run(step_fn, state, input_fn, steps=300), start=1
        ):
            if step % 100 == 0 and jax.process_index() == 0:
                print(f"step {step}: loss {values['loss']:.4f} on {replicator.replicas} replicas")
        found = replicator.evaluate(
            metric_fn, state, lambda context: rx.data.batches("digits", "test", context)
        )
        if jax.process_index() == 0:
            print(f"accuracy {found.values['accuracy']:.4f} over {found.count} test examples")
