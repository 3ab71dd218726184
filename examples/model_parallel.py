"""A perceptron whose layers are split over the devices of a replica.

replicax launch --devices 8 examples/model_parallel.py 4    # 2 replicas of 4 devices each
replicax launch --devices 8 examples/model_parallel.py 1    # 8 replicas, the same numbers

The step is that of examples/train.py. Rules say which leaves are split, along which dimension.
Optimizer state follows, since its paths end like those of the parameters.
"""

import sys

import jax
import optax
from jax.sharding import PartitionSpec as P

import replicax as rx
from replicax.models import fully_connected

batch_size = 256
model = fully_connected(64, (512, 512), 10)
optimizer = optax.adamw(1e-3)

# columns of one layer, rows of the next: one sum over devices for two layers
partition_rules = [
    (r"/0/weight$", P(None, "model")),
    (r"/0/bias$", P("model")),
    (r"/1/weight$", P("model", None)),
]


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


if __name__ == "__main__":
    with rx.Replicator(
        batch_size, devices_per_replica={"model": int(sys.argv[1])}, partition_rules=partition_rules
    ) as replicator:
        state = replicator.init(init_fn)
        for state, values in replicator.run(step_fn, state, input_fn, steps=200):
            pass
        if jax.process_index() == 0:
            weight = state.params[1].weight
            print(f"loss {values['loss']:.3f} on {replicator.replicas} replicas")
            print(f"{weight.shape}, on each device {weight.addressable_shards[0].data.shape}")
