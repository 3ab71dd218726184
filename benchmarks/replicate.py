"""Time of a replicated step beside the same step written by hand with `jax.shard_map`.

784-1024-1024-10, batch size 512, Nesterov, float32, on 1, 2 and 8 CPU devices of one process; and
in deterministic mode. Both sides take turns, on the same batch, and must learn the same. Then what
the host does per step, with a state of ten small leaves and inputs from an iterator. Prints JSON:

    python benchmarks/replicate.py
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import replicax as rx
from replicax.models import fully_connected
from replicax.replicate.cpu_devices import ask_for_cpu_devices

BATCH_SIZE, ROUNDS, STEPS = 512, 9, 20
model = fully_connected(784, (1024, 1024), 10)
optimizer = optax.sgd(0.01, momentum=0.9, nesterov=True)


def init_fn(key):
    return rx.TrainState.create(model.init(key), optimizer)


def per_example(params, batch):
    logits = model.apply(params, batch["image"])
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"])


def step_fn(state, batch):
    loss, gradient = rx.value_and_grad(
        lambda params, batch: rx.weighted(per_example(params, batch), batch["weight"])
    )(state.params, batch)
    return state.update(gradient, optimizer), {"loss": loss}


def by_hand(devices):
    """The step as one would write it: a local sum, its gradient, one psum, one update."""
    mesh = jax.make_mesh((len(devices),), ("data",), devices=devices, axis_types=(AxisType.Auto,))

    def local(state, batch):
        loss, gradient = jax.value_and_grad(lambda p: per_example(p, batch).sum())(state.params)
        loss, gradient = jax.lax.psum((loss, gradient), "data")
        gradient = jax.tree.map(lambda g: g / BATCH_SIZE, gradient)
        return state.update(gradient, optimizer), {"loss": loss / BATCH_SIZE}

    specs = {"in_specs": (P(), P("data")), "out_specs": (P(), P())}
    step = jax.jit(jax.shard_map(local, mesh=mesh, check_vma=False, **specs), donate_argnums=0)
    return step, mesh


def timed(step, state, batch):
    """Seconds per step, and the state after."""
    begin = time.perf_counter()
    for _ in range(STEPS):
        state, values = step(state, batch)
    jax.block_until_ready((state, values))
    return (time.perf_counter() - begin) / STEPS, state


def compare(n, batch, **options):
    with rx.Replicator(BATCH_SIZE, replicas=n, **options) as replicator:
        ours = replicator.compile(step_fn, donate=True)
        theirs, mesh = by_hand(replicator.layout.devices)
        given = next(replicator.inputs(lambda _: [batch]))
        sharded = {k: jax.device_put(v, NamedSharding(mesh, P("data"))) for k, v in batch.items()}
        states = {
            "replicax": replicator.init(init_fn),
            "by hand": jax.device_put(
                jax.jit(init_fn)(jax.random.key(0)), NamedSharding(mesh, P())
            ),
        }
        sides = {"replicax": (ours, given), "by hand": (theirs, sharded)}
        losses = {name: [] for name in sides}
        for name, (step, its_batch) in sides.items():
            for _ in range(3):  # after more steps some ReLU is at its kink, and rounding tells
                states[name], values = step(states[name], its_batch)
                losses[name].append(float(values["loss"]))
        np.testing.assert_allclose(*losses.values(), rtol=1e-5)
        seconds = {name: [] for name in sides}
        for _ in range(ROUNDS + 1):
            for name, (step, its_batch) in sides.items():
                taken, states[name] = timed(step, states[name], its_batch)
                seconds[name].append(taken)
    middle = {name: statistics.median(times[1:]) for name, times in seconds.items()}
    ratios = [a / b for a, b in zip(seconds["replicax"][1:], seconds["by hand"][1:], strict=True)]
    return {
        "devices": n,
        **options,
        "milliseconds": {name: round(1e3 * s, 3) for name, s in middle.items()},
        "ratio": round(statistics.median(ratios), 3),
    }


def host_work():
    """Microseconds per step of a loop that computes next to nothing."""
    batch = {"x": np.ones((8, 4), np.float32)}

    def step(state, batch):
        shift = rx.all_sum(batch["x"].sum())
        return jax.tree.map(lambda leaf: leaf + shift, state), {"shift": shift}

    with rx.Replicator(8, replicas=1) as replicator:
        state = replicator.init(lambda _: [jnp.zeros(4) for _ in range(10)])
        times = []
        for _ in range(ROUNDS):
            run = replicator.run(step, state, lambda _: iter(lambda: batch, None), steps=1001)
            last, _ = next(run)
            jax.block_until_ready(last)
            begin = time.perf_counter()
            for last, _ in run:
                pass
            jax.block_until_ready(last)
            times.append((time.perf_counter() - begin) / 1000)
    return round(1e6 * statistics.median(times), 1)


def main():
    ask_for_cpu_devices(8)
    rng = np.random.default_rng(0)
    batch = {
        "image": rng.random((BATCH_SIZE, 28, 28), np.float32),
        "label": rng.integers(0, 10, BATCH_SIZE),
    }
    rows = []
    for n, options in [(1, {}), (2, {}), (8, {}), (1, {"deterministic": True}),
                       (2, {"deterministic": True}), (8, {"deterministic": True})]:  # fmt: skip
        rows.append(compare(n, batch, **options))
        print(rows[-1], file=sys.stderr, flush=True)
    machine = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("replicax", "jax", "optax")},
    }
    json.dump(
        {"machine": machine, "rows": rows, "host_microseconds_per_step": host_work()},
        sys.stdout,
        indent=2,
    )
    print()


if __name__ == "__main__":
    main()
