"""How many rows of a static relation have each join key: all keys within a budget, beyond it the heavy ones and a sample of the rest.

The sample is that of ``stats/frequency_sketch.py``: keys whose hash is below a bound, with exact counts, so that two relations hold the
same keys
of what they have in common, and estimates are Horvitz and Thompson's. Here Spark counts, so keys are hashes and come with the sample
taken already; what is not held has no rows, on average rightly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cqels_opt.stats import FrequencyTable
from cqels_opt.stats.frequencies import Ints

BUDGET = 1 << 18
"""Keys of a relation and variable that the driver holds."""

HIGHEST_LEVEL = 62


def level_for(distinct: float, budget: int = BUDGET) -> int:
    """The level of the sample of so many keys: 2^−level of them are held, half of the budget at most; 0 holds all."""
    if distinct <= budget:
        return 0
    return min(HIGHEST_LEVEL, int(np.ceil(np.log2(2 * distinct / budget))))


def heavy_for(rows: int, level: int, budget: int = BUDGET) -> int:
    """From how many rows on a key is heavy: then at most half of the budget are. Of a level that holds all keys, none is."""
    return 0 if not level else max(2, 2 * rows // budget + 1)


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """The keys that are held, rising, with their rows; all in the sample of ``level``, or of at least ``heavy`` rows."""

    rows: int
    distinct: float
    held: FrequencyTable
    level: int = 0
    heavy: int = 0

    def fanout(self, keys: Ints) -> Ints:
        """The rows that each key is worth: its own; of a key in a sample, those of the keys that are not held as well."""
        values, counts = self.held
        if not len(values):
            return np.zeros(len(keys), np.int64)
        place = np.searchsorted(values, keys)
        found = np.where(values.take(place, mode="clip") == keys, counts.take(place, mode="clip"), 0)
        return np.left_shift(found, self._levels(found))

    def join_size(self, other: KeyCounts) -> float:
        """Σ f·g over the keys of both."""
        _, mine, theirs = np.intersect1d(self.held.values, other.held.values, assume_unique=True, return_indices=True)
        f, g = self.held.counts[mine], other.held.counts[theirs]
        weights = 2.0 ** np.maximum(self._levels(f), other._levels(g))
        return float((f.astype(np.float64) * g * weights).sum())

    def _levels(self, counts: Ints) -> Ints:
        """Of each key that is held, at what level it is."""
        if not self.level:
            return np.zeros(len(counts), np.int64)
        return np.where(counts >= self.heavy, 0, self.level)
