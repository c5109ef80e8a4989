"""Rows: solution mappings with validity intervals and multiplicities; each column is a numpy array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cqels_opt.lod import index, key_search
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


class Late:
    """A column that is the values of another one at some places, and is read when it is first needed.

    A column that no operator reads before the rows are filtered is thus read for the rows that are left (late materialization;
    Abadi et al., ICDE 2007).
    """

    __slots__ = ("_at", "_of", "_values")

    def __init__(self, of: Ints, at: Ints) -> None:
        self._of, self._at = of, at
        self._values: Ints | None = None

    def __len__(self) -> int:
        return len(self._at)

    def values(self) -> Ints:
        """The column itself."""
        if self._values is None:
            self._values = self._of.take(self._at)
            self._of = self._at = self._values  # the column that it was taken from is not kept longer
        return self._values

    def take(self, at: Ints, shared: dict[int, Ints]) -> Late:
        """The column at some of its places. ``shared`` has the places of the columns that have been taken at the same ``at``."""
        if self._values is not None:
            return Late(self._values, at)
        if (places := shared.get(id(self._at))) is None:
            places = shared[id(self._at)] = self._at.take(at)
        return Late(self._of, places)

    def between(self, part: slice) -> Column:
        """The column from one place to another."""
        return Late(self._of, self._at[part]) if self._values is None else self._values[part]


Column: TypeAlias = Ints | Late


class Columns(MutableMapping[str, Ints]):
    """The columns of rows by variable. ``held`` has them as they are; those that are :class:`Late` are read when they are looked up."""

    __slots__ = ("held",)

    def __init__(self, held: dict[str, Column]) -> None:
        self.held = held

    def __getitem__(self, variable: str) -> Ints:
        return _values(self.held[variable])

    def __setitem__(self, variable: str, column: Ints) -> None:
        self.held[variable] = column

    def __delitem__(self, variable: str) -> None:
        del self.held[variable]

    def __contains__(self, variable: object) -> bool:
        return variable in self.held

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)


class Rows:
    """Columns of ids by variable (0: unbound), the interval ``[start, end)`` and the multiplicity ``n`` of each row.

    Joins give rows with :class:`Late` columns.
    """

    __slots__ = ("_end", "_mixed", "_n", "_start", "columns")

    def __init__(self, columns: Columns | Mapping[str, Column], start: Column, end: Column, n: Column) -> None:
        self.columns = columns if isinstance(columns, Columns) else Columns(dict(columns))
        self._start, self._end, self._n = start, end, n
        self._mixed: dict[tuple[str, ...], Ints] = {}

    @property
    def start(self) -> Ints:
        """The first instant of each row."""
        return _values(self._start)

    @property
    def end(self) -> Ints:
        """The instant at which each row is no longer valid."""
        return _values(self._end)

    @property
    def n(self) -> Ints:
        """The multiplicity of each row."""
        return _values(self._n)

    def __len__(self) -> int:
        return len(self._start)

    def take(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> Rows:
        """The rows at these places, or where a mask holds."""
        at: Any = np.flatnonzero(which) if which.dtype == np.bool_ else which  # once, not for each column
        shared: dict[int, Ints] = {}
        return self._each(lambda column: column.take(at, shared) if isinstance(column, Late) else column.take(at))

    def multiplied(self, at: Ints) -> Rows:
        """The rows at these places, in which a row may be many times: their columns are read when they are needed."""
        shared: dict[int, Ints] = {}
        return self._each(lambda column: column.take(at, shared) if isinstance(column, Late) else Late(column, at))

    def between(self, first: int, stop: int) -> Rows:
        """The rows at the places from one to another, not copied."""
        part = slice(first, stop)
        return self._each(lambda column: column.between(part) if isinstance(column, Late) else column[part])

    def _each(self, taken: Callable[[Column], Column]) -> Rows:
        """The rows with some of the values of each column."""
        columns = {variable: taken(column) for variable, column in self.columns.held.items()}
        return Rows(Columns(columns), taken(self._start), taken(self._end), taken(self._n))

    def only(self, variables: Iterable[str]) -> Rows:
        """The rows restricted to some variables; multiplicities stay."""
        held = self.columns.held
        return Rows(Columns({v: held[v] for v in variables if v in held}), self._start, self._end, self._n)

    def values(self, variables: Iterable[str]) -> list[Ints]:
        """The columns of some variables; a variable that the rows lack is unbound."""
        return [self.columns[v] if v in self.columns else missing(v, len(self)) for v in variables]

    def mixed(self, on: Sequence[str]) -> Ints:
        """A hash of the values of variables, which is the key of each row in indexes on several of them: computed once for all runs of a
        window."""
        key = tuple(on)
        if key not in self._mixed:
            self._mixed[key] = key_search.mix(self.values(key)) if key else np.zeros(len(self), np.int64)
        return self._mixed[key]

    def with_column(self, variable: str, column: Column) -> Rows:
        """The rows with one more column."""
        return Rows(Columns({**self.columns.held, variable: column}), self._start, self._end, self._n)

    def replaced(self, start: Column | None = None, end: Column | None = None, n: Column | None = None) -> Rows:
        """The rows with other intervals or multiplicities (None: their own)."""
        own = (self._start, self._end, self._n)
        return Rows(self.columns, *(old if new is None else new for old, new in zip(own, (start, end, n))))

    def with_interval(self, start: Ints, end: Ints) -> Rows:
        """The rows with other intervals; empty ones are dropped."""
        rows = Rows(self.columns, start, end, self._n)
        alive = start < end
        return rows if alive.all() else rows.take(alive)


def _values(column: Column) -> Ints:
    return column.values() if isinstance(column, Late) else column


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
    return index.pieces(fanout, CHUNK, first)


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
