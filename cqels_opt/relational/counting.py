"""The statistics of a micro-batch: rows by time and by join key, from a sample of its rows.

Keys are 64-bit hashes, so that columns of all types are counted in the same way, and no rows reach the driver. What answers depend on, the
numbers of rows and their first and last times, is exact; the driver estimates the rest with the weights of sampled rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cqels_opt.stats import SlotCounts, tally
from cqels_opt.stats.frequencies import Ints

WHOLE: Final = 4096
"""The rows of each partition of a micro-batch of which none is left out of the sample."""

NULL: Final = np.iinfo(np.int64).min
"""Represents a missing key: such rows join with nothing."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a sample: ``place`` in the partition; per stream the time ``t0``; per relation over a stream ``p0`` (whether a row
    belongs to it, with a time and not late) and the hashes of keys ``h0_0 …``. ``streams`` has the number of each relation's stream.
    """

    variables: tuple[tuple[str, ...], ...]
    names: tuple[str, ...]
    streams: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Extent:
    """The exact number of rows of a relation in a micro-batch, and their first and last time (if there are any rows)."""

    rows: int = 0
    first: int = 0
    last: int = 0


@dataclass(slots=True)
class Counted:
    """The counts of a micro-batch: all rows, late rows, rows without a time; the estimated counts and the extent of each relation.

    ``latest`` has the latest time of each stream, of all its rows that are not late; None: it has none.
    """

    elements: int = 0
    late: int = 0
    rejected: int = 0
    slots: dict[str, SlotCounts] = field(default_factory=dict)
    extents: dict[str, Extent] = field(default_factory=dict)
    latest: tuple[int | None, ...] = ()

    @property
    def times(self) -> tuple[int, int] | None:
        """The first and the last time of its rows."""
        found = [extent for extent in self.extents.values() if extent.rows]
        return (min(extent.first for extent in found), max(extent.last for extent in found)) if found else None


def weights_of(places: Ints) -> Ints:
    """How many rows each sampled row represents, by its place in its partition: 1 within the first :data:`WHOLE`, then 2, 4, 8 …

    The sample has those rows whose place is a multiple of their weight.
    """
    later = np.maximum(places, WHOLE)
    return np.where(places < WHOLE, 1, 1 << np.floor(np.log2(later / WHOLE) + 1).astype(np.int64))


def sampled_counts(sample: pa.Table, layout: Layout, slot: int) -> dict[str, SlotCounts]:
    """The estimated counts of each relation, as one slot."""
    weights, found = weights_of(_numbers(sample.column("place"))), dict[str, SlotCounts]()
    for i, name in enumerate(layout.names):
        here = _flags(sample.column(f"p{i}"))
        of, keys = weights[here], {}
        for j, variable in enumerate(layout.variables[i]):
            values = _numbers(sample.column(f"h{i}_{j}"))[here]
            known = values != NULL
            keys[variable] = tally(values[known], of[known])
        found[name] = SlotCounts(slot, *tally(_numbers(sample.column(f"t{layout.streams[i]}"))[here], of), keys)
    return found


def _numbers(column: pa.ChunkedArray[Any]) -> Ints:
    found: Ints = column.fill_null(pa.scalar(int(NULL), column.type)).to_numpy()
    return found


def _flags(column: pa.ChunkedArray[Any]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = column.fill_null(pa.scalar(False)).to_numpy().astype(bool)
    return found
