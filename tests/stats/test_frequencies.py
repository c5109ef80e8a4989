"""Value counters against a Counter."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cqels_opt.stats import FrequencyTable, ValueCounts, tally
from cqels_opt.stats.frequencies import dot

COLUMN = st.lists(st.integers(-5, 40), max_size=40)


def test_a_join_size_is_the_sum_of_products() -> None:
    here, there = ValueCounts(tally(np.array([1, 1, 2, 5]))), ValueCounts(tally(np.array([1, 2, 2, 2, 9])))
    assert here.dot(there) == 2 * 1 + 1 * 3
    assert here.dot(lambda values: values * 10) == 2 * 10 + 20 + 50
    assert here.get(np.array([5, 1, 7, 1])).tolist() == [1, 2, 0, 2]
    assert (here.total, here.distinct) == (4, 3)


STEPS = st.lists(st.tuples(COLUMN, st.lists(st.integers(0, 11), max_size=3)), min_size=1, max_size=12)


@settings(deadline=None)
@given(STEPS)
def test_counters_equal_a_recount_after_any_adds_and_removes(steps: list[tuple[list[int], list[int]]]) -> None:
    counts, held = ValueCounts(), Counter[int]()
    present: list[list[int]] = []
    for column, leaving in steps:
        counts.add(*tally(np.array(column, np.int64)))
        held.update(column)
        present.append(column)
        for place in leaving[: len(present)]:
            gone = present.pop(place % len(present))
            counts.remove(*tally(np.array(gone, np.int64)))
            held.subtract(gone)
        alive = {value: n for value, n in held.items() if n}
        probe = np.arange(-6, 42)
        assert counts.get(probe).tolist() == [alive.get(int(value), 0) for value in probe]
        assert (counts.total, counts.distinct) == (sum(alive.values()), len(alive))
        assert dict(zip(*(side.tolist() for side in counts.tally()))) == alive


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_large_counters_merge_their_tiers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts, columns = ValueCounts(), []
    for step in range(12):
        columns.append(rng.integers(-(2**62), 2**62, 3000) if step % 3 else rng.integers(0, 500, 3000))
        counts.add(*tally(columns[-1]))
        if step > 4:
            counts.remove(*tally(columns.pop(0)))
        whole = np.concatenate(columns)
        assert (counts.total, counts.distinct) == (len(whole), len(np.unique(whole)))
        assert counts.get(whole).sum() == int((np.unique(whole, return_counts=True)[1] ** 2).sum()) == counts.dot(counts)
    assert len(counts) < 2 * counts.distinct


@pytest.mark.parametrize("gone", [[3, 3], [4], [1, 3, 9]])
def test_removing_what_is_not_there_is_an_error_and_changes_nothing(gone: list[int]) -> None:
    counts = ValueCounts(tally(np.array([1, 3])))
    with pytest.raises(ValueError, match="removed"):
        counts.remove(*tally(np.array(gone)))
    assert counts.get(np.array([1, 3])).tolist() == [1, 1]
    assert (counts.total, counts.distinct) == (2, 2)


def test_bad_counts_are_an_error() -> None:
    with pytest.raises(ValueError, match="negative"):
        ValueCounts().add(np.array([1]), np.array([-1]))
    with pytest.raises(ValueError, match="2 values with 1 counts"):
        ValueCounts().add(np.array([1, 2]), np.array([1]))


def test_unsorted_and_zero_counts_are_put_in_order() -> None:
    counts = ValueCounts()
    counts.add(np.array([5, 1, 5, 7]), np.array([1, 2, 3, 0]))
    assert [side.tolist() for side in counts.tally()] == [[1, 5], [2, 4]]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(1, 4)), max_size=20))
def test_tally_counts_multiplicities(rows: list[tuple[int, int]]) -> None:
    expected = Counter[int]()
    for value, n in rows:
        expected[value] += n
    values, counts = tally(np.array([v for v, _ in rows], np.int64), np.array([n for _, n in rows], np.int64))
    assert dict(zip(values.tolist(), counts.tolist())) == expected
    assert values.tolist() == sorted(expected)


@pytest.mark.parametrize("seed", range(40))
def test_squares_and_the_greatest_count_follow_every_change(seed: int) -> None:
    """Read before the changes or after them, they are those of the counts."""
    rng = np.random.default_rng(seed)
    watched, plain = ValueCounts(), ValueCounts()
    assert (watched.squares, watched.greatest) == (0, 0)
    held: list[FrequencyTable] = []
    for _ in range(60):
        if held and rng.random() < 0.45:
            gone = held.pop(int(rng.integers(len(held))))
            watched.remove(*gone)
            plain.remove(*gone)
        else:
            held.append(tally(rng.zipf(1.3, int(rng.integers(1, 1500))) % 3000))
            watched.add(*held[-1])
            plain.add(*held[-1])
        counts = plain.tally().counts
        assert (watched.squares, watched.greatest) == (int((counts**2).sum()), int(counts.max(initial=0)))
    assert (plain.squares, plain.greatest) == (watched.squares, watched.greatest)


@pytest.mark.parametrize("size", [7, 10_000])
@pytest.mark.parametrize("greatest", [3, 1 << 40], ids=["small", "beyond 64 bits"])
def test_dot_is_exact(size: int, greatest: int) -> None:
    rng = np.random.default_rng(size)
    left, right = rng.integers(0, greatest, size), rng.integers(0, greatest, size)
    assert dot(left, right) == sum(a * b for a, b in zip(left.tolist(), right.tolist()))
