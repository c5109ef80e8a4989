"""Rows: solution mappings with validity intervals and multiplicities; each column is a numpy array."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cqels_opt.lod.order import run_starts
from cqels_opt.operators.memory import check
from cqels_opt.windows.intervals import FOREVER

Ints = NDArray[np.int64]
UNBOUND = 0
CHUNK = 1 << 20  # rows that a join makes, or a file of rows takes, at a time
RANK = "#rank:"  # hidden columns, one per stream: the rank at which a row of a last-n window ends
HIDDEN = "#"  # begins the name of a column that is no variable; the parser's own variables begin with a full stop


def is_nameable(column: str) -> bool:
    """Whether a column is a variable that a query can write: not a hidden column, a blank node, or one of the parser or a sub-select."""
    return not column.startswith((HIDDEN, ".", "_:")) and "~" not in column


@dataclass(slots=True)
class Rows:
    """Columns of ids by variable (0: unbound), the interval ``[start, end)`` and the multiplicity ``n`` of each row."""

    columns: dict[str, Ints]
    start: Ints
    end: Ints
    n: Ints

    def __len__(self) -> int:
        return len(self.start)

    def take(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> Rows:
        """The rows at these places, or where a mask holds."""
        at = np.flatnonzero(which) if which.dtype == np.bool_ else which  # once, not for each column
        return Rows({v: c.take(at) for v, c in self.columns.items()}, self.start.take(at), self.end.take(at), self.n.take(at))

    def between(self, first: int, stop: int) -> Rows:
        """The rows at the places from one to another, not copied."""
        part = slice(first, stop)
        return Rows({v: c[part] for v, c in self.columns.items()}, self.start[part], self.end[part], self.n[part])

    def only(self, variables: Iterable[str]) -> Rows:
        """The rows restricted to some variables; multiplicities stay."""
        return Rows({v: self.columns[v] for v in variables if v in self.columns}, self.start, self.end, self.n)

    def values(self, variables: Iterable[str]) -> list[Ints]:
        """The columns of some variables; a variable that the rows lack is unbound."""
        return [self.columns[v] if v in self.columns else missing(v, len(self)) for v in variables]

    def with_column(self, variable: str, column: Ints) -> Rows:
        """The rows with one more column."""
        return Rows({**self.columns, variable: column}, self.start, self.end, self.n)

    def with_interval(self, start: Ints, end: Ints) -> Rows:
        """The rows with other intervals; empty ones are dropped."""
        rows = Rows(self.columns, start, end, self.n)
        alive = start < end
        return rows if alive.all() else rows.take(alive)


def missing(column: str, length: int) -> Ints:
    """A column that rows lack: a variable is unbound, and a rank is never reached."""
    return np.full(length, FOREVER if column.startswith(RANK) else UNBOUND, np.int64)


def empty(variables: Iterable[str] = ()) -> Rows:
    """No rows."""
    none = np.empty(0, np.int64)
    return Rows(dict.fromkeys(variables, none), none, none, none)


def unit(start: int, end: int) -> Rows:
    """One row without bindings."""
    return Rows({}, np.array([start], np.int64), np.array([end], np.int64), np.ones(1, np.int64))


def concat(parts: Sequence[Rows]) -> Rows:
    """All rows of all parts; a variable that a part lacks is unbound in it."""
    parts = [p for p in parts if len(p)] or list(parts[:1])
    names = list(dict.fromkeys(v for p in parts for v in p.columns))
    check(sum(map(len, parts)), len(names))
    if len(parts) <= 1:
        return parts[0] if parts else empty()
    columns = {v: np.concatenate([p.columns[v] if v in p.columns else missing(v, len(p)) for p in parts]) for v in names}
    return Rows(
        columns,
        np.concatenate([p.start for p in parts]),
        np.concatenate([p.end for p in parts]),
        np.concatenate([p.n for p in parts]),
    )


def chunks(parts: Iterable[Rows]) -> Iterator[Rows]:
    """The rows of joins, concatenated until they are enough for a file."""
    held: list[Rows] = []
    for part in parts:
        held.append(part)
        if sum(map(len, held)) >= CHUNK:
            yield concat(held)
            held = []
    if held:
        yield concat(held)


def pieces(fanout: Ints, first: int | None = None) -> Iterator[slice]:
    """Cuts probe rows into pieces of a bounded number of pairs each (at least one row); ``first`` bounds the pairs of the first piece."""
    total, size = np.cumsum(fanout), first or CHUNK
    if not len(total) or total[-1] <= size:
        yield slice(0, len(fanout))
        return
    at = 0
    while at < len(fanout):
        before = total[at - 1] if at else 0
        stop = max(at + 1, int(np.searchsorted(total, before + size, "right")))
        yield slice(at, stop)
        at, size = stop, CHUNK


def gathered(parts: Iterable[Rows]) -> Rows:
    """All rows of parts that are produced one by one; LimitError as soon as they take too much memory."""
    held: list[Rows] = []
    total = 0
    for part in parts:
        held.append(part)
        total += len(part)
        check(total, len(part.columns))
    return concat(held)


def group_ids(columns: Sequence[Ints], length: int) -> tuple[Ints, Ints]:
    """Gives equal rows equal numbers: (the group number of each row, the place of the first row of each group)."""
    if not columns:
        return np.zeros(length, np.int64), np.zeros(min(length, 1), np.int64)
    begins = run_starts(columns)
    if len(begins) <= length // 2:  # joins leave the rows of one key next to each other
        group, first = _group_ids([column[begins] for column in columns], len(begins))
        return np.repeat(group, np.diff(begins, append=length)), begins[first]
    return _group_ids(columns, length)


def _group_ids(columns: Sequence[Ints], length: int) -> tuple[Ints, Ints]:
    if len(columns) == 1:
        _, first, inverse = np.unique(columns[0], return_index=True, return_inverse=True)
        return inverse.astype(np.int64), first
    order = np.lexsort(tuple(columns))
    changed = np.zeros(length, bool)
    changed[:1] = True
    for column in columns:
        ordered = column[order]
        changed[1:] |= ordered[1:] != ordered[:-1]
    inverse = np.empty(length, np.int64)
    inverse[order] = np.cumsum(changed) - 1
    return inverse, order[changed]


def mix(columns: Sequence[Ints], length: int) -> NDArray[np.uint64]:
    """A 64-bit hash of each row (splitmix64 over the columns), for spreading rows over partitions."""
    h = np.full(length, 0x9E3779B97F4A7C15, np.uint64)
    for column in columns:
        h = h ^ column.astype(np.uint64)
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        h = h ^ (h >> np.uint64(31))
    return h
