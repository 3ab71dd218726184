"""Every example counts once, for any number of replicas and any tail."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import replicax as rx
from replicax.errors import UserError

N = 1000
rng = np.random.default_rng(3)
SCORE = rng.normal(size=(N, 4)).astype(np.float32)
LABEL = rng.integers(0, 4, N)


def input_fn(count):
    def inputs(context):
        for start in range(0, count, context.batch_size):
            stop = min(start + context.batch_size, count)
            yield {"score": SCORE[start:stop], "label": LABEL[start:stop]}

    return inputs


class Largest(NamedTuple):
    """A metric of a user's own."""

    score: Any

    def merge(self, other):
        return Largest(np.maximum(self.score, other.score))

    def result(self):
        return float(self.score)


def metric_fn(state, batch):
    score, label, weight = batch["score"] + state, batch["label"], batch["weight"]
    return {
        "accuracy": rx.accuracy(score, label, weight),
        "loss": rx.weighted(score[:, 0], weight),
        "precision": rx.AveragePrecision(score[:, 0], label == 0, weight),
        "largest": Largest(jnp.where(weight > 0, score[:, 0], -jnp.inf).max()),
    }


@pytest.mark.parametrize("count", [1, 7, 499, 1000])
@pytest.mark.parametrize("replicas", [1, 3, 8])
def test_counts_and_metrics_are_exact(replicas, count):
    with rx.Replicator(48, replicas=replicas) as replicator:
        state = replicator.init(lambda _: jnp.zeros(()))
        found = replicator.evaluate(metric_fn, state, input_fn(count))
    score, label = SCORE[:count], LABEL[:count]
    assert found.count == count
    assert found.values["accuracy"] == (score.argmax(1) == label).mean()
    assert found.values["loss"] == pytest.approx(score[:, 0].mean(), rel=1e-5)
    assert found.values["largest"] == score[:, 0].max()
    expected = plain_average_precision(score[:, 0], label == 0)
    assert found.values["precision"] == pytest.approx(expected, rel=1e-12, nan_ok=True)


def plain_average_precision(score, positive):
    """The sum of (R_n - R_n-1) P_n over the thresholds, one threshold after the other."""
    if not positive.any():
        return float("nan")
    total, recall_before = 0.0, 0.0
    for threshold in sorted(set(score.tolist()), reverse=True):
        chosen = score >= threshold
        recall = positive[chosen].sum() / positive.sum()
        total += (recall - recall_before) * positive[chosen].mean()
        recall_before = recall
    return total


def test_average_precision_of_the_documented_example():
    """The example of scikit-learn's `average_precision_score`: 0.83..."""
    score, positive = np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1])
    assert rx.AveragePrecision(score, positive, np.ones(4)).result() == pytest.approx(5 / 6)


def test_average_precision_with_ties_and_weights():
    score = np.array([0.5, 0.5, 0.9, 0.5, 0.1])
    positive = np.array([1, 0, 1, 0, 1])
    equal = rx.AveragePrecision(score, positive, np.ones(5)).result()
    assert equal == pytest.approx(plain_average_precision(score, positive.astype(bool)))
    doubled = rx.AveragePrecision(score, positive, np.array([1, 2, 1, 0, 1])).result()
    as_copies = rx.AveragePrecision(score[[0, 1, 1, 2, 4]], positive[[0, 1, 1, 2, 4]], np.ones(5))
    assert doubled == pytest.approx(as_copies.result())


def test_padding_of_the_user_does_not_count():
    weight = np.array([1, 1, 0, 0], np.float32)
    batch = {"score": SCORE[:4], "label": LABEL[:4], "weight": weight}
    with rx.Replicator(4, replicas=2) as replicator:
        found = replicator.evaluate(metric_fn, jnp.zeros(()), lambda _: [batch])
    assert found.count == 2


def test_a_bare_mean_is_refused():
    def means(_, batch):
        return {"loss": batch["score"].mean()}

    with (
        rx.Replicator(8, replicas=2) as replicator,
        pytest.raises(UserError, match="states that can be merged"),
    ):
        replicator.evaluate(means, jnp.zeros(()), input_fn(16))


def test_collectives_have_no_place_in_it():
    def reduced(_, batch):
        return rx.all_sum(rx.weighted(batch["score"][:, 0], batch["weight"]))

    with (
        rx.Replicator(8, replicas=2) as replicator,
        pytest.raises(UserError, match="no place in an evaluation"),
    ):
        replicator.evaluate(reduced, jnp.zeros(()), input_fn(16))
