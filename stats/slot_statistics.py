"""The statistics of one slot of a window: value counts, and the intervals of its rows that have not expired."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from cqels_opt.stats.frequencies import Ints, ValueCounts, tally
from cqels_opt.stats.frequency_sketch import BoundedCounts
from cqels_opt.stats.interval_overlap import IntervalSet, spans
from cqels_opt.stats.slots import SlotCounts, timed

Intervals: TypeAlias = Callable[[Ints], tuple[Ints, Ints]]
"""Element times (ms) -> starts and ends of their validity (SEMANTICS §1); start >= end where it is never in the window."""

BodyPlace: TypeAlias = tuple[int, ...]
"""Where the arrays of a slot are stored; only the store can read it."""


@dataclass(frozen=True, slots=True, eq=False)
class SavedSlot:
    """The ``text`` of a slot with these join sizes, in a checkpoint that has its arrays, ``body``, at a place."""

    body: bytes
    known: Mapping[str, float]
    place: BodyPlace
    text: bytes


@dataclass(slots=True, eq=False)
class SlotStatistics:
    """A slot, or several that were merged.

    ``spans`` are the rows that have not expired, of ``total`` that arrived. ``known`` caches join sizes that do not change while the slot
    is in the window; ``packed`` and ``saved`` cache its bytes for :mod:`cqels_opt.stats.state`, which seldom change.
    """

    slots: tuple[int, ...]
    times: Ints
    rows: Ints
    counts: dict[str, BoundedCounts]
    spans: IntervalSet
    total: int
    known: dict[str, float] = field(default_factory=dict)
    packed: tuple[list[tuple[ValueCounts, int]], bytes] | None = None
    saved: SavedSlot | None = None

    @property
    def next_end(self) -> int:
        """The time when its next row expires."""
        return self.spans.first_end

    @property
    def weight(self) -> float:
        """The share of its rows that has not expired."""
        return self.spans.rows / self.total


def hold(slot: SlotCounts, variables: Sequence[str], intervals: Intervals, most_times: int) -> SlotStatistics:
    """A slot with the value counts of ``variables``; at most ``most_times`` of its distinct times are distinguished.

    Counts of values with their times may be missing: they are then taken to be none.
    """
    missing = set(variables) - set(slot.values)
    if missing - set(map(timed, slot.values)):
        raise ValueError(f"slot {slot.slot} has no counts for {', '.join(sorted(missing))}")
    times, rows = coarsened(np.asarray(slot.times, np.int64), np.asarray(slot.rows, np.int64), most_times)
    counts = {variable: BoundedCounts(ValueCounts(slot.values.get(variable))) for variable in variables}
    return SlotStatistics((slot.slot,), times, rows, counts, spans(*intervals(times), rows), slot.total)


def coarsened(times: Ints, rows: Ints, most: int) -> tuple[Ints, Ints]:
    """At most ``most`` times, each the last of a group: no row expires early, and none later than the last of its group."""
    if len(times) <= most:
        return times, rows
    group = np.arange(len(times)) * most // len(times)
    last = np.flatnonzero(np.diff(group, append=most))
    return times[last], np.add.reduceat(rows, np.searchsorted(group, np.arange(most)))


def merged(one: SlotStatistics, other: SlotStatistics, intervals: Intervals, most_times: int) -> SlotStatistics:
    """Merges two whole slots of one window: the sums of their counts, which expire together from then on, in proportion."""
    times, rows = coarsened(*tally(np.concatenate([one.times, other.times]), np.concatenate([one.rows, other.rows])), most_times)
    counts = {variable: _added(mine, other.counts[variable]) for variable, mine in one.counts.items()}
    known = _sum(one.known, other.known)
    return SlotStatistics(
        one.slots + other.slots, times, rows, counts, spans(*intervals(times), rows), one.total + other.total, known
    )


def _added(one: BoundedCounts, other: BoundedCounts) -> BoundedCounts:
    if one.exact and other.exact:
        values, counts = (np.concatenate(columns) for columns in zip(one.tally(), other.tally()))
        return BoundedCounts(ValueCounts(tally(values, counts)), one.kept, one.rows + other.rows)
    found = BoundedCounts(ValueCounts(one.tally()), one.kept, one.rows)
    found.add(other)  # what is retained of it is part of the sum
    return found


def together(slots: Sequence[SlotStatistics], variable: str) -> BoundedCounts:
    """The value counts of some slots, at least one, that retain the same values; of one slot its own."""
    mine = [held.counts[variable] for held in slots]
    if len(mine) == 1:
        return mine[0]
    values, counts = (np.concatenate(columns) for columns in zip(*(one.tally() for one in mine)))
    return BoundedCounts(ValueCounts(tally(values, counts)), mine[0].kept, sum(one.rows for one in mine))


def weighted(slots: Sequence[SlotStatistics], variable: str) -> list[tuple[float, BoundedCounts]]:
    """The value counts of slots with the weight of each; exact counts of slots of which no row has expired are added up."""
    full: list[SlotStatistics] = []
    rest: list[tuple[float, BoundedCounts]] = []
    for held in slots:
        counts = held.counts[variable]
        if counts.exact and held.spans.rows == held.total:
            full.append(held)
        else:
            rest.append((held.weight, counts))
    return [(1.0, together(full, variable)), *rest] if full else rest


def _sum(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: size + other[name] for name, size in one.items() if name in other}
