"""The counts of a binding slot, the input of the statistics: rows by time, and rows by value for each variable (DESIGN §3, §6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cqels_opt.stats.frequencies import EMPTY, FrequencyTable, Ints, tally
from cqels_opt.stats.frequency_sketch import mixed


@dataclass(frozen=True, slots=True)
class SlotCounts:
    """The counts of one slot, or of a part of one, of a stream pattern.

    ``times`` are the distinct element times (ms) in ascending order and ``rows[i]`` the rows with ``times[i]``, so the number of
    valid rows is exact at any frontier. ``values`` has a table for each variable of the pattern; it enters the statistics with the
    slot, decreases in proportion to the rows while the slot expires, and leaves with its last row. If that is too coarse, cut the
    slot into parts (:func:`slot_parts`).
    """

    slot: int
    times: Ints
    rows: Ints
    values: Mapping[str, FrequencyTable]

    @property
    def total(self) -> int:
        """The rows of the slot, including those with an empty interval."""
        return int(self.rows.sum())


def timed(column: str) -> str:
    """The name of the column of :func:`with_instants` for a column."""
    return f"{column} at"


def with_instants(times: Ints, columns: Mapping[str, Ints]) -> dict[str, Ints]:
    """Columns, and for each one whose values are equal where its values and times are (but for hashes of 64 bits)."""
    mixed_times = mixed(times).view(np.int64)
    return {**columns, **{timed(name): mixed(column + mixed_times).view(np.int64) for name, column in columns.items()}}


def slot_counts(slot: int, times: Ints, columns: Mapping[str, Ints]) -> SlotCounts:
    """The counts of rows given as columns."""
    return SlotCounts(slot, *tally(times), {variable: tally(column) for variable, column in columns.items()})


def combined(parts: Sequence[SlotCounts], most: int) -> list[SlotCounts]:
    """The counts of several slots of one pattern in at most ``most`` slots of neighbours in time, with about equally many rows each.

    Statistics then cost the same, however many tasks have counted. A combined slot has the number of its first one.
    """
    ordered = sorted((part for part in parts if len(part.times)), key=lambda part: (int(part.times[0]), part.slot))
    ends = np.cumsum([part.total for part in ordered])
    group = (ends - 1) * most // ends[-1] if len(ends) else EMPTY
    cuts = np.flatnonzero(np.diff(group, prepend=-1, append=most))
    return [_as_one(ordered[first:last]) for first, last in pairwise(cuts.tolist())]


def _as_one(parts: Sequence[SlotCounts]) -> SlotCounts:
    if len(parts) == 1:
        return parts[0]
    times, rows = np.concatenate([part.times for part in parts]), np.concatenate([part.rows for part in parts])
    values = {}
    for variable in parts[0].values:
        found, counts = zip(*(part.values[variable] for part in parts))
        values[variable] = tally(np.concatenate(found), np.concatenate(counts))
    return SlotCounts(min(part.slot for part in parts), *tally(times, rows), values)


def slot_parts(slot: int, times: Ints, columns: Mapping[str, Ints], parts: int) -> tuple[SlotCounts, ...]:
    """As :func:`slot_counts`, cut by time into at most ``parts`` of about equally many rows, never within an instant.

    With one part per time the statistics are exact at every frontier; with one part, value counts decrease in proportion within the slot.
    """
    times = np.asarray(times, np.int64)
    if parts <= 1:
        return (slot_counts(slot, times, columns),) if len(times) else ()
    order = np.argsort(times, kind="stable")
    at = times[order]
    wanted = np.linspace(0, len(at), parts + 1).astype(np.int64)[1:-1]
    cuts = np.unique(np.searchsorted(at, at[wanted])) if len(at) else EMPTY
    pieces = [piece for piece in np.split(order, cuts[cuts > 0]) if len(piece)]
    return tuple(slot_counts(slot, times[piece], {v: column[piece] for v, column in columns.items()}) for piece in pieces)
