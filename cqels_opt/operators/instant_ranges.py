"""Ranges of a step's instants: many answers are emitted range by range, in order of time, and tasks share the ranges.

What is emitted at an instant depends on the rows that begin or end there, or on those that are valid there. So a range reads its own rows
only, as far as each row of the query comes from one row of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cqels_opt.operators import rows as row_sets
from cqels_opt.operators.rows import Ints, Rows
from cqels_opt.windows.intervals import places_in

SAMPLED = 1 << 16
"""Rows by which the ranges are cut, of many rows."""


class InstantRange(NamedTuple):
    """Neighbouring places in the sequence of instants: those in ``[low, high)``."""

    low: int
    high: int

    def rows(self, rows: Rows, instants: Ints, whole: bool) -> Rows:
        """The rows, with intervals of time, that are valid at some of these instants (``whole``), or that begin or end there."""
        first, before, last = instants[self.low], instants[self.low - 1], instants[self.high - 1]
        if whole:
            return rows.take((rows.start <= last) & (rows.end > first))
        begins, ends = ((at > before) & (at <= last) for at in (np.asarray(rows.start), np.asarray(rows.end)))
        return rows.take(begins | ends)


def instant_ranges(rows: Sequence[Rows], instants: Ints, whole: bool, part: int, parts: int) -> list[InstantRange]:
    """The ranges of a part, each for about as many answers as others, and about :data:`~cqels_opt.operators.rows.CHUNK` at most.

    The parts follow each other in time, so their lines need not be merged. ``rows`` have intervals of time; all parts have the same.
    """
    places, total = len(instants), sum(map(len, rows))
    if parts == 1 and total <= row_sets.CHUNK:
        return [InstantRange(1, places)]
    every = max(1, total // SAMPLED)
    begun, ended = np.zeros(places, np.int64), np.zeros(places, np.int64)
    for some in rows:
        for counts, at in ((begun, some.start), (ended, some.end)):
            counts += np.bincount(places_in(instants, at[::every]), minlength=places + 1)[:places]
    work = np.cumsum((np.cumsum(begun - ended) if whole else begun + ended)[1:])
    ranges = parts * max(1, -(-int(work[-1]) * every // (row_sets.CHUNK * parts)))
    cuts = 1 + np.searchsorted(work, work[-1] * np.arange(1, ranges) / ranges)
    edges = [1, *cuts.tolist(), places][part * (ranges // parts) :][: ranges // parts + 1]
    return [InstantRange(low, high) for low, high in pairwise(edges) if low < high]
