"""From a user's iterators to global batches on the devices."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any, Literal

import jax
import numpy as np

from replicax.errors import UserError
from replicax.replicate import processes
from replicax.replicate.layout import Layout

Mode = Literal["one", "per_worker", "per_replica"]
MODES = ("one", "per_worker", "per_replica")
WEIGHT = "weight"
PREFETCH = 2  # batches that wait on the devices: one to hide the host, one for its jitter


@dataclass(frozen=True, kw_only=True)
class InputContext:
    """What an `input_fn` is told about the input pipeline it makes.

    Attributes:
      batch_size: examples per step, over all pipelines.
      pipelines: how many there are.
      pipeline_id: which of them this is, 0..pipelines - 1.
      replicas: how many there are in all.
    """

    batch_size: int
    pipelines: int
    pipeline_id: int
    replicas: int

    @property
    def per_pipeline_batch_size(self) -> int:
        """Examples that this pipeline yields per step."""
        return self.batch_size // self.pipelines

    @property
    def share(self) -> slice:
        """Which examples of each global batch they are."""
        size = self.per_pipeline_batch_size
        return slice(self.pipeline_id * size, (self.pipeline_id + 1) * size)


InputFunction = Callable[[InputContext], Any]


def own_contexts(layout: Layout, mode: Mode) -> list[InputContext]:
    """The pipelines that this process has to make."""
    workers, worker = layout.processes, jax.process_index()
    if mode not in MODES:
        raise UserError(f"the input mode is one of {', '.join(MODES)}; got {mode!r}")
    if mode == "one" and workers > 1:
        raise UserError(
            f"input mode 'one' has one pipeline for all replicas; got {workers} processes, which "
            "share no memory; use 'per_worker' and yield context.share of each global batch"
        )
    pipelines = layout.replicas if mode == "per_replica" else workers
    own = pipelines // workers
    return [
        InputContext(
            batch_size=layout.batch_size,
            pipelines=pipelines,
            pipeline_id=worker * own + i,
            replicas=layout.replicas,
        )
        for i in range(own)
    ]


def global_batches(input_fn: InputFunction, layout: Layout, mode: Mode) -> Iterator[Any]:
    """Batches on the devices, leaves [batch_size, ...], until the first pipeline of any ends.

    Batches wait on the devices before they are asked for; those of a callable, such as a queue that
    the steps themselves feed, do not.
    """
    local, eager = _local_batches(input_fn, layout, mode)
    waiting: deque[tuple[Any, Any]] = deque()

    def fetch() -> None:
        batch = next(local, None)
        placed = None if batch is None else _place(batch, layout)
        waiting.append((_all_alive(batch is not None, layout), placed))

    for _ in range(0 if eager else PREFETCH):
        fetch()
    while True:
        fetch()
        alive, batch = waiting.popleft()
        if not bool(alive):
            return
        yield batch


def local_batches(input_fn: InputFunction, layout: Layout, mode: Mode) -> Iterator[Any]:
    """This process's part of each batch, on the host, leaves [its share, ...]."""
    return _local_batches(input_fn, layout, mode)[0]


def _local_batches(
    input_fn: InputFunction, layout: Layout, mode: Mode
) -> tuple[Iterator[Any], bool]:
    contexts = own_contexts(layout, mode)
    sources = [input_fn(context) for context in contexts]
    pipelines = [_batches(s, c) for s, c in zip(sources, contexts, strict=True)]
    return _side_by_side(pipelines), any(_is_queue(source) for source in sources)


def _side_by_side(pipelines: list[Iterator[Any]]) -> Iterator[Any]:
    """Joins the batches of a process's pipelines, until the first of them ends."""
    for number in count():
        parts = list(islice((next(p, None) for p in pipelines), len(pipelines)))
        if any(part is None for part in parts):
            if number == 0:
                raise UserError(
                    "an input_fn yields at least one batch; got none; look at what it reads, and "
                    "at how many examples there are beside the batch size"
                )
            return
        yield parts[0] if len(parts) == 1 else jax.tree.map(lambda *x: np.concatenate(x), *parts)


def _is_queue(source: Any) -> bool:
    return callable(source) and not hasattr(source, "__iter__")


def _batches(source: Any, context: InputContext) -> Iterator[Any]:
    """An iterator over whole batches from what an input_fn may return."""
    if hasattr(source, "as_numpy_iterator"):  # tf.data
        source = source.as_numpy_iterator()
    if _is_queue(source):
        source = iter(source, None)
    if not hasattr(source, "__iter__"):
        raise UserError(
            "an input_fn returns an iterable of batches, or a callable that returns the next one; "
            f"got {type(source).__name__}"
        )
    for batch in source:
        yield _whole(jax.tree.map(np.asarray, batch), context.per_pipeline_batch_size)


def _whole(batch: Any, size: int) -> Any:
    """A batch of `size` examples with their weights: a shorter one is padded with weight 0."""
    counts = {np.shape(x)[0] if np.ndim(x) else None for x in jax.tree.leaves(batch)}
    if len(counts) != 1 or None in counts:
        raise UserError(
            "every array of a batch has the same number of examples on its leading axis; got "
            f"{', '.join(str(list(np.shape(x))) for x in jax.tree.leaves(batch))}"
        )
    given: Any = counts.pop()
    if not 0 < given <= size:
        raise UserError(
            f"this input pipeline has to yield {size} examples per step, fewer only at the end; "
            f"got {given}; use context.per_pipeline_batch_size"
        )
    weight = weight_of(batch)
    if weight is None and given < size and not isinstance(batch, dict):
        raise UserError(
            f"a batch of {given} of {size} examples is padded with examples of weight 0, which "
            f"needs a place for the weights; got a {type(batch).__name__} without one; yield a "
            "dict, or a named tuple with a field 'weight', or drop the rest"
        )
    if weight is None and isinstance(batch, dict):
        batch = {**batch, WEIGHT: np.ones(given, np.float32)}
    if given == size:
        return batch
    # padding repeats a real example, with which no model meets a value that it cannot handle
    padded = jax.tree.map(lambda x: np.concatenate([x, np.repeat(x[:1], size - given, 0)]), batch)
    mask = (np.arange(size) < given).astype(np.float32)
    return _with_weight(padded, weight_of(padded) * mask)


def weight_of(batch: Any) -> Any:
    """The weights of a batch; None where it has no place for them."""
    return batch.get(WEIGHT) if isinstance(batch, dict) else getattr(batch, WEIGHT, None)


def _with_weight(batch: Any, weight: np.ndarray) -> Any:
    if isinstance(batch, dict):
        return {**batch, WEIGHT: weight}
    if hasattr(batch, "_replace"):
        return batch._replace(**{WEIGHT: weight})
    return replace(batch, **{WEIGHT: weight})


def _place(batch: Any, layout: Layout) -> Any:
    if layout.processes == 1:
        return jax.device_put(batch, layout.split)
    return jax.tree.map(
        lambda x: jax.make_array_from_process_local_data(
            layout.split, x, (layout.batch_size, *x.shape[1:])
        ),
        batch,
    )


def _all_alive(alive: bool, layout: Layout) -> Any:
    """Whether no process's pipeline has ended; asked ahead, read when the batch is due."""
    return alive if layout.processes == 1 else processes.all_true(alive, layout.mesh)
