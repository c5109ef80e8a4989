"""Value counts in bounded memory: exact up to a budget, beyond it heavy hitters and a sketch of the rest (DESIGN §6).

The sketch is a *coordinated sample*: of the values that are not heavy it keeps those whose hash is below 2^(64 − level), with
exact counts. All counters use one hash, so two sketches hold the same values of what they have in common. It is a theta sketch
whose entries carry counts (Dasgupta et al. 2016), and with the heavy values apart an end-biased sample (Estan & Naughton, ICDE
2006). It was preferred to Count-Min and Count-Sketch because it is smaller a slot, removes exactly, counts distinct values as
well, and errs less on joins where only some values match: theirs have the standard error √(Σf²·Σg²/width).

With p = 2^−level, and p(c) = 1 for heavy values (of both sides) and p otherwise, an estimate is Horvitz and Thompson's: a value
that is held stands for 1/p(c) values.

=============== =========================================== =============================================================
quantity        estimate                                    error
=============== =========================================== =============================================================
rows            counted                                     none
join size       Σ held f(c)·g(c)/p(c)                       unbiased; standard error √((1/p − 1)·Σ not heavy (f(c)·g(c))²)
distinct values Σ held 1/p(c)                               unbiased; standard error √((1/p − 1)·number of values not heavy)
f(c), held      counted                                     none
f(c), not held  the mean count of the values not held       at most the larger of f(c) and that mean
=============== =========================================== =============================================================

These bounds are over the choice of the hash, which decides what is held. By Chebyshev's inequality, which asks only that the hashes of two
values are independent, an unbiased estimate errs by more than k standard errors with probability at most 1/k²: by more than three in one
case of nine, by more than ten in one of a hundred. As Σ(f·g)² ≤ m·Σ f·g, where m is the largest product of a value that is not heavy, the
standard error of a join of J rows is at most √((1/p − 1)·m/J) of J: it is the heavy values, counted exactly, that keep m small.

A value that becomes heavy later is counted from then on, so it is never overestimated: what it had before in slots that dropped it is
missing until these slots have left. That is less than the threshold of :func:`risen` in each of them; or, of a value that was heavy before
and gave way to heavier ones, at most what the lightest of those had. The level falls back to 0 when a window is empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cqels_opt.stats.frequencies import EMPTY, Fanout, FrequencyTable, Ints, ValueCounts

HIGHEST_LEVEL = 60
LEAST_RISE = 8
"""Fewer rows in a slot than this make no value heavy."""


def mixed(values: Ints) -> NDArray[np.uint64]:
    """A 64-bit hash of ids, the same everywhere (the finaliser of splitmix64): inline ids are anything but uniform."""
    x = np.asarray(values, np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclass(frozen=True, slots=True, eq=False)
class RetainedFrequencies:
    """Which values are held: the ``heavy`` ones (rising), and of the others those in the sample of this ``level``."""

    heavy: Ints
    level: int

    def chance(self, values: Ints) -> NDArray[np.float64]:
        """The probability with which each value is held."""
        return np.where(self.is_heavy(values), 1.0, 0.5**self.level)

    def holds(self, values: Ints) -> NDArray[np.bool_]:
        """Whether each value is held."""
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


class BoundedCounts:
    """The value counts of one variable in ``rows`` rows, so far as ``kept`` holds them; with :data:`ALL` all of them, exactly."""

    __slots__ = ("counts", "kept", "rows")

    def __init__(self, counts: ValueCounts | None = None, kept: RetainedFrequencies = ALL, rows: int | None = None) -> None:
        self.counts = counts or ValueCounts()
        self.kept = kept
        self.rows = self.counts.total if rows is None else rows

    @property
    def exact(self) -> bool:
        """Whether every value is held."""
        return not self.kept.level

    @property
    def distinct(self) -> float:
        """How many values there are."""
        if self.exact:
            return float(self.counts.distinct)
        heavy = int((self.counts.get(self.kept.heavy) > 0).sum())
        return heavy + (self.counts.distinct - heavy) * 2.0**self.kept.level

    def add(self, other: BoundedCounts) -> None:
        """The rows of ``other`` come in. It must hold at least what is held here."""
        self.counts.add(*self._of(other))
        self.rows += other.rows

    def remove(self, other: BoundedCounts) -> None:
        """The rows of ``other``, which came in before, leave."""
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
        """Σ_c f(c)·g(c); an exact integer where both sides are exact."""
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

    def keep(self, kept: RetainedFrequencies) -> None:
        """Hold only what ``kept`` holds from now on. It must not hold values that have been dropped."""
        self.counts = ValueCounts(self._within(self.counts.tally(), kept))
        self.kept = kept

    def tally(self) -> FrequencyTable:
        """The counters that are held, as one tally."""
        return self.counts.tally()

    def _of(self, other: BoundedCounts) -> FrequencyTable:
        return other.counts.tally() if other.kept is self.kept else self._within(other.counts.tally(), self.kept)

    @staticmethod
    def _within(tallied: FrequencyTable, kept: RetainedFrequencies) -> FrequencyTable:
        held = kept.holds(tallied.values)
        return FrequencyTable(tallied.values[held], tallied.counts[held])


def heaviest(tallied: FrequencyTable, most: int) -> Ints:
    """The ``most`` values with the highest counts, rising."""
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
