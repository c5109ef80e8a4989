"""The fan-out of an index: how many rows its keys have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cqels_opt.lod.order import Ids
from cqels_opt.stats.frequencies import dot

_PIECE: Final = 1 << 20
"""Runs that are counted at a time."""


@dataclass(frozen=True, slots=True)
class FanOut:
    """How many rows the keys of an index have. ``histogram[k]`` counts the keys with 2**k to 2**(k+1)-1 rows."""

    keys: int
    rows: int
    maximum: int
    squares: int
    histogram: tuple[int, ...]

    @property
    def mean(self) -> float:
        """The mean number of rows per key."""
        return self.rows / self.keys if self.keys else 0.0

    @property
    def weighted(self) -> float:
        """The expected rows per key for probes that are distributed like the relation's own keys."""
        return self.squares / self.rows if self.rows else 0.0


def fan_out(starts: Ids) -> FanOut:
    """The distribution of run lengths between ``starts`` (one more than there are keys)."""
    histogram = np.zeros(64, np.int64)
    maximum = squares = 0
    for begin in range(0, len(starts) - 1, _PIECE):
        lengths = np.diff(starts[begin : begin + _PIECE + 1])
        histogram += np.bincount(np.frexp(lengths.astype(np.float64))[1] - 1, minlength=64)
        squares += dot(lengths, lengths)
        maximum = max(maximum, int(lengths.max()))
    filled = int(np.flatnonzero(histogram)[-1]) + 1 if maximum else 0
    return FanOut(len(starts) - 1, int(starts[-1]), maximum, squares, tuple(histogram[:filled].tolist()))
