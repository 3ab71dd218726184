"""What a study makes of a machine: training steps per second, beside flax + optax and PyTorch.

The same steps three ways, on the same examples, from the same weights, with the same update
(Nesterov, learning rate 0.01, momentum 0.9, float32):

- replicax: the population of a study, 32 trials, run by the executor that the study would choose.
  Data order and gather are part of what is timed; evaluations are not, as the validation split is
  cut to one example. The rate is summed over the trials.
- flax: the usual loop, one trial, one call of a jitted step per batch, its state donated; batches
  are cut from NumPy arrays on the host, in a new permutation every epoch. XLA may use every core.
- torch: the usual eager loop, one trial, one thread.

Before anything is timed, three steps on the same batches must give the same parameters in all
three, else the benchmark fails. Then they take turns, and the medians of the rounds are compared.
A table goes to stderr and JSON to stdout, with the least ratio that is expected of every pair:

    python benchmarks/study_throughput.py > study_throughput.json

It takes about five minutes on two cores, and wants the machine for itself.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState

from replicax import data, tasks
from replicax.data import Dataset, Examples
from replicax.data.order import example_indices, position
from replicax.models.fully_connected import Layer
from replicax.study.executor import Executor
from replicax.study.measure import fastest_executor
from replicax.study.population import Population
from replicax.study.programs import UNROLL, Programs, Slots
from replicax.train import make_optimizer

TASKS = {"784-100-10": "fashion_mnist/fc_100", "784-1024-1024-10": "mnist/fc_1024_1024"}
EXPECTED = {  # net -> peer -> batch size -> least ratio of replicax's rate to the peer's
    "784-100-10": {
        "flax": {1: 3.0, 8: 1.5, 64: 1.5, 512: 0.95},
        "torch": {1: 20.0, 8: 7.0, 64: 2.5, 512: 1.5},
    },
    "784-1024-1024-10": {
        "flax": {1: 1.5, 8: 0.95, 64: 0.95, 512: 0.95},
        "torch": {1: 1.5, 8: 1.5, 64: 1.5, 512: 1.5},
    },
}
BATCH_SIZES = (1, 8, 64, 512)
POINT = {"learning_rate": 0.01, "momentum": 0.9}
SEED, TRIALS = 0, 32
CHECKED_STEPS, TOLERANCE = 3, 1e-4


class Side(NamedTuple):
    """One way of training, ready to be timed.

    Attributes:
      run: makes so many steps of every trial, and waits for them.
      trials: how many there are.
      unit: steps are timed in multiples of it.
    """

    run: Callable[[int], object]
    trials: int
    unit: int


class Net(nn.Module):
    widths: Sequence[int]
    classes: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for width in self.widths:
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(self.classes)(x)


@partial(jax.jit, donate_argnums=0)
def train_step(
    state: TrainState, image: jax.Array, label: jax.Array
) -> tuple[TrainState, jax.Array]:
    def mean_loss(params: Any) -> jax.Array:
        logits = state.apply_fn({"params": params}, image)
        return optax.softmax_cross_entropy_with_integer_labels(logits, label).mean()

    loss, gradient = jax.value_and_grad(mean_loss)(state.params)
    return state.apply_gradients(grads=gradient), loss


class FlaxLoop:
    def __init__(self, layers: list[Layer], image: np.ndarray, label: np.ndarray) -> None:
        *widths, classes = (layer.bias.size for layer in layers)
        params = {
            f"Dense_{i}": {"kernel": jnp.array(layer.weight), "bias": jnp.array(layer.bias)}
            for i, layer in enumerate(layers)
        }
        tx = optax.sgd(POINT["learning_rate"], POINT["momentum"], nesterov=True)
        self._state = TrainState.create(apply_fn=Net(widths, classes).apply, params=params, tx=tx)
        self._image, self._label = image, label

    def run(self, batches: Iterable[np.ndarray]) -> None:
        state = self._state
        for indices in batches:
            state, _ = train_step(state, self._image[indices], self._label[indices])
        self._state = jax.block_until_ready(state)

    def order(self, batch_size: int) -> Iterator[np.ndarray]:
        rng, n = np.random.default_rng(SEED), len(self._label)
        while True:
            yield from rng.permutation(n)[: n - n % batch_size].reshape(-1, batch_size)

    def layers(self) -> list[Layer]:
        dense = self._state.params.values()
        return [Layer(np.array(layer["kernel"]), np.array(layer["bias"])) for layer in dense]


class TorchLoop:
    def __init__(self, layers: list[Layer], image: np.ndarray, label: np.ndarray) -> None:
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(SEED)
        modules: list[Any] = []
        for layer in layers:
            linear = torch.nn.Linear(*layer.weight.shape)
            linear.load_state_dict(
                {"weight": torch.tensor(layer.weight.T), "bias": torch.tensor(layer.bias)}
            )
            modules += [linear, torch.nn.ReLU()]
        self._model = torch.nn.Sequential(*modules[:-1])
        self._loss = torch.nn.CrossEntropyLoss()
        self._optimizer = torch.optim.SGD(
            self._model.parameters(),
            lr=POINT["learning_rate"],
            momentum=POINT["momentum"],
            nesterov=True,
        )
        self._image, self._label = torch.from_numpy(image), torch.from_numpy(label)

    def run(self, batches: Iterable[Any]) -> None:
        model, criterion, optimizer = self._model, self._loss, self._optimizer
        for indices in batches:
            optimizer.zero_grad()
            criterion(model(self._image[indices]), self._label[indices]).backward()
            optimizer.step()

    def order(self, batch_size: int) -> Iterator[Any]:
        import torch

        n = len(self._label)
        while True:
            yield from torch.randperm(n)[: n - n % batch_size].split(batch_size)

    def layers(self) -> list[Layer]:
        values = [p.detach().numpy().T for p in self._model.parameters()]
        return [Layer(*pair) for pair in zip(values[::2], values[1::2], strict=True)]


LOOPS: dict[str, type[FlaxLoop] | type[TorchLoop]] = {"flax": FlaxLoop, "torch": TorchLoop}


def examples(folder: Path | None) -> Dataset:
    """Fashion-MNIST if a folder is given, else noise in the shape of the classes."""
    if folder is not None:
        dataset = data.load("fashion_mnist", folder)
    else:
        rng = np.random.default_rng(SEED)
        shapes = rng.random((10, 28, 28)) < 0.2  # as dark as MNIST
        label = rng.integers(10, size=55_000, dtype=np.uint8)
        image = rng.integers(256, size=(55_000, 28, 28), dtype=np.uint8) * shapes[label]
        train = Examples(image, label)
        dataset = Dataset(
            name="synthetic", num_classes=10, train=train, validation=train, test=train
        )
    return replace(dataset, validation=Examples(*(array[:1] for array in dataset.train)))


def replicax_side(programs: Programs, executor: Executor) -> Side:
    population = Population.start(programs, executor, dict.fromkeys(range(TRIALS), POINT))
    step = 0

    def run(steps: int) -> None:
        nonlocal step
        evaluations = population.advance(step, step + steps)
        step += steps
        if any(evaluation.diverged_at for evaluation in evaluations.values()):
            sys.exit("a trial diverged; such steps are not comparable")

    return Side(run, TRIALS, UNROLL)


def peer_side(loop: FlaxLoop | TorchLoop, batch_size: int) -> Side:
    batches = loop.order(batch_size)
    return Side(lambda steps: loop.run(islice(batches, steps)), 1, 1)


def first_trial(slots: Slots) -> list[Layer]:
    """Of a group; a copy, as the buffers of a group are given up."""
    first = (0,) if slots.diverged_at.ndim else ()
    params: Any = slots.train.params
    return [Layer(np.array(layer.weight[first]), np.array(layer.bias[first])) for layer in params]


def check(
    programs: Programs, executor: Executor, peers: dict[str, FlaxLoop | TorchLoop], n: int
) -> float:
    """Fails unless all agree; returns the largest difference, as a share of what was learned."""
    trials = list(range(executor.size))
    slots = programs.start(trials, [POINT] * executor.size)
    before = first_trial(slots)
    slots = programs.advance(slots, 0, CHECKED_STEPS, executor.loop)
    after = first_trial(slots)
    size = programs.batch_size
    batches = [
        example_indices(SEED, position(step * size, n), size, n).astype(np.int64)
        for step in range(CHECKED_STEPS)
    ]
    largest = 0.0
    for name, loop in peers.items():
        loop.run(batches)
        difference = max(map(relative_difference, before, after, loop.layers()))
        if not difference <= TOLERANCE:
            sys.exit(f"{name} and replicax differ by {difference:.1e} of the change they make")
        largest = max(largest, difference)
    return largest


def relative_difference(before: Layer, after: Layer, peer: Layer) -> float:
    """Of two layers that began alike, relative to their change.

    Of the weights into each unit, the median over the units: where a unit is zero but for rounding,
    its ReLU passes the gradient of an example in one program and not in the other.
    """
    norm = partial(np.linalg.norm, axis=0)
    per_unit = norm(peer.weight - after.weight) / np.median(norm(after.weight - before.weight))
    bias = np.linalg.norm(peer.bias - after.bias) / np.linalg.norm(after.bias - before.bias)
    return max(float(np.median(per_unit)), float(bias))


def rates(sides: dict[str, Side], seconds: float, rounds: int) -> dict[str, list[float]]:
    """Trial-steps per second of every side in every round; the sides take turns."""
    counts = {name: steps_in(seconds, side) for name, side in sides.items()}
    measured: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            count = counts[name]
            measured[name].append(side.trials * count / timed(partial(side.run, count)))
    return measured


def steps_in(seconds: float, side: Side) -> int:
    """About as many steps as fit; at least one unit. Compiles, and warms up."""
    count = side.unit
    side.run(count)
    while (took := timed(partial(side.run, count))) < seconds / 3:
        count *= 2
    return max(1, round(count / side.unit * seconds / took)) * side.unit


def timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def compare(
    net: str, batch_size: int, dataset: Dataset, names: list[str], seconds: float, rounds: int
) -> dict[str, Any]:
    """One net at one batch size."""
    programs = Programs(
        tasks.get(TASKS[net]),
        make_optimizer("nesterov"),
        dataset,
        batch_size=batch_size,
        seed=SEED,
    )
    speed = fastest_executor(programs, POINT, TRIALS)
    layers = first_trial(programs.start([0], [POINT]))
    n = len(dataset.train.label)
    image = dataset.train.image.reshape(n, -1).astype(np.float32) / 255
    label = dataset.train.label.astype(np.int64)
    peers = {name: LOOPS[name](layers, image, label) for name in names}
    difference = check(programs, speed.executor, peers, n)
    sides = {name: peer_side(loop, batch_size) for name, loop in peers.items()}
    measured = rates(
        {"replicax": replicax_side(programs, speed.executor), **sides}, seconds, rounds
    )
    medians = {name: median(values) for name, values in measured.items()}
    ratios = {name: medians["replicax"] / medians[name] for name in names}
    least = {name: EXPECTED[net][name].get(batch_size) for name in names}
    return {
        "net": net,
        "batch_size": batch_size,
        "executor": str(speed.executor),
        "candidates": speed.candidates,
        "trial_steps_per_second": {name: round(value, 1) for name, value in medians.items()},
        "rounds": {name: [round(v, 1) for v in values] for name, values in measured.items()},
        "largest_difference": float(f"{difference:.2g}"),
        "ratios": {name: round(ratio, 3) for name, ratio in ratios.items()},
        "expected": {
            name: {"at_least": bound, "met": ratios[name] >= bound}
            for name, bound in least.items()
            if bound is not None
        },
    }


def machine() -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    models = [
        line.partition(":")[2].strip()
        for line in (info.read_text().splitlines() if info.exists() else [])
        if line.startswith("model name")
    ]
    affinity = getattr(os, "sched_getaffinity", None)
    packages = ["replicax", "jax", "jaxlib", "flax", "optax", "numpy", "torch"]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "backend": jax.default_backend(),
        "python": platform.python_version(),
        "versions": {p: version(p) for p in packages if importlib.util.find_spec(p)},
    }


def table_row(row: dict[str, Any], names: list[str]) -> str:
    rate, cells = row["trial_steps_per_second"], []
    for name in names:
        expected = row["expected"].get(name)
        bound = (
            f" ({'>=' if expected['met'] else 'NOT'} {expected['at_least']})" if expected else ""
        )
        cells.append(f"{name} {rate[name]:>8,.0f} x{row['ratios'][name]:.2f}{bound}".ljust(31))
    start = f"{row['net']:>16} {row['batch_size']:>6,} {row['executor']:>15}"
    return f"{start}  replicax {rate['replicax']:>8,.0f}  {'  '.join(cells)}".rstrip()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short rounds, to try the benchmark")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=BATCH_SIZES)
    parser.add_argument("--nets", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--data-dir", type=Path, help="folder with Fashion-MNIST; else noise")
    parser.add_argument("--skip-torch", action="store_true", help="compare with flax only")
    args = parser.parse_args()
    if not args.skip_torch and importlib.util.find_spec("torch") is None:
        parser.error(
            "torch is not installed; install it, or give --skip-torch to compare with flax"
        )
    return args


def main() -> None:
    args = arguments()
    names = ["flax"] if args.skip_torch else ["flax", "torch"]
    seconds, rounds = (0.2, 3) if args.quick else (0.7, 5)
    dataset, rows = examples(args.data_dir), []
    for net in args.nets:
        for batch_size in args.batch_sizes:
            rows.append(compare(net, batch_size, dataset, names, seconds, rounds))
            print(table_row(rows[-1], names), file=sys.stderr)
    report = {
        "machine": machine(),
        "data": dataset.name,
        "trials": TRIALS,
        "seconds_per_round": seconds,
        "rows": rows,
        "all_met": all(e["met"] for row in rows for e in row["expected"].values()),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
