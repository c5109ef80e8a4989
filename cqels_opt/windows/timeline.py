"""The distinct times of a stream's elements in the driver: 8 bytes for each instant that a window still needs."""

from __future__ import annotations

import numpy as np

from cqels_opt.stats.frequencies import distinct_values
from cqels_opt.windows.intervals import Times


class Timeline:
    """Rising times. New times are mostly appended, old ones are dropped at the front; neither copies the other times."""

    def __init__(self) -> None:
        self._room: Times = np.empty(1024, np.int64)
        self._first = self._end = 0

    @property
    def times(self) -> Times:
        """The times, in order."""
        return self._room[self._first : self._end]

    @property
    def nbytes(self) -> int:
        """Bytes in memory: at most four times those of the times, plus 8 kB."""
        return self._room.nbytes

    def add(self, times: Times) -> None:
        """Adds rising times."""
        if not len(times):
            return
        kept = int(np.searchsorted(self.times, times[0]))
        if self._first + kept < self._end:
            times = distinct_values(np.concatenate([self.times[kept:], times]), in_runs=True)
        if self._first + kept + len(times) > len(self._room):
            self._move(kept, len(times))
        at = self._first + kept
        self._end = at + len(times)
        self._room[at : self._end] = times

    def forget(self, before: int) -> None:
        """Drops the times before an instant."""
        self._first += int(np.searchsorted(self.times, before))
        if 4 * (self._end - self._first) < len(self._room) - 1024:
            self._move(self._end - self._first, 0)

    def _move(self, kept: int, more: int) -> None:
        """Copies the first ``kept`` times to a new array with room for ``more``, and for as many again."""
        room = np.empty(max(2 * (kept + more), 1024), np.int64)
        room[:kept] = self.times[:kept]
        self._room, self._first, self._end = room, 0, kept
