"""Value counts in bounded memory: exact up to a budget, beyond it heavy hitters and a sketch of the rest (DESIGN §6).

The sketch is a *coordinated sample*: of the values that are not heavy it keeps those whose hash is below 2^(64 − level), with
exact counts. All counters use one hash, so two sketches retain the same of their common values. It is a theta sketch
whose entries have counts (Dasgupta et al. 2016), and together with the heavy values an end-biased sample (Estan & Naughton, ICDE
2006). Compared with Count-Min and Count-Sketch it is smaller per slot, removes exactly, also counts distinct values, and has smaller
errors on joins where only some values match: their standard error is √(Σf²·Σg²/width).

With p = 2^−level, and p(c) = 1 for heavy values (of both sides) and p otherwise, an estimate is Horvitz and Thompson's: a retained
value has weight 1/p(c).

=============== =========================================== =============================================================
quantity        estimate                                    error
=============== =========================================== =============================================================
rows            counted                                     none
join size       Σ retained f(c)·g(c)/p(c)                   unbiased; standard error √((1/p − 1)·Σ not heavy (f(c)·g(c))²)
distinct values Σ retained 1/p(c)                           unbiased; standard error √((1/p − 1)·number of values not heavy)
f(c), retained  counted                                     none
f(c), dropped   the mean count of the dropped values        at most the larger of f(c) and that mean
=============== =========================================== =============================================================

These bounds are over the choice of the hash, which decides which values are retained. By Chebyshev's inequality, which asks only that the
hashes of two values are independent, an unbiased estimate errs by more than k standard errors with probability at most 1/k²: by more than
three in one case of nine, by more than ten in one of a hundred. As Σ(f·g)² ≤ m·Σ f·g, where m is the largest product of a value that is
not heavy, the standard error of a join of J rows is at most √((1/p − 1)·m/J) of J: the heavy values, which are counted exactly, keep m
small.

A value that becomes heavy later is counted from then on, so it is never overestimated: its earlier rows in slots that dropped it are
missing until these slots have left. These are fewer than the threshold of :func:`risen` in each slot; for a value that was heavy before
and was replaced by heavier ones, at most the count of the lightest of those. The level returns to 0 when a window is empty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cqels_opt.stats.frequencies import EMPTY, Fanout, FrequencyTable, Ints, ValueCounts

SAMPLE = 512
"""The most values of a column that are looked up elsewhere to estimate a join; columns with fewer are looked up whole."""

HIGHEST_LEVEL = 60
LEAST_RISE = 8
"""The least number of rows in a slot that makes a value heavy."""


def mixed(values: Ints) -> NDArray[np.uint64]:
    """A 64-bit hash of ids, the same in every process (the finaliser of splitmix64); inline ids are not uniform."""
    x = np.asarray(values, np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclass(frozen=True, slots=True, eq=False)
class RetainedFrequencies:
    """Which values are retained: the ``heavy`` ones (ascending), and of the others those in the sample of this ``level``."""

    heavy: Ints
    level: int

    def chance(self, values: Ints) -> NDArray[np.float64]:
        """The probability that each value is retained."""
        return np.where(self.is_heavy(values), 1.0, 0.5**self.level)

    def holds(self, values: Ints) -> NDArray[np.bool_]:
        """Whether each value is retained."""
        if not self.level:
            return np.ones(len(values), bool)
        sampled: NDArray[np.bool_] = mixed(values) >> np.uint64(64 - self.level) == 0
        return self.is_heavy(values) | sampled

    def is_heavy(self, values: Ints) -> NDArray[np.bool_]:
        """Whether each value is a heavy one."""
        if not len(self.heavy):
            return np.zeros(len(values), bool)
        found: NDArray[np.bool_] = self.heavy.take(np.searchsorted(self.heavy, values), mode="clip") == values
        return found


ALL = RetainedFrequencies(EMPTY, 0)


class DegreeNorms(NamedTuple):
    """The norms ℓ1 (rows), ℓ2 and ℓ∞ (the rows of the most frequent value) of a degree sequence: the rows of each value of a variable."""

    rows: float
    l2: float
    greatest: float

    def plus(self, other: DegreeNorms) -> DegreeNorms:
        """Upper bounds for the sum of two degree sequences (Minkowski's inequality)."""
        return DegreeNorms(self.rows + other.rows, self.l2 + other.l2, self.greatest + other.greatest)


Weighted: TypeAlias = "tuple[Ints, NDArray[np.float64]]"
"""Values in ascending order, and the weight of each."""


class BoundedCounts:
    """The value counts of one variable in ``rows`` rows, restricted to those that ``kept`` retains; with :data:`ALL` exact."""

    __slots__ = ("_sample", "counts", "kept", "rows")

    def __init__(self, counts: ValueCounts | None = None, kept: RetainedFrequencies = ALL, rows: int | None = None) -> None:
        self.counts = counts or ValueCounts()
        self.kept = kept
        self.rows = self.counts.total if rows is None else rows
        self._sample: tuple[int, Weighted] | None = None

    @property
    def exact(self) -> bool:
        """Whether every value is retained."""
        return not self.kept.level

    @property
    def distinct(self) -> float:
        """The number of distinct values."""
        if self.exact:
            return float(self.counts.distinct)
        heavy = int((self.counts.get(self.kept.heavy) > 0).sum())
        return heavy + (self.counts.distinct - heavy) * 2.0**self.kept.level

    @property
    def norms(self) -> DegreeNorms:
        """Upper bounds of the norms of f; exact if every value is retained, else any rows of dropped values may be of one value."""
        dropped = float(self.rows - self.counts.total)
        return DegreeNorms(float(self.rows), math.sqrt(self.counts.squares) + dropped, self.counts.greatest + dropped)

    def add(self, other: BoundedCounts) -> None:
        """Adds the rows of ``other``, which must retain at least the values that are retained here."""
        self.counts.add(*self._of(other))
        self.rows += other.rows

    def remove(self, other: BoundedCounts) -> None:
        """Removes the rows of ``other``, which were added before."""
        self.counts.remove(*self._of(other))
        self.rows -= other.rows

    def get(self, values: Ints) -> NDArray[np.float64]:
        """card(Ω_{x=c}) for each value c."""
        found = self.counts.get(values).astype(np.float64)
        if self.exact:
            return found
        unheld, absent = self.rows - self.counts.total, self.distinct - self.counts.distinct
        return np.where(self.kept.holds(values), found, unheld / max(absent, 1.0))

    def dot(self, other: BoundedCounts | Fanout) -> float:
        """Σ_c f(c)·g(c); an exact integer if both sides are exact."""
        if not isinstance(other, BoundedCounts):
            if self.exact:
                return self.counts.dot(other)
            return sum(float((n * other(c) / self.kept.chance(c)).sum()) for c, n in self.counts.tallies())
        if self.exact and other.exact:
            return self.counts.dot(other.counts)
        few, many = (self, other) if len(self.counts) <= len(other.counts) else (other, self)
        size = 0.0
        for values, counts in few.counts.tallies():
            products = counts * many.counts.get(values).astype(np.float64)
            size += float((products / np.minimum(self.kept.chance(values), other.kept.chance(values))).sum())
        return size

    def sampled(self) -> Weighted:
        """Values with weights, so that Σ weight·g(value) is Σ_c f(c)·g(c): exact for at most :data:`SAMPLE` values, else unbiased over
        shuffled values.

        A systematic sample with probabilities proportional to f: a value with many rows is always in it. Only of exact counts.
        """
        if self._sample is None or self._sample[0] != self.counts.version:
            values, counts = self.counts.tally()
            if len(values) <= SAMPLE:
                weights = counts.astype(np.float64)
            else:
                upto, step = np.cumsum(counts), self.counts.total / SAMPLE
                values = values[np.searchsorted(upto, (np.arange(SAMPLE) + 0.5) * step, "right")]
                weights = np.full(SAMPLE, step)
            self._sample = self.counts.version, (values, weights)
        return self._sample[1]

    def keep(self, kept: RetainedFrequencies) -> None:
        """Retains only the values of ``kept`` from now on. It must not contain values that have been dropped."""
        self.counts = ValueCounts(self._within(self.counts.tally(), kept))
        self.kept, self._sample = kept, None

    def tally(self) -> FrequencyTable:
        """The retained counters, as one table."""
        return self.counts.tally()

    def _of(self, other: BoundedCounts) -> FrequencyTable:
        return other.counts.tally() if other.kept is self.kept else self._within(other.counts.tally(), self.kept)

    @staticmethod
    def _within(tallied: FrequencyTable, kept: RetainedFrequencies) -> FrequencyTable:
        held = kept.holds(tallied.values)
        return FrequencyTable(tallied.values[held], tallied.counts[held])


def heaviest(tallied: FrequencyTable, most: int) -> Ints:
    """The ``most`` values with the highest counts, ascending."""
    values, counts = tallied
    if len(values) <= most:
        return values.copy()
    return np.sort(values[np.argpartition(counts, len(counts) - most)[len(counts) - most :]])


def risen(slot: BoundedCounts, whole: BoundedCounts) -> Ints:
    """The values of an exact slot that become heavy: LEAST_RISE rows, and twice the share of rows of the lightest heavy value."""
    values, counts = slot.tally()
    lightest = int(whole.counts.get(whole.kept.heavy).min(initial=whole.rows))
    threshold = max(LEAST_RISE, 2 * slot.rows * lightest / max(whole.rows, 1))
    values = values[counts >= threshold]
    return values[~whole.kept.is_heavy(values)]
