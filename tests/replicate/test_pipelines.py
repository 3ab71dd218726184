"""From iterators to global batches: shares, modes, ragged tails, and what is refused."""

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest

import replicax as rx
from replicax.errors import UserError

X = np.arange(20.0, dtype=np.float32)
Named = namedtuple("Named", "x weight")


@jax.tree_util.register_dataclass
@dataclass
class Record:
    x: Any
    weight: Any


def batches(input_fn, batch_size=8, **options):
    with rx.Replicator(batch_size, replicas=4, **options) as replicator:
        return jax.device_get(list(replicator.inputs(input_fn)))


def chunks(size, make=lambda x: {"x": x}):
    return (make(X[i : i + size]) for i in range(0, len(X), size))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: {"x": x},
        lambda x: Named(x, np.ones(len(x), np.float32)),
        lambda x: Record(x, np.ones(len(x), np.float32)),
    ],
    ids=["dict", "named tuple", "dataclass"],
)
def test_a_ragged_tail_is_padded_with_weight_0(make):
    found = batches(lambda _: chunks(8, make))
    assert len(found) == 3
    get = (lambda b, k: b[k]) if isinstance(found[0], dict) else getattr
    assert all(type(b) is type(make(X)) for b in found)
    seen = np.concatenate([get(b, "x") for b in found])
    weight = np.concatenate([get(b, "weight") for b in found])
    np.testing.assert_array_equal(seen[weight > 0], X)
    assert weight.tolist() == [1.0] * 20 + [0.0] * 4
    assert set(seen[weight == 0]) == {16.0}  # copies of a real example


def test_weights_of_the_user_are_kept():
    def input_fn(_):
        return [{"x": X[:5], "weight": np.array([0.5, 0, 2, 1, 1], np.float32)}]

    assert batches(input_fn)[0]["weight"].tolist() == [0.5, 0, 2, 1, 1, 0, 0, 0]


@pytest.mark.parametrize(("mode", "pipelines"), [("one", 1), ("per_worker", 1), ("per_replica", 4)])
def test_contexts_of_each_mode(mode, pipelines):
    contexts = []

    def input_fn(context):
        contexts.append(context)
        size = context.per_pipeline_batch_size
        return [{"x": X[:8][context.share]}, {"x": X[8:16][context.share]}][: 2 if size else 0]

    found = batches(input_fn, input_mode=mode)
    assert [c.pipeline_id for c in contexts] == list(range(pipelines))
    assert {(c.pipelines, c.batch_size, c.replicas) for c in contexts} == {(pipelines, 8, 4)}
    np.testing.assert_array_equal(np.concatenate([b["x"] for b in found]), X[:16])


def test_the_first_pipeline_that_ends_ends_them_all():
    def input_fn(context):
        return [{"x": X[:2]}] * (3 + context.pipeline_id)

    assert len(batches(input_fn, input_mode="per_replica")) == 3


def test_batches_wait_on_the_devices_but_a_queue_is_not_read_ahead():
    read = []

    def iterator(_):
        for i in range(10):
            read.append(i)
            yield {"x": X[:8]}

    def queue(_):
        def get():
            read.append(len(read))
            return {"x": X[:8]}

        return get

    with rx.Replicator(8, replicas=4) as replicator:
        inputs = replicator.inputs(iterator)
        assert next(inputs)["x"].sharding.num_devices == 4
        assert len(read) == 3
        read.clear()
        inputs = replicator.inputs(queue)
        for n in range(1, 5):
            next(inputs)
            assert len(read) == n


def test_a_data_set_of_tensorflow_is_read_as_arrays():
    class Dataset:  # what is used of tf.data
        def as_numpy_iterator(self):
            return chunks(8)

    assert len(batches(lambda _: Dataset())) == 3


@pytest.mark.parametrize(
    ("input_fn", "message"),
    [
        (lambda _: [], "yields at least one batch; got none"),
        (lambda _: 7, "returns an iterable of batches.*got int"),
        (lambda _: chunks(9), "has to yield 8 examples per step.*got 9.*per_pipeline_batch_size"),
        (lambda _: [{"x": X[:0]}], "has to yield 8 examples.*got 0"),
        (lambda _: [{"x": X[:8], "y": X[:7]}], r"same number of examples.*got \[8\], \[7\]"),
        (lambda _: [{"x": X[:8], "y": np.float32(1)}], r"same number.*got \[8\], \[\]"),
        (lambda _: [(X[:5],)], "got a tuple without one; yield a dict"),
    ],
)
def test_what_is_refused(input_fn, message):
    with pytest.raises(UserError, match=message):
        batches(input_fn)


def test_the_package_data_as_an_input():
    """Which examples a step sees does not depend on the split, and a run can go on anywhere."""

    def ids(context, split="train", **options):
        made = rx.data.batches("digits", split, context, **options)
        return [next(made) for _ in range(15)] if split == "train" else list(made)

    def context(pipeline_id, pipelines):
        return rx.InputContext(
            batch_size=96, pipelines=pipelines, pipeline_id=pipeline_id, replicas=4
        )

    whole = ids(context(0, 1))
    parts = [ids(context(i, 4)) for i in range(4)]
    for step, batch in enumerate(whole):
        split = [part[step] for part in parts]
        np.testing.assert_array_equal(batch.image, np.concatenate([b.image for b in split]))
    assert (whole[0].image.min(), whole[0].image.max()) == (0, 1)
    later = ids(context(0, 1), first_step=10)
    np.testing.assert_array_equal(later[0].image, whole[10].image)
    assert not np.array_equal(ids(context(0, 1), seed=1)[0].image, whole[0].image)
    validation = [ids(context(i, 4), "validation") for i in range(4)]
    assert sum(b.weight.sum() for part in validation for b in part) == 299
    assert len({len(part) for part in validation}) == 1
    with pytest.raises(UserError, match="train, validation, test; got 'dev'"):
        ids(context(0, 1), "dev")
    with pytest.raises(UserError, match="at most the 1199 training examples of digits; got 2000"):
        next(rx.data.batches("digits", "train", rx.InputContext(
            batch_size=2000, pipelines=1, pipeline_id=0, replicas=1)))  # fmt: skip
