"""The data order: a bijection, the same on NumPy and JAX, uniform, and a function of position."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2

from replicax.data.order import (
    MAX_EXAMPLES,
    Position,
    advance,
    epoch_key,
    example_indices,
    permute,
    position,
)

SIZES = [1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 64, 97, 101, 299, 1009, 1199, 4096, 7919, 55_000]

# One false alarm in a million for a perfect source. The seeds are fixed, so the outcome is too.
FALSE_ALARM = 1e-6

# What version 0.1 computes.
PINNED_1199 = [28, 349, 988, 320, 594, 1176, 512, 323]
PINNED_55000 = [40169, 24049, 14788, 11453, 33462, 25331, 9986, 9875]


def epoch_of(seed: int, epoch: int, n: int) -> NDArray[np.uint32]:
    return example_indices(seed, Position(epoch, 0), n, n)


def is_permutation(indices: NDArray[np.uint32], n: int) -> bool:
    return np.array_equal(np.sort(indices), np.arange(n))


def chi_square(observed: NDArray[np.int64], expected: NDArray[np.float64]) -> float:
    return float(((observed - expected) ** 2 / expected).sum())


# A bijection.


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("seed", [0, 1, -1, 12_345, 2**31, 2**40 + 3])
def test_an_epoch_is_a_permutation(n: int, seed: int) -> None:
    for epoch in (0, 1, 2**31 - 2):
        indices = epoch_of(seed, epoch, n)
        assert indices.dtype == np.uint32
        assert is_permutation(indices, n)


@given(n=st.integers(1, 3000), key=st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_permute_is_a_permutation_for_every_key(n: int, key: int) -> None:
    assert is_permutation(permute(np.arange(n, dtype=np.uint32), np.uint32(key), n), n)


def test_permute_stays_injective_and_inside_in_the_largest_domain() -> None:
    n = MAX_EXAMPLES
    ends = np.r_[0:10_000, n - 10_000 : n].astype(np.uint32)
    image = permute(ends, np.uint32(99), n)
    assert len(np.unique(image)) == len(ends)
    assert int(image.max()) < n
    assert abs(image.astype(np.float64).mean() / n - 0.5) < 0.02  # 0.5 +- 0.002 (one sigma)


# The same on NumPy and JAX.


@pytest.mark.parametrize("n", [1, 2, 3, 17, 1199, 55_000])
@pytest.mark.parametrize("seed", [0, -7, 2**33 + 5])
def test_jax_equals_numpy_with_traced_positions(n: int, seed: int) -> None:
    count = min(n, 512)
    compiled = jax.jit(
        lambda epoch, offset: example_indices(seed, Position(epoch, offset), count, n, jnp)
    )
    for epoch in (0, 1, 7, 2**31 - 2):
        for offset in sorted({0, n // 2, n - 1}):
            found = compiled(jnp.int32(epoch), jnp.int32(offset))
            assert found.dtype == jnp.uint32
            expected = example_indices(seed, Position(epoch, offset), count, n)
            np.testing.assert_array_equal(np.asarray(found), expected)


def test_jax_equals_numpy_outside_of_jit_and_under_vmap() -> None:
    n, key = 1199, np.uint32(2**32 - 1)
    index = np.arange(n, dtype=np.uint32)
    np.testing.assert_array_equal(
        np.asarray(permute(jnp.asarray(index), jnp.uint32(key), n, jnp)), permute(index, key, n)
    )
    keys = np.arange(5, dtype=np.uint32)
    mapped = jax.vmap(lambda k: permute(jnp.asarray(index), k, n, jnp))(jnp.asarray(keys))
    np.testing.assert_array_equal(
        np.asarray(mapped), np.stack([permute(index, key, n) for key in keys])
    )


def test_a_compiled_loop_sees_the_sequence_that_numpy_computes() -> None:
    seed, batch, n, steps = 3, 500, 1199, 12

    @jax.jit
    def run(start: Position) -> tuple[Position, jax.Array]:
        def step(at: Position, _: None) -> tuple[Position, jax.Array]:
            return advance(at, batch, n), example_indices(seed, at, batch, n, jnp)

        return jax.lax.scan(step, start, None, length=steps)

    end, found = run(Position(jnp.int32(0), jnp.int32(0)))
    expected = [example_indices(seed, position(batch * s, n), batch, n) for s in range(steps)]
    np.testing.assert_array_equal(np.asarray(found), np.stack(expected))
    assert Position(int(end.epoch), int(end.offset)) == position(batch * steps, n)


# Uniform. Rows are epochs of many seeds; every row is a permutation of 0..n-1.


def rows_of(n: int, seeds: int, epochs: int) -> NDArray[np.uint32]:
    keys = np.concatenate([epoch_key(s, np.arange(epochs)) for s in range(seeds)])
    return permute(np.arange(n, dtype=np.uint32)[None, :], keys[:, None], n)


@pytest.mark.parametrize("n", [5, 12, 13, 60, 97])
def test_every_position_gets_every_index_equally_often(n: int) -> None:
    rows = rows_of(n, seeds=80, epochs=60)
    cell = np.arange(n) * n + rows
    observed = np.bincount(cell.ravel().astype(np.int64), minlength=n * n)
    expected = np.full(n * n, len(rows) / n)
    # Rows and columns of the table have fixed sums: the sum of squares is n / (n - 1) times a
    # chi-square of (n - 1)**2 degrees of freedom.
    statistic = chi_square(observed, expected) * (n - 1) / n
    low, high = chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], (n - 1) ** 2)
    assert low < statistic < high


@pytest.mark.parametrize("n", [1199, 55_000])
def test_large_sets_are_uniform_in_cells_of_position_and_index(n: int) -> None:
    cells, rows = 20, rows_of(n, seeds=10, epochs=10)
    edge = np.arange(n) * cells // n
    size = np.bincount(edge)
    table = edge * cells + edge[rows]
    observed = np.bincount(table.ravel(), minlength=cells**2)
    # Cells hold a hypergeometric number each; of the sum, (n - 1) / n is chi-square.
    expected = len(rows) * np.outer(size, size).ravel() / n
    statistic = chi_square(observed, expected) * (n - 1) / n
    low, high = chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], (cells - 1) ** 2)
    assert low < statistic < high


@pytest.mark.parametrize("n", [5, 12, 13, 60])
def test_neighbours_are_independent(n: int) -> None:
    rows = rows_of(n, seeds=80, epochs=60).astype(np.int64)
    left, right = rows[:, 0::2][:, : n // 2], rows[:, 1::2]  # pairs that share no position
    observed = np.bincount((left * n + right).ravel(), minlength=n * n).reshape(n, n)
    different = ~np.eye(n, dtype=bool)
    assert observed[~different].sum() == 0
    pairs = left.size
    expected = np.full(n * (n - 1), pairs / (n * (n - 1)))
    statistic = chi_square(observed[different], expected)
    # Pairs of a row exclude each other, which makes the statistic differ a little from chi-square;
    # the reference is therefore NumPy's own shuffle, counted in the same way.
    reference = [
        _neighbours_of_a_shuffle(n, len(rows), np.random.default_rng(trial)) for trial in range(30)
    ]
    mean, deviation = np.mean(reference), np.std(reference, ddof=1)
    assert abs(statistic - mean) < 6 * deviation  # t of 29 degrees: about two in a million


def _neighbours_of_a_shuffle(n: int, count: int, generator: np.random.Generator) -> float:
    rows = generator.permuted(np.tile(np.arange(n), (count, 1)), axis=1)
    left, right = rows[:, 0::2][:, : n // 2], rows[:, 1::2]
    observed = np.bincount((left * n + right).ravel(), minlength=n * n).reshape(n, n)
    different = ~np.eye(n, dtype=bool)
    return chi_square(observed[different], np.full(n * (n - 1), left.size / (n * (n - 1))))


def test_distances_of_neighbours_in_a_large_epoch_are_those_of_a_shuffle() -> None:
    n, epochs, cells = 55_000, 20, 25
    rows = rows_of(n, seeds=1, epochs=epochs).astype(np.int64)
    distance = (rows[:, 1::2] - rows[:, 0::2]) % n  # uniform over 1..n-1
    assert distance.min() >= 1
    observed = np.bincount(((distance - 1) * cells // (n - 1)).ravel(), minlength=cells)
    sizes = np.bincount(np.arange(n - 1) * cells // (n - 1))
    expected = distance.size * sizes / (n - 1)
    assert chi_square(observed, expected) < chi2.ppf(1 - FALSE_ALARM, cells - 1)


def test_fixed_points_are_as_rare_as_in_a_shuffle() -> None:
    n, rows = 299, rows_of(299, seeds=60, epochs=50)
    fixed = (rows == np.arange(n)).sum()  # mean and variance of one row: 1
    assert abs(fixed - len(rows)) < 5 * np.sqrt(len(rows))


def test_small_sets_take_all_their_orders() -> None:
    rows = rows_of(4, seeds=60, epochs=40)
    orders, observed = np.unique(rows, axis=0, return_counts=True)
    assert len(orders) == 24
    expected = np.full(24, len(rows) / 24)
    assert chi_square(observed, expected) < chi2.ppf(1 - FALSE_ALARM, 23)


def test_rows_are_the_epochs_of_example_indices() -> None:
    expected = [epoch_of(seed, epoch, 97) for seed in range(3) for epoch in range(4)]
    np.testing.assert_array_equal(rows_of(97, seeds=3, epochs=4), np.stack(expected))


def test_numpy_scalars_give_the_results_of_arrays_without_a_warning() -> None:
    keys = epoch_key(3, np.arange(50))
    assert [int(epoch_key(3, np.uint32(e))) for e in range(50)] == keys.tolist()
    index, key = np.uint32(11), np.uint32(2**32 - 1)
    expected = permute(np.array([11], np.uint32), key, 1199)
    assert int(permute(index, key, 1199)) == int(expected[0])


# Epochs and seeds differ.


def test_epochs_and_seeds_differ() -> None:
    n = 1199
    orders = {epoch_of(s, e, n).tobytes() for s in range(20) for e in range(20)}
    assert len(orders) == 400


def test_shifting_the_seed_does_not_shift_the_epochs() -> None:
    # With seed + epoch as the key, seed 1 would repeat the orders of seed 0 one epoch later.
    keys = [int(epoch_key(s, np.uint32(e))) for s in range(100) for e in range(100)]
    assert len(set(keys)) == len(keys)


def test_orders_of_neighbouring_epochs_and_seeds_are_uncorrelated() -> None:
    n = 55_000
    base = epoch_of(0, 0, n).astype(np.float64)
    for seed, epoch in [(0, 1), (0, 2), (1, 0), (1, 1), (2**31, 0)]:
        other = epoch_of(seed, epoch, n).astype(np.float64)
        assert abs(np.corrcoef(base, other)[0, 1]) < 5 / np.sqrt(n)


def test_only_the_low_32_bits_of_a_seed_count() -> None:
    np.testing.assert_array_equal(epoch_of(5, 0, 97), epoch_of(5 + 2**32, 0, 97))
    np.testing.assert_array_equal(epoch_of(-1, 0, 97), epoch_of(2**32 - 1, 0, 97))


def test_the_order_is_the_one_of_earlier_versions() -> None:
    # A ledger that is resumed must see the same examples: these values never change.
    np.testing.assert_array_equal(example_indices(0, Position(0, 0), 8, 1199), PINNED_1199)
    np.testing.assert_array_equal(example_indices(7, Position(3, 54_996), 8, 55_000), PINNED_55000)


# A function of position.


@pytest.mark.parametrize("n", [2, 13, 1199])
def test_a_batch_across_an_epoch_border_is_tail_then_head(n: int) -> None:
    count, offset = n, n - (n + 1) // 2
    batch = example_indices(11, Position(4, offset), count, n)
    tail, head = epoch_of(11, 4, n)[offset:], epoch_of(11, 5, n)
    np.testing.assert_array_equal(batch, np.concatenate([tail, head])[:count])
    assert len(tail) < count  # the border is inside


@given(data=st.data(), n=st.integers(1, 200), seed=st.integers(-(2**40), 2**40))
@settings(deadline=None, max_examples=60)
def test_the_sequence_does_not_depend_on_the_batch_size(
    data: st.DataObject, n: int, seed: int
) -> None:
    total = 3 * n
    expected = np.concatenate([epoch_of(seed, epoch, n) for epoch in range(3)])
    found, seen = [], 0
    while seen < total:
        count = data.draw(st.integers(1, min(n, total - seen)))
        found.append(example_indices(seed, position(seen, n), count, n))
        seen += count
    np.testing.assert_array_equal(np.concatenate(found), expected)


@given(seen=st.integers(0, 10**15), n=st.integers(1, 10**9), data=st.data())
def test_advance_is_addition(seen: int, n: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, n))
    assert advance(position(seen, n), count, n) == position(seen + count, n)


@given(seen=st.integers(0, 10**15), n=st.integers(1, 10**9))
def test_position_splits_exactly(seen: int, n: int) -> None:
    at = position(seen, n)
    assert at.epoch * n + at.offset == seen
    assert 0 <= at.offset < n


def test_advance_under_jax_equals_advance_on_integers() -> None:
    n, count = 1199, 700
    at = Position(jnp.int32(0), jnp.int32(0))
    step = jax.jit(partial(advance, count=count, n=n))
    for k in range(1, 8):
        at = step(at)
        assert (at.epoch.dtype, at.offset.dtype) == (jnp.int32, jnp.int32)
        assert (int(at.epoch), int(at.offset)) == position(k * count, n)


# Refusals.


@pytest.mark.parametrize(("count", "n"), [(0, 5), (-1, 5), (6, 5), (1, 0)])
def test_bad_counts_are_refused_with_the_values(count: int, n: int) -> None:
    with pytest.raises(ValueError, match=rf"count={count}, n={n}"):
        example_indices(0, Position(0, 0), count, n)


@pytest.mark.parametrize("n", [0, -1, MAX_EXAMPLES + 1, 2**32])
def test_bad_sizes_are_refused_with_the_value(n: int) -> None:
    with pytest.raises(ValueError, match=rf"n={n}$"):
        permute(np.zeros(1, np.uint32), np.uint32(0), n)
