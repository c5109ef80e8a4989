"""Which runs of a window are merged: neighbours of like size, so that their number stays logarithmic (LSM-tree, O'Neil et al. 1996).

New runs are small and many. A run is merged with older ones while the next older one is less than twice as large as what has come
together: each row is then written O(log n) times, and sizes at least double from run to run. What is merged is bounded by a share of the
whole, so that a run expires as one file, with few rows in it that have long expired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """When small files are merged: ``files`` of them, or ``rows`` rows. A merged one has at most ``rows`` rows, or 1/``share`` of all."""

    files: int = 16
    rows: int = 1 << 16
    share: int = 16

    def due(self, files: int, rows: int) -> bool:
        """Whether so many small files are merged now."""
        return bool(files) and (files >= self.files or rows >= self.rows)

    def cap(self, total: int) -> int:
        """The most rows of a merged file, where there are ``total`` in all."""
        return max(self.rows, total // self.share)

    def group(self, merged: Sequence[int], small: Sequence[int]) -> tuple[slice, bool] | None:
        """What becomes one file now: of the ``merged`` ones these neighbours, and whether all ``small`` ones (rows each); None: nothing."""
        rows = sum(small)
        arriving = rows if self.due(len(small), rows) else 0
        found = like_sized(merged, self.cap(rows + sum(merged)), arriving)
        return None if found is None else (slice(*found), bool(arriving))

    def most(self, total: int) -> int:
        """The most merged files of ``total`` rows once nothing is due: two neighbours are above the cap, or one is twice the other."""
        return 2 * -(-total // self.cap(total)) + self.cap(total).bit_length() + 1


def like_sized(sizes: Sequence[int], cap: int, arriving: int = 0) -> tuple[int, int] | None:
    """The neighbours to merge next, as a slice of ``sizes`` (oldest first); None where there are none.

    ``arriving`` rows follow the newest run and have to be merged, if only among themselves: then the slice, which may be empty, ends
    with the newest.

    >>> like_sized([64, 10, 9], 100)
    (1, 3)
    >>> like_sized([64, 30, 9], 100, arriving=8)
    (1, 3)
    >>> like_sized([64, 30, 9], 100)
    """
    stop = len(sizes)
    while stop or arriving:
        first = stop if arriving else stop - 1
        total = arriving or sizes[first]
        while first and sizes[first - 1] < 2 * total and total + sizes[first - 1] <= cap:
            first -= 1
            total += sizes[first]
        if arriving or stop - first > 1:
            return first, stop
        stop = first
    return None
