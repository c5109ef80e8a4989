"""Runs: indexed rows of one pattern shape in order of time.

The old part of a window is a few runs, in memory or mapped from time slices.

A run has times of elements and no intervals. Intervals are computed for each window when rows are found, so windows and queries
share runs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cqels_opt.lod.index import Index
from cqels_opt.lod.relation import Relation
from cqels_opt.operators.blocks import PatternOccurrence
from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.rows import Ints, Rows, group_ids
from cqels_opt.rdf.ids import integer_ids
from cqels_opt.storage.columns import Columns
from cqels_opt.windows.intervals import BEFORE_TIME
from cqels_opt.windows.kinds import kind_of


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class SortedRun:
    """Rows with the columns ``v0 …`` of a shape, at least one. Their times are ``base + offsets``, rising.

    ``before`` has for each row the time of the last equal row before it (BEFORE_TIME: none), if a window is a set.
    """

    relation: Relation
    base: int
    offsets: NDArray[np.integer]
    before: Ints | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def first(self) -> int:
        """The time of the first row."""
        return self.base + int(self.offsets[0])

    @property
    def last(self) -> int:
        """The time of the last row."""
        return self.base + int(self.offsets[-1])

    def times(self, rows: Ints | slice = slice(None)) -> Ints:
        """The times of some rows."""
        some = self.offsets[rows] if isinstance(rows, slice) else self.offsets.take(rows)
        return some.astype(np.int64) + self.base

    def intervals(self, occurrence: PatternOccurrence, rows: Ints | slice = slice(None)) -> tuple[Ints, Ints]:
        """When rows are in a window: ``[start, end)``, empty if they never are.

        In a window that is a set, a repeated triple has only the time that its earlier occurrences leave uncovered (DESIGN §3).
        Starts and ends never fall as time advances, so that is the part after the end of the previous occurrence.
        """
        kind = kind_of(occurrence.window)
        start, end = kind.validity(self.times(rows), occurrence.t0)
        if occurrence.distinct and self.before is not None:
            before = self.before[rows]
            opened, closed = kind.validity(before, occurrence.t0)
            start = np.maximum(start, np.where((opened < closed) & (before > BEFORE_TIME), closed, BEFORE_TIME))
        return start, end

    def rows(self, occurrence: PatternOccurrence, some: Ints | slice = slice(None)) -> Rows:
        """Some rows, under the occurrence's names, with their intervals; without those that are never in the window."""
        bound = {v: np.asarray(self.relation.columns[f"v{i}"][some]) for i, v in enumerate(occurrence.variables)}
        if occurrence.time:
            bound[occurrence.time] = integer_ids(self.times(some))
        start, end = self.intervals(occurrence, some)
        return Rows(bound, start, start, np.ones(len(start), np.int64)).with_interval(start, end)

    def indexed(self, occurrence: PatternOccurrence) -> Indexed:
        """The run as a side of a join."""
        names = {v: f"v{i}" for i, v in enumerate(occurrence.variables)}
        return Indexed(self.relation, names, lambda rows: self.intervals(occurrence, rows))

    def first_valid(self, occurrence: PatternOccurrence, instant: int) -> int:
        """The place of the first row that has not ended by an instant; neither have later rows."""
        if ends_at(occurrence, self.first) > instant:
            return 0
        return bisect_left(range(len(self)), True, key=lambda i: ends_at(occurrence, self.base + int(self.offsets[i])) > instant)

    def since(self, first: int) -> SortedRun:
        """The rows from one on, as a run of its own in memory."""
        columns = {name: np.array(column[first:]) for name, column in self.relation.columns.items()}
        before = None if self.before is None else np.array(self.before[first:])
        return SortedRun(relation_of(columns, len(self) - first), self.base, np.array(self.offsets[first:]), before)

    def behind(self, t: int) -> SortedRun:
        """The rows behind a time, for which nothing was there before."""
        repeated = self.before is not None and bool(((self.before > BEFORE_TIME) & (self.before <= t)).any())
        if t < self.first and not repeated:
            return self
        run = self.since(int(np.searchsorted(self.offsets, t - self.base, "right")))
        return run if run.before is None else replace(run, before=np.where(run.before <= t, BEFORE_TIME, run.before))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, with those of the existing indexes."""
        found = [*self.relation.columns.values(), self.offsets, *([] if self.before is None else [self.before])]
        for on in self.relation.indexes:
            index = self.relation.index(on)
            found += [index.keys, index.starts, *([] if index.rows is None else [index.rows])]
        return sum({id(array): array.nbytes for array in found}.values())


def ends_at(occurrence: PatternOccurrence, t: int) -> int:
    """When an element of time t leaves the window. An element that never enters has left before any reported instant."""
    return int(kind_of(occurrence.window).validity(np.array([t], np.int64), occurrence.t0)[1][0])


def relation_of(columns: Columns, rows: int) -> Relation:
    """A relation over columns; a shape without columns has this number of rows."""
    return Relation(columns, None, rows)


def run_of(columns: Columns, width: int, earlier: Sequence[SortedRun] | None = None) -> SortedRun | None:
    """A run of columns ``t`` and ``v0 …`` in order of time; None without rows.

    With ``earlier`` runs it records repetitions of rows.
    """
    t = columns["t"]
    if not len(t):
        return None
    relation = relation_of({f"v{i}": columns[f"v{i}"] for i in range(width)}, len(t))
    return SortedRun(relation, 0, t, None if earlier is None else equal_before(relation, t, earlier))


def equal_before(relation: Relation, t: Ints, earlier: Sequence[SortedRun]) -> Ints:
    """For each row the time of the last equal row before it, in its own relation or an earlier run; BEFORE_TIME: there is none."""
    columns = list(relation.columns.values())
    group, _ = group_ids(columns, len(t))
    order = np.argsort(group, kind="stable")
    before = np.full(len(t), BEFORE_TIME)
    again = np.flatnonzero(group[order][1:] == group[order][:-1]) + 1
    before[order[again]] = t[order[again - 1]]
    for run in earlier:
        if columns:
            probe, found = run.relation.index(tuple(relation.columns)).lookup(*columns)
            np.maximum.at(before, probe, run.times(found))
        else:
            before = np.maximum(before, run.last)
    return before


def joined(runs: Sequence[SortedRun], since: int) -> SortedRun:
    """Runs that follow on each other as one in memory, the first of them from a row on. It has the indexes that each of them has."""
    first = [since, *[0] * (len(runs) - 1)]
    names = runs[0].relation.columns
    columns = {name: np.concatenate([run.relation.columns[name][at:] for run, at in zip(runs, first)]) for name in names}
    t = np.concatenate([run.times(slice(at, None)) for run, at in zip(runs, first)])
    known = [run.before[at:] for run, at in zip(runs, first) if run.before is not None]
    relation = Relation(columns, None, len(t), _merged_indexes([run.relation for run in runs], columns, since))
    return SortedRun(relation, 0, t, np.concatenate(known) if len(known) == len(runs) else None)


def _merged_indexes(relations: Sequence[Relation], columns: Columns, since: int) -> list[Index]:
    """The indexes that each of some relations has, as indexes of all their rows.

    One that shares the arrays of another index in the largest relation is made when it is needed: then it may share them as well.
    """
    largest, found = max(relations, key=lambda relation: relation.rows), []
    for on in relations[0].indexes:
        if all(on in relation.indexes for relation in relations) and not largest.index(on).is_shared:
            parts = [_of_its_own(relation, on) for relation in relations]
            found.append(Index.merged(parts, [columns[variable] for variable in on], since))
    return found


def _of_its_own(relation: Relation, on: tuple[str, ...]) -> Index:
    """The index of a relation, with sort keys of all its variables."""
    index = relation.index(on)
    return index if not index.is_shared else Index.build(on, [relation.columns[variable] for variable in on])
