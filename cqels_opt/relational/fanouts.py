"""The number of rows of a static relation per join key: exact within a budget; beyond it, heavy keys and a sample of the others.

The sample is that of ``stats/frequency_sketch.py``: keys whose hash is below a bound, with exact counts, so that two relations
sample the same of their common keys; estimates are Horvitz-Thompson estimates. Spark counts the keys, so keys arrive as hashes
and already sampled. A key that is not in the sample counts as 0 rows, which is right on average.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cqels_opt.stats import FrequencyTable
from cqels_opt.stats.frequencies import Ints

BUDGET = 1 << 18
"""Maximum keys per relation and variable in the driver's memory."""

HIGHEST_LEVEL = 62


def level_for(distinct: float, budget: int = BUDGET) -> int:
    """The sampling level for a number of keys: a share of 2^−level is kept, at most half of the budget; level 0 keeps all."""
    if distinct <= budget:
        return 0
    return min(HIGHEST_LEVEL, int(np.ceil(np.log2(2 * distinct / budget))))


def heavy_for(rows: int, level: int, budget: int = BUDGET) -> int:
    """The minimum rows of a heavy key, so that at most half of the budget are heavy; 0 for level 0, which keeps all keys."""
    return 0 if not level else max(2, 2 * rows // budget + 1)


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """The kept keys, ascending, with their row counts; each is in the sample of ``level`` or has at least ``heavy`` rows."""

    rows: int
    distinct: float
    held: FrequencyTable
    level: int = 0
    heavy: int = 0

    def fanout(self, keys: Ints) -> Ints:
        """The estimated rows of each key: its own; a sampled key also represents keys that are not kept."""
        found = self._rows(keys)
        return np.left_shift(found, self._levels(found))

    def matches(self, keys: Ints) -> Ints:
        """Whether there are rows of each key, 0 or 1; a sampled key also represents keys that are not kept."""
        found = self._rows(keys)
        return np.left_shift(np.minimum(found, 1), self._levels(found))

    def _rows(self, keys: Ints) -> Ints:
        """The rows of each key that is kept; 0 of others."""
        values, counts = self.held
        if not len(values):
            return np.zeros(len(keys), np.int64)
        place = np.searchsorted(values, keys)
        return np.where(values.take(place, mode="clip") == keys, counts.take(place, mode="clip"), 0)

    def join_size(self, other: KeyCounts) -> float:
        """Σ f·g over the keys of both."""
        _, own_index, other_index = np.intersect1d(self.held.values, other.held.values, assume_unique=True, return_indices=True)
        f, g = self.held.counts[own_index], other.held.counts[other_index]
        weights = 2.0 ** np.maximum(self._levels(f), other._levels(g))
        return float((f.astype(np.float64) * g * weights).sum())

    def _levels(self, counts: Ints) -> Ints:
        """The sampling level of each count: 0 for heavy keys."""
        if not self.level:
            return np.zeros(len(counts), np.int64)
        return np.where(counts >= self.heavy, 0, self.level)
