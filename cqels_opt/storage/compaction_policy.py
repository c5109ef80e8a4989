"""Which runs (files, or parts in memory) are merged: neighbours of like size, so that their number stays logarithmic (O'Neil et al. 1996).

A run is merged with older ones while the next older one has less than twice the rows collected so far, or another multiple. Each row is
then written O(log n) times, and sizes at least double from run to run. :class:`CompactionPolicy` says when new files of a state are merged,
and limits a merged file to a share of the whole, so that it expires as one file with few rows that expired long before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MERGED: Final = "merged"
"""Marks a file of the state as the result of a merge."""


def runs_to_merge(sizes: Sequence[int], cap: float = math.inf, arriving: int = 0, ratio: int = 2) -> slice | None:
    """The neighbours to merge next, as a slice of ``sizes`` (oldest first); None if there are none. A merged run has at most ``cap`` rows.

    A run is merged with older ones while the next one has less than ``ratio`` times the rows collected so far.

    ``arriving`` rows follow the newest run and are always merged, if only with each other: the slice then ends with the newest run, and
    may be empty.

    >>> runs_to_merge([64, 10, 9], 100)
    slice(1, 3, None)
    >>> runs_to_merge([64, 30, 9], 100, arriving=8)
    slice(1, 3, None)
    >>> runs_to_merge([64, 30, 9], 100)
    """
    stop = len(sizes)
    while stop or arriving:
        first = stop if arriving else stop - 1
        total = arriving or sizes[first]
        while first and sizes[first - 1] < ratio * total and total + sizes[first - 1] <= cap:
            first -= 1
            total += sizes[first]
        if arriving or stop - first > 1:
            return slice(first, stop)
        stop = first
    return None


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """New files are merged once there are ``files`` of them, or ``rows`` rows.

    A merged file has at most ``rows`` rows, or 1/``share`` of all.
    """

    files: int = 16
    rows: int = 1 << 16
    share: int = 16

    def due(self, files: int, rows: int) -> bool:
        """Whether this number of new files is merged now."""
        return bool(files) and (files >= self.files or rows >= self.rows)

    def cap(self, total: int) -> int:
        """The most rows of a merged file, if there are ``total`` in all."""
        return max(self.rows, total // self.share)

    def group(self, merged: Sequence[int], new: Sequence[int]) -> tuple[slice, bool] | None:
        """What becomes one file now, from the rows of each file: a slice of the ``merged`` files, and whether all ``new`` ones; or None."""
        rows = sum(new)
        arriving = rows if self.due(len(new), rows) else 0
        found = runs_to_merge(merged, self.cap(rows + sum(merged)), arriving)
        return None if found is None else (found, bool(arriving))
