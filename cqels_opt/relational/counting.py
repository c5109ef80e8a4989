"""The statistics of a micro-batch: rows by time and by join key, counted on the executors and sent to the driver as counts.

Keys are 64-bit hashes, so that columns of all types are counted in the same way. A task with very many rows counts the keys of
every n-th row with weight n; counts by time are always exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cqels_opt.stats import SlotCounts, tally
from cqels_opt.stats.frequencies import EMPTY, Ints

MOST_ROWS = 1 << 20
"""Maximum rows of a relation per task whose keys are counted exactly; above it, between half of it and all of it are sampled."""

SCHEMA: Final = "kind int, relation int, variable int, value long, count long"
ELEMENTS, LATE, REJECTED, TIME, KEY = range(5)
NULL: Final = np.iinfo(np.int64).min
"""Represents a missing key: such rows join with nothing."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The counted columns: per stream ``t0`` and ``late0``; per relation over a stream ``p0`` (whether a row belongs to it), ``h0_0 …``.

    ``streams`` has the number of each relation's stream.
    """

    variables: tuple[tuple[str, ...], ...]
    names: tuple[str, ...]
    streams: tuple[int, ...]


@dataclass(slots=True)
class Counted:
    """The counts of a micro-batch: all rows, late rows, rows without a time, and the counts of each relation."""

    elements: int = 0
    late: int = 0
    rejected: int = 0
    slots: dict[str, SlotCounts] = field(default_factory=dict)

    @property
    def times(self) -> tuple[int, int] | None:
        """The least and greatest time of its rows."""
        found = [int(t) for slot in self.slots.values() if len(slot.times) for t in (slot.times[0], slot.times[-1])]
        return (min(found), max(found)) if found else None


class _Sample:
    """A systematic sample: the keys of every ``step``-th row."""

    def __init__(self, width: int, most: int) -> None:
        self.most, self.step, self._seen = most, 1, 0
        self._parts: list[Ints] = [np.empty((width, 0), np.int64)]

    def add(self, keys: Ints) -> None:
        """Adds rows; each column of the matrix is a row."""
        self._parts.append(keys[:, -self._seen % self.step :: self.step])
        self._seen += keys.shape[1]
        while sum(part.shape[1] for part in self._parts) > self.most:
            self._parts = [np.concatenate(self._parts, axis=1)[:, ::2]]
            self.step *= 2

    def counts(self) -> Iterator[tuple[Ints, Ints]]:
        """For each key column, its values and the estimated number of rows of each."""
        for column in np.concatenate(self._parts, axis=1):
            found = tally(column[column != NULL])
            yield found.values, found.counts * self.step


def count(batches: Iterable[pa.RecordBatch], layout: Layout, most: int = MOST_ROWS) -> pa.RecordBatch:
    """The counts of a task's rows as a batch of :data:`SCHEMA`. Rows that are late or without a time are counted only as such.

    A row that belongs to relations of several streams is late if it is late for one of them, and without a time if it has none for all.
    """
    relations = range(len(layout.names))
    samples = [_Sample(len(layout.variables[i]), most) for i in relations]
    times: list[list[Ints]] = [[EMPTY] for _ in relations]
    elements, late, rejected = 0, 0, 0
    for batch in batches:
        any_of, any_late, any_whole = (np.zeros(batch.num_rows, bool) for _ in range(3))
        for i in relations:
            t, is_late = (_numbers(batch.column(f"t{layout.streams[i]}")), _flags(batch.column(f"late{layout.streams[i]}")))
            belongs = _flags(batch.column(f"p{i}"))
            here = belongs & (t != NULL) & ~is_late
            any_of |= belongs
            any_late |= belongs & is_late
            any_whole |= here
            times[i].append(t[here])
            if keys := [_numbers(batch.column(f"h{i}_{j}")) for j, _ in enumerate(layout.variables[i])]:
                samples[i].add(np.stack(keys)[:, here])
        elements += batch.num_rows
        late += int(any_late.sum())
        rejected += int((any_of & ~any_whole & ~any_late).sum())
    rows: list[tuple[int, int, int, Ints, Ints]] = [
        (kind, 0, 0, np.zeros(1, np.int64), np.array([n], np.int64))
        for kind, n in ((ELEMENTS, elements), (LATE, late), (REJECTED, rejected))
    ]
    for i in relations:
        rows.append((TIME, i, 0, *tally(np.concatenate(times[i]))))
        rows += [(KEY, i, j, *found) for j, found in enumerate(samples[i].counts())]
    return _batch(rows)


def gathered(table: pa.Table, layout: Layout, slot: int) -> Counted:
    """The sum of the counts of all tasks, as one slot per relation."""
    kind, relation, variable, value, number = (
        table.column(name).to_numpy() for name in ("kind", "relation", "variable", "value", "count")
    )
    elements, late, rejected = (int(number[kind == one].sum()) for one in (ELEMENTS, LATE, REJECTED))
    found = Counted(elements, late, rejected)
    for i, name in enumerate(layout.names):
        selected = relation == i
        at = selected & (kind == TIME)
        keys = {
            v: tally(value[chosen], number[chosen])
            for j, v in enumerate(layout.variables[i])
            for chosen in [selected & (kind == KEY) & (variable == j)]
        }
        found.slots[name] = SlotCounts(slot, *tally(value[at], number[at]), keys)
    return found


def _numbers(column: pa.Array[Any]) -> Ints:
    found: Ints = column.fill_null(int(NULL)).to_numpy(zero_copy_only=False)
    return found


def _flags(column: pa.Array[Any]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = column.fill_null(False).to_numpy(zero_copy_only=False).astype(bool)
    return found


def _batch(rows: Sequence[tuple[int, int, int, Ints, Ints]]) -> pa.RecordBatch:
    sizes = [len(values) for *_, values, _ in rows]
    columns: list[NDArray[Any]] = [np.repeat(np.array([row[place] for row in rows], np.int32), sizes) for place in range(3)]
    columns += [np.concatenate([values for *_, values, _ in rows]), np.concatenate([counts for *_, counts in rows])]
    return pa.RecordBatch.from_arrays(
        [pa.array(column) for column in columns], names=[field.split()[0] for field in SCHEMA.split(", ")]
    )
