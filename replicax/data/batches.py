"""A data set as the input of a replicated step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from replicax.data.catalogue import load
from replicax.data.examples import Batch, Examples
from replicax.data.folders import Folder
from replicax.data.order import example_indices, position
from replicax.errors import UserError

if TYPE_CHECKING:  # `replicax data` needs no JAX
    from replicax.replicate import InputContext

SPLITS = ("train", "validation", "test")


def batches(
    name: str,
    split: str,
    context: InputContext,
    *,
    seed: int = 0,
    first_step: int = 0,
    folder: Folder = None,
) -> Iterator[Batch]:
    """A pipeline's share of each global batch, on the host.

    The training split goes on for ever, each epoch in an order of its own: which examples a step
    sees is a function of seed, step and batch size. The others come once, in the order in which
    they were published; the last batch may be shorter, or empty of examples for some pipelines.

    Args:
      name: a data set of `names()`.
      split: train, validation or test.
      context: of the input function.
      seed: of the order.
      first_step: step of the first batch, where a run goes on.
      folder: as of `load`.

    Raises:
      UserError: as of `load`; an unknown split; more examples per step than there are.
    """
    if split not in SPLITS:
        raise UserError(f"a split is one of {', '.join(SPLITS)}; got {split!r}")
    dataset = load(name, folder)
    examples: Examples = getattr(dataset, split)
    n, scale = len(examples.label), np.float32(dataset.train.image.max())
    if context.batch_size > n and split == "train":
        raise UserError(
            f"batch_size must be at most the {n} training examples of {name}; got "
            f"{context.batch_size}"
        )
    return _batches(examples, scale, context, None if split != "train" else seed, first_step)


def _batches(
    examples: Examples, scale: np.float32, context: InputContext, seed: int | None, first_step: int
) -> Iterator[Batch]:
    n, size = len(examples.label), context.batch_size
    for step in count(first_step):
        if seed is None:
            if step * size >= n:
                return
            indices = np.arange(step * size, (step + 1) * size)[context.share]
            real = indices < n
        else:
            of_all = example_indices(seed, position(step * size, n), size, n)
            indices = of_all[context.share]
            real = np.ones(len(indices), bool)
        indices = np.where(real, indices, 0)
        yield Batch(
            examples.image[indices].astype(np.float32) / scale,
            examples.label[indices].astype(np.int32),
            real.astype(np.float32),
        )
