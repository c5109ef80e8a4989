"""The number of pairs of rows of two windows that are valid at a common time: the share of the product that a join keeps (DESIGN §6).

A row of NOW is valid for 1 ms and meets a row of RANGE 30 s only during those 30 s, which the value counts of the two windows do not
show. Rows are given as *spans*: an interval ``[start, end)`` for each distinct time and the number of rows with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cqels_opt.stats.frequencies import EMPTY, Ints, dot

MOST_CHUNK_PAIRS = 4096
"""If more pairs of sets than this are not decided by their bounds, each side is joined into one set."""


@dataclass(frozen=True, slots=True)
class IntervalSet:
    """Non-empty validity intervals in order of their ends, each with its number of rows; made by :func:`spans`.

    ``upto[i]`` is the rows of the first i intervals, ``rows`` those of all; the bounds are 0 for an empty set.
    """

    starts: Ints
    ends: Ints
    n: Ints
    upto: Ints
    rows: int
    first_start: int
    last_start: int
    first_end: int
    last_end: int

    def ended_by(self, instants: Ints) -> Ints:
        """For each instant the number of rows that have ended at or before it."""
        return self.upto[np.searchsorted(self.ends, instants, "right")]

    def after(self, frontier: int) -> IntervalSet:
        """The spans that have not ended at ``frontier``."""
        if not self.rows or frontier < self.first_end:
            return self
        if frontier >= self.last_end:
            return NO_SPANS
        gone = int(np.searchsorted(self.ends, frontier, "right"))
        starts, ends, upto = self.starts[gone:], self.ends[gone:], self.upto[gone:] - self.upto[gone]
        bounds = int(starts.min()), int(starts.max()), int(ends[0]), self.last_end
        return IntervalSet(starts, ends, self.n[gone:], upto, int(upto[-1]), *bounds)


def spans(starts: Ints, ends: Ints, n: Ints) -> IntervalSet:
    """Spans from interval starts, ends and row counts in any order; empty intervals and zero counts are left out."""
    starts, ends, n = (np.asarray(column, np.int64) for column in (starts, ends, n))
    kept = (starts < ends) & (n > 0)
    if not kept.all():
        starts, ends, n = starts[kept], ends[kept], n[kept]
    if (ends[1:] < ends[:-1]).any():
        order = np.argsort(ends, kind="stable")
        starts, ends, n = starts[order], ends[order], n[order]
    upto = np.zeros(len(n) + 1, np.int64)
    np.cumsum(n, out=upto[1:])
    if not len(n):
        return IntervalSet(starts, ends, n, upto, 0, 0, 0, 0, 0)
    return IntervalSet(starts, ends, n, upto, int(upto[-1]), int(starts.min()), int(starts.max()), int(ends[0]), int(ends[-1]))


NO_SPANS = spans(EMPTY, EMPTY, EMPTY)


def overlapping(left: Sequence[IntervalSet], right: Sequence[IntervalSet]) -> int:
    """The pairs of rows whose intervals intersect, exactly. Each side comes in sets, one per slot; the bounds decide most pairs of sets.

    >>> one, two = spans(np.array([0, 5]), np.array([3, 9]), np.array([2, 1])), spans(np.array([2]), np.array([5]), np.array([1]))
    >>> overlapping([one], [two])
    2
    """
    left, right = [chunk for chunk in left if chunk.rows], [chunk for chunk in right if chunk.rows]
    if not left or not right:
        return 0
    one, other = _bounds(left)[:, :, None], _bounds(right)[:, None, :]
    meet = (one[_LAST_START] < other[_FIRST_END]) & (other[_LAST_START] < one[_FIRST_END])
    apart = (other[_LAST_END] <= one[_FIRST_START]) | (one[_LAST_END] <= other[_FIRST_START])
    pairs = dot(one[_ROWS, :, 0], meet @ other[_ROWS, 0])
    undecided = np.argwhere(~(meet | apart))
    if len(undecided) > MOST_CHUNK_PAIRS:
        return _overlapping(joined(left), joined(right))
    return pairs + sum(_overlapping(left[i], right[j]) for i, j in undecided.tolist())


_ROWS, _FIRST_START, _LAST_START, _FIRST_END, _LAST_END = range(5)


def _bounds(chunks: Sequence[IntervalSet]) -> Ints:
    """Rows and bounds, one column per set."""
    found = [(c.rows, c.first_start, c.last_start, c.first_end, c.last_end) for c in chunks]
    return np.array(found, np.int64).T


def _overlapping(left: IntervalSet, right: IntervalSet) -> int:
    """All pairs except those where one row has ended when the other begins."""
    return left.rows * right.rows - dot(left.n, right.ended_by(left.starts)) - dot(right.n, left.ended_by(right.starts))


def joined(chunks: Sequence[IntervalSet]) -> IntervalSet:
    """The union of several sets."""
    if len(chunks) == 1:
        return chunks[0]
    if not chunks:
        return NO_SPANS
    return spans(*(np.concatenate([getattr(chunk, field) for chunk in chunks]) for field in ("starts", "ends", "n")))
