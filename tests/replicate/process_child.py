"""What the tests of several processes launch: `process_child.py KIND [OUT]`."""

import json
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from small_net import X, Y, apply, init_fn, input_fn, one_epoch, step_fn

import replicax as rx


def train(out, **options):
    """Trains, evaluates, and leaves what each process has seen in OUT-<process>.json."""
    with rx.Replicator(48, **options) as replicator:
        state = replicator.init(init_fn)
        losses = []
        for state, values in replicator.run(step_fn, state, input_fn, steps=100):
            losses.append(values["loss"])

        def metrics(state, batch):
            logits = apply(state.params, batch["x"])
            return {
                "accuracy": rx.accuracy(logits, batch["y"], batch["weight"]),
                "precision": rx.AveragePrecision(logits[:, 0], batch["y"] == 0, batch["weight"]),
            }

        found = replicator.evaluate(metrics, state, one_epoch)
        uneven = replicator.evaluate(metrics, state, only_first_process)
        seen = {
            "replicas": replicator.replicas,
            "losses": [float(x).hex() for x in losses],
            "weights": [np.asarray(x).tolist() for x in jax.tree.leaves(state.params)],
            "values": {k: float(v) for k, v in found.values.items()},
            "counts": [found.count, uneven.count],
            "ended": sum(1 for _ in replicator.run(step_fn, state, ends_early)),
            "agreed": [int(rx.agree(jax.process_index(), how)) for how in ("min", "max", "any")],
        }
        rx.barrier()
        Path(f"{out}-{jax.process_index()}.json").write_text(json.dumps(seen))


def ends_early(context):
    """Five batches on the first process, two more on each that follows."""
    batches = input_fn(context)
    return (next(batches) for _ in range(5 + 2 * context.pipeline_id))


def only_first_process(context):
    """Three batches for the first process, one for the others, of 10 examples each."""
    for i in range(1 if context.pipeline_id else 3):
        yield {"x": X[10 * i : 10 * i + 10], "y": Y[10 * i : 10 * i + 10]}


def another_program(_):
    """The second process computes something else."""
    with rx.Replicator(8) as replicator:
        factor = 1.0 + jax.process_index()
        step = replicator.compile(lambda s, b: (s + factor * rx.all_sum(b["x"].sum()), {}))
        inputs = replicator.inputs(lambda c: [{"x": np.ones(c.per_pipeline_batch_size)}])
        step(replicator.init(lambda _: jnp.zeros(())), next(inputs))


def fails(_):
    """The second process dies; the first would wait for it for ever."""
    with rx.Replicator(8) as replicator:
        if jax.process_index() == 1:
            print("last words", file=sys.stderr)
            sys.exit(7)
        replicator.init(lambda _: jnp.zeros(()))
        time.sleep(600)


def one_pipeline(_):
    with rx.Replicator(8, input_mode="one") as replicator:
        replicator.inputs(lambda _: [])
        next(replicator.inputs(lambda _: []))


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    out = rest[0] if rest else None
    {
        "train": train,
        "deterministic": lambda out: train(out, deterministic=True),
        "microbatches": lambda out: train(out, microbatches=2),
        "virtual": lambda out: train(out, replicas=8),
        "another_program": another_program,
        "fails": fails,
        "one_pipeline": one_pipeline,
    }[kind](out)
