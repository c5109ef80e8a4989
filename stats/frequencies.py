"""The frequency of each value: card(Ω_{x=c}) for every value c of a variable x (CQELS report, §5), changed by ± in bulk.

The counters are sorted numpy arrays in two tiers: a large *base*, and a small *recent* tier for values that are not in the base.
Counts of known values change in place. New values are inserted into the recent tier, which is merged into the base when it has grown to a
quarter of it. So a small delta against a large total costs two binary searches per value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Fanout: TypeAlias = Callable[[Ints], Ints]
"""Values of a join key -> how many rows of a static relation each matches."""

SMALLEST_RECENT = 1024

EMPTY: Ints = np.empty(0, np.int64)


class FrequencyTable(NamedTuple):
    """Distinct values in ascending order, and the number of rows with each."""

    values: Ints
    counts: Ints


def tally(values: Ints, n: Ints | None = None) -> FrequencyTable:
    """The value counts of a column, with multiplicities ``n`` where a row counts several times.

    >>> tally(np.array([7, 3, 7])).counts.tolist()
    [1, 2]
    """
    values = np.asarray(values, np.int64)
    if n is None:
        return FrequencyTable(*np.unique(values, return_counts=True))
    order = np.argsort(values)
    values, n = values[order], np.asarray(n, np.int64)[order]
    first = np.flatnonzero(np.diff(values, prepend=values[:1] - 1)) if len(values) else EMPTY
    return FrequencyTable(values[first], np.add.reduceat(n, first) if len(first) else EMPTY)


def distinct_values(values: Ints, in_runs: bool = False) -> Ints:
    """The different values in ascending order. ``np.unique`` hashes numbers instead, which is up to 50 times as slow.

    ``in_runs``: the values are a few rising runs, which are merged.
    """
    ordered = np.sort(values, kind="stable" if in_runs else None)
    changed = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=changed[1:])
    return ordered[changed]


def dot(left: NDArray[Any], right: NDArray[Any]) -> int:
    """Σ left·right of non-negative counts: exact, even if it does not fit into 64 bits.

    ``np.dot`` of numbers with fractions wakes the threads of BLAS, which then spin for longer than the sum takes; of integers it does not.
    """
    if np.multiply(left, right, dtype=np.float64).sum() < 2.0**62:
        return int(np.dot(left, right))
    return int(np.dot(left.astype(object), right.astype(object)))


def in_order(values: Ints) -> bool:
    """Whether values are distinct and ascending, as the counters need them."""
    return bool((values[1:] > values[:-1]).all())


class _Tier:
    """Sorted values with counts; a count may be zero until the next merge."""

    __slots__ = ("counts", "values")

    def __init__(self, values: Ints = EMPTY, counts: Ints = EMPTY) -> None:
        self.values, self.counts = values, counts

    def find(self, values: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """The position at which each value is or would be inserted, and whether it is present."""
        place = np.searchsorted(self.values, values)
        if not len(self.values):
            return place, np.zeros(len(values), bool)
        return place, self.values.take(place, mode="clip") == values

    def insert(self, place: Ints, values: Ints, counts: Ints) -> None:
        """Inserts absent values at their positions."""
        at = place + np.arange(len(place))
        old = np.ones(len(self.values) + len(at), bool)
        old[at] = False
        self.values, self.counts = _with(self.values, values, at, old), _with(self.counts, counts, at, old)


def _with(column: Ints, new: Ints, at: Ints, old: NDArray[np.bool_]) -> Ints:
    """A column with new values at some places: ``np.insert`` of sorted places, in a third of its time for short columns."""
    found = np.empty(len(old), np.int64)
    found[at], found[old] = new, column
    return found


class ValueCounts:
    """Exact counters of a variable's values.

    ``total`` is the sum of all counts (rows), ``distinct`` the number of values with a count above zero, ``version`` rises with
    every change. Values are int64 ids; counts are at least zero, and removing more than was added is an error. :attr:`squares` and
    :attr:`greatest` follow each change once they have been read.
    """

    __slots__ = ("_base", "_greatest", "_recent", "_squares", "distinct", "total", "version")

    def __init__(self, counts: FrequencyTable | None = None) -> None:
        self._base, self._recent = _Tier(), _Tier()
        self.total = self.distinct = self.version = 0
        self._squares: int | None = None  # None until it is read
        self._greatest: int | None = None  # None until it is read, and after the last value with it has lost rows
        if counts is not None and len(counts.values):
            self._base = _Tier(counts.values, counts.counts.copy())
            self.total, self.distinct, self.version = int(counts.counts.sum()), len(counts.values), 1

    def add(self, values: Ints, counts: Ints) -> None:
        """Adds rows: ``counts[i]`` with ``values[i]``."""
        values, counts = _normal(values, counts)
        if not len(values):
            return
        self.version += 1
        self.total += int(counts.sum())
        if not len(self._base.values):
            self._base = _Tier(values, counts.copy())
            self.distinct += len(values)
            self._note_risen(np.zeros(len(counts), np.int64), counts)
            return
        place, known = self._base.find(values)
        self._raise_by(self._base, place[known], counts[known])
        if known.all():
            return
        values, counts = values[~known], counts[~known]
        place, known = self._recent.find(values)
        self._raise_by(self._recent, place[known], counts[known])
        self._recent.insert(place[~known], values[~known], counts[~known])
        self._note_risen(np.zeros(int(len(known) - known.sum()), np.int64), counts[~known])
        self.distinct += int(len(known) - known.sum())
        if len(self._recent.values) > max(SMALLEST_RECENT, len(self._base.values) // 4):
            self._merge()

    def remove(self, values: Ints, counts: Ints) -> None:
        """Removes rows that were counted before. If there were fewer, raises ValueError and changes nothing."""
        values, counts = _normal(values, counts)
        if not len(values):
            return
        place, known = self._base.find(values)
        later, recent = self._recent.find(values[~known])
        base_left = self._base.counts[place[known]] - counts[known]
        recent_left = self._recent.counts[later[recent]] - counts[~known][recent]
        if not recent.all() or (base_left < 0).any() or (recent_left < 0).any():
            raise ValueError("more rows removed than were counted")
        self.version += 1
        self.total -= int(counts.sum())
        self._note_fallen(base_left, counts[known])
        self._note_fallen(recent_left, counts[~known][recent])
        self._base.counts[place[known]] = base_left
        self._recent.counts[later[recent]] = recent_left
        self.distinct -= int((base_left == 0).sum() + (recent_left == 0).sum())
        if 2 * self.distinct < len(self._base.values):
            self._merge()

    def get(self, values: Ints) -> Ints:
        """card(Ω_{x=c}) for each value c, in any order and with repetitions; zero if c does not occur."""
        values = np.asarray(values, np.int64)
        found = np.zeros(len(values), np.int64)
        for tier in (self._base, self._recent):
            if len(tier.values):
                place, known = tier.find(values)
                found += np.where(known, tier.counts.take(place, mode="clip"), 0)
        return found

    @property
    def squares(self) -> int:
        """Σ_c f(c)², exact."""
        if self._squares is None:
            self._squares = sum(dot(counts, counts) for _, counts in self.tallies())
        return self._squares

    @property
    def greatest(self) -> int:
        """max_c f(c), 0 without values."""
        if self._greatest is None:
            self._greatest = max((int(counts.max()) for _, counts in self.tallies()), default=0)
        return self._greatest

    def tallies(self) -> list[FrequencyTable]:
        """The counters as at most two tables without common values, including counts of zero."""
        return [FrequencyTable(tier.values, tier.counts) for tier in (self._base, self._recent) if len(tier.values)]

    def tally(self) -> FrequencyTable:
        """The counters as one table, without zeros."""
        self._merge()
        return FrequencyTable(self._base.values, self._base.counts)

    def dot(self, other: ValueCounts | Fanout) -> int:
        """Σ_c f(c)·g(c), the size of the join with ``other``: the values of the smaller side are looked up in the other."""
        if isinstance(other, ValueCounts):
            if len(other) < len(self):
                return other.dot(self)
            other = other.get
        return sum(dot(counts, np.asarray(other(values), np.int64)) for values, counts in self.tallies())

    def __len__(self) -> int:
        return len(self._base.values) + len(self._recent.values)

    def _raise_by(self, tier: _Tier, place: Ints, counts: Ints) -> None:
        before = tier.counts[place]
        tier.counts[place] = before + counts
        self.distinct += int((before == 0).sum())
        self._note_risen(before, counts)

    def _note_risen(self, before: Ints, added: Ints) -> None:
        """(f + a)² = f² + a·(2f + a)"""
        if self._squares is not None:
            self._squares += dot(added, 2 * before + added)
        if self._greatest is not None and len(added):
            self._greatest = max(self._greatest, int((before + added).max()))

    def _note_fallen(self, left: Ints, removed: Ints) -> None:
        if self._squares is not None:
            self._squares -= dot(removed, 2 * left + removed)
        if self._greatest is not None and ((left + removed) == self._greatest).any():
            self._greatest = None

    def _merge(self) -> None:
        """Moves recent values into the base and removes zeros."""
        base, recent = self._base, self._recent
        if len(recent.values):
            base.insert(np.searchsorted(base.values, recent.values), recent.values, recent.counts)
            self._recent = _Tier()
        if self.distinct < len(base.values):
            kept = base.counts > 0
            self._base = _Tier(base.values[kept], base.counts[kept])


def _normal(values: Ints, counts: Ints) -> FrequencyTable:
    """Ascending, distinct values without zero counts, as the tiers need them."""
    values, counts = np.asarray(values, np.int64), np.asarray(counts, np.int64)
    if len(values) != len(counts):
        raise ValueError(f"{len(values)} values with {len(counts)} counts")
    if (counts < 0).any():
        raise ValueError("a count is negative")
    if not in_order(values):
        values, counts = tally(values, counts)
    kept = counts > 0
    return FrequencyTable(values, counts) if kept.all() else FrequencyTable(values[kept], counts[kept])
