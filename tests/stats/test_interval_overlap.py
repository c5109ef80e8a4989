"""Overlapping pairs against every pair looked at."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cqels_opt.stats import overlapping, spans
from cqels_opt.stats.interval_overlap import MOST_CHUNK_PAIRS

ROWS = st.lists(st.tuples(st.integers(0, 30), st.integers(-2, 15), st.integers(0, 3)), max_size=12)
Rows = list[tuple[int, int, int]]


def columns(rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        np.array([start for start, _, _ in rows], np.int64),
        np.array([start + length for start, length, _ in rows], np.int64),
        np.array([n for _, _, n in rows], np.int64),
    )


def brute(left: Rows, right: Rows) -> int:
    return sum(n * m for s, k, n in left for t, j, m in right if max(s, t) < min(s + k, t + j))


@settings(deadline=None)
@given(ROWS, ROWS)
def test_overlapping_pairs_are_counted_exactly(left: Rows, right: Rows) -> None:
    assert overlapping([spans(*columns(left))], [spans(*columns(right))]) == brute(left, right)


@settings(deadline=None)
@given(st.lists(ROWS, max_size=4), st.lists(ROWS, max_size=4))
def test_chunks_make_no_difference(left: list[Rows], right: list[Rows]) -> None:
    flat_left, flat_right = [row for rows in left for row in rows], [row for rows in right for row in rows]
    assert overlapping([spans(*columns(rows)) for rows in left], [spans(*columns(rows)) for rows in right]) == brute(
        flat_left, flat_right
    )


def test_now_with_a_range_is_far_below_the_product() -> None:
    times = np.arange(0, 60_000, 10)
    one = np.ones(len(times), np.int64)
    now, half_minute = spans(times, times + 1, one), spans(times, times + 30_000, one)
    share = overlapping([now], [half_minute]) / (len(times) ** 2)
    assert 0.37 < share < 0.38  # of 60 s of rows, each instant meets those of the 30 s before it
    assert overlapping([half_minute], [now]) == overlapping([now], [half_minute])
    assert overlapping([now], []) == 0


@settings(deadline=None)
@given(ROWS, st.integers(0, 40))
def test_spans_after_a_frontier(rows: Rows, frontier: int) -> None:
    left = spans(*columns(rows)).after(frontier)
    assert left.rows == sum(n for s, k, n in rows if s < s + k and s + k > frontier)


def test_many_chunks_that_bounds_do_not_decide_are_joined() -> None:
    """Each chunk has an early and a late row, so that no two of them meet in all rows or in none."""
    rows = [[(t, 5, 1), (t + 200, 5, 2)] for t in range(80)]
    chunks = [spans(*columns(of_chunk)) for of_chunk in rows]
    assert len(chunks) ** 2 > MOST_CHUNK_PAIRS
    assert overlapping(chunks, chunks) == brute(flat := [row for of_chunk in rows for row in of_chunk], flat)
