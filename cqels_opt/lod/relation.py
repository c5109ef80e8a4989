"""A relation: columns of ids by variable name, with multiplicities and indexes, in memory or memory-mapped.

Relations are bags. ``n`` holds how often each row counts (None: once); a relation without columns is a ground pattern that
matches ``n`` times. Static patterns, vertical partitions and pre-computed sub-patterns are all relations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cqels_opt.errors import StoreError
from cqels_opt.lod.fan_out import FanOut
from cqels_opt.lod.files import FileEntry, map_array, read_header, write_array, write_header
from cqels_opt.lod.index import Index
from cqels_opt.lod.multiplicities import product, summed, total
from cqels_opt.lod.order import Ids, run_starts, sorted_order
from cqels_opt.stats.frequencies import distinct_values

FORMAT: Final = "cqels-opt relation"
VERSION: Final = 2
HEADER: Final = "relation.json"


class Relation:
    """Rows of ids by variable, a bag. Build one with :meth:`build`, or map a saved one with :meth:`open`.

    ``checksum`` identifies the content of an opened relation; it is None for others.
    """

    __slots__ = ("_distinct", "_indexes", "_origin", "checksum", "columns", "n", "rows", "variables")

    def __init__(
        self,
        columns: Mapping[str, Ids],
        n: Ids | None,
        rows: int,
        indexes: Iterable[Index] = (),
        distinct: Mapping[str, int] | None = None,
    ) -> None:
        self.variables: tuple[str, ...] = tuple(columns)
        self.columns: Mapping[str, Ids] = columns
        self.n = n
        self.rows = rows
        self._indexes: dict[tuple[str, ...], Index] = {index.on: index for index in indexes}
        self._distinct: dict[str, int] = dict(distinct or {})
        self.checksum: str | None = None
        self._origin: tuple[Relation, dict[str, str]] | None = None

    @classmethod
    def build(cls, columns: Mapping[str, Ids], n: Ids | None = None) -> Relation:
        """A relation over these arrays. Without columns, ``n`` gives the number of rows (None: no row)."""
        lengths = {len(array) for array in (*columns.values(), *(() if n is None else (n,)))}
        if len(lengths) > 1:
            raise ValueError(f"columns of different lengths: {sorted(lengths)}")
        return cls(dict(columns), n, lengths.pop() if lengths else 0)

    @property
    def total(self) -> int:
        """The number of rows, counted with their multiplicities."""
        return self.rows if self.n is None else total(self.n)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns and multiplicities, without indexes."""
        return sum(array.nbytes for array in self.columns.values()) + (0 if self.n is None else self.n.nbytes)

    @property
    def indexes(self) -> tuple[tuple[str, ...], ...]:
        """The variables of the existing indexes."""
        return tuple(self._indexes)

    def multiplicities(self) -> Ids:
        """How often each row counts."""
        return np.ones(self.rows, np.int64) if self.n is None else self.n

    def index(self, on: tuple[str, ...]) -> Index:
        """The index on these variables: stored, or built in memory at the first call."""
        found = self._indexes.get(on)
        if found is None and self._origin is not None:
            origin, names = self._origin
            found = self._indexes[on] = origin.index(tuple(names[variable] for variable in on)).rename(on)
        elif found is None:
            by_variable = {variable: self._indexes[variable,] for variable in on if (variable,) in self._indexes}
            found = self._indexes[on] = Index.build(on, [self.columns[variable] for variable in on], by_variable)
        return found

    def distinct(self, variable: str) -> int:
        """The number of different values of a variable."""
        known = self._distinct.get(variable)
        if known is None:
            index = self._indexes.get((variable,))
            known = len(index.keys) if index is not None else len(distinct_values(self.columns[variable]))
            self._distinct[variable] = known
        return known

    def fan_out(self, variable: str) -> FanOut:
        """The distribution of the rows per value of a variable."""
        return self.index((variable,)).fan_out

    def all_pairs(self, probes: int) -> tuple[Ids, Ids]:
        """Every probe row with every relation row, as :meth:`Index.lookup` gives them: the cross product."""
        return np.repeat(np.arange(probes), self.rows), np.tile(np.arange(self.rows), probes)

    def take(self, rows: NDArray[Any]) -> Relation:
        """The rows at these positions, or those selected by a mask."""
        n = None if self.n is None else self.n[rows]
        columns = {variable: array[rows] for variable, array in self.columns.items()}
        count = int(rows.sum()) if rows.dtype == np.bool_ else len(rows)
        return Relation(columns, n, count)

    def rename(self, names: Mapping[str, str]) -> Relation:
        """The same arrays and indexes (also those built later) under other variable names, one to one."""
        if set(names) != set(self.variables) or len(set(names.values())) != len(names):
            raise ValueError(f"{dict(names)} does not rename {self.variables} one to one")
        columns = {names[variable]: array for variable, array in self.columns.items()}
        indexes = [index.rename(tuple(names[variable] for variable in index.on)) for index in self._indexes.values()]
        distinct = {names[variable]: count for variable, count in self._distinct.items()}
        renamed = Relation(columns, self.n, self.rows, indexes, distinct)
        renamed._origin = (self, {name: variable for variable, name in names.items()})
        return renamed

    # -------------------------------------------------------------- files
    def save(self, folder: Path, indexes: Iterable[tuple[str, ...]] = ()) -> str:
        """Write the arrays and these indexes to a folder, the header last; returns the header's checksum."""
        folder.mkdir(parents=True, exist_ok=True)
        files: dict[str, FileEntry] = {}
        for position, variable in enumerate(self.variables):
            files |= write_array(folder, f"c{position}.npy", self.columns[variable])
        if self.n is not None:
            files |= write_array(folder, "n.npy", self.n)
        described = []
        for number, on in enumerate(dict.fromkeys(indexes)):
            index = self.index(on)
            files |= write_array(folder, f"i{number}.keys.npy", index.keys)
            files |= write_array(folder, f"i{number}.starts.npy", index.starts)
            if index.rows is not None:
                files |= write_array(folder, f"i{number}.rows.npy", index.rows)
            described.append(described_index(on, index.by, index.rows is None, index.fan_out))
        distinct = {variable: self.distinct(variable) for variable in self.variables}
        return save_header(folder, self.rows, self.n is not None, distinct, described, files)

    @classmethod
    def open(cls, folder: Path) -> Relation:
        """Memory-map a saved relation; StoreError if it is absent, damaged or of another version."""
        header = read_header(folder / HEADER, FORMAT, VERSION)
        try:
            variables: list[str] = header["variables"]
            arrays = {name: map_array(folder / name, header["files"]) for name in header["files"]}
            columns = {variable: arrays[f"c{position}.npy"] for position, variable in enumerate(variables)}
            indexes = [
                Index(
                    on=tuple(described["on"]),
                    columns=tuple(columns[variable] for variable in described["on"]),
                    by=described["by"],
                    keys=arrays[f"i{number}.keys.npy"],
                    starts=arrays[f"i{number}.starts.npy"],
                    rows=None if described["in_order"] else arrays[f"i{number}.rows.npy"],
                )
                for number, described in enumerate(header["indexes"])
            ]
            n = arrays["n.npy"] if header["multiplicities"] else None
            relation = cls(columns, n, header["rows"], indexes, header["distinct"])
            relation.checksum = header["checksum"]
            return relation
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"{folder / HEADER} is damaged: {error!r}") from error


# ------------------------------------------------------------------ bag algebra
def compact(columns: Mapping[str, Ids], n: Ids | None = None) -> tuple[dict[str, Ids], Ids]:
    """Merge equal rows and add their multiplicities. The rows are sorted by the columns in order."""
    arrays = list(columns.values())
    if not arrays:
        whole = np.zeros(1, np.int64) if n is None else summed(n, lambda some: some.sum(keepdims=True))
        return {}, whole[whole != 0]
    order = sorted_order(arrays)
    ordered = [array[order] for array in arrays]
    first = run_starts(ordered)
    if n is None:
        counts = np.diff(np.append(first, len(order)))
    else:
        counts = summed(n[order], lambda some: np.add.reduceat(some, first)) if len(first) else np.empty(0, np.int64)
    return {variable: array[first] for variable, array in zip(columns, ordered)}, counts


def described_index(on: Sequence[str], by: int | None, in_order: bool, measured: FanOut) -> dict[str, Any]:
    """An index as the header of a saved relation has it."""
    return {
        "on": list(on),
        "by": by,
        "in_order": in_order,
        "keys": measured.keys,
        "maximum": measured.maximum,
        "squares": measured.squares,
        "histogram": list(measured.histogram),
    }


def save_header(
    folder: Path,
    rows: int,
    multiplicities: bool,
    distinct: Mapping[str, int],
    indexes: Sequence[Mapping[str, Any]],
    files: Mapping[str, FileEntry],
) -> str:
    """Write the header of a relation whose arrays are in the folder; returns its checksum. ``distinct`` is by variable, in order."""
    header = {
        "format": FORMAT,
        "version": VERSION,
        "rows": rows,
        "variables": list(distinct),
        "multiplicities": multiplicities,
        "distinct": dict(distinct),
        "indexes": list(indexes),
        "files": dict(files),
    }
    return write_header(folder / HEADER, header)


def restrict(relation: Relation, variables: Sequence[str]) -> Relation:
    """Project to these variables; rows that become equal are merged and keep their number as multiplicity."""
    columns = {variable: relation.columns[variable] for variable in variables}
    if len(columns) == len(relation.variables):
        return Relation(columns, relation.n, relation.rows, relation._indexes.values(), relation._distinct)
    n = relation.multiplicities() if not columns else relation.n
    compacted, counts = compact(columns, n)
    return Relation.build(compacted, None if columns and bool((counts == 1).all()) else counts)


def join(left: Relation, right: Relation) -> Relation:
    """The natural join; multiplicities multiply. Without a shared variable it is the cross product."""
    shared = tuple(variable for variable in left.variables if variable in right.columns)
    if shared and shared not in right.indexes and (shared in left.indexes or left.rows > right.rows):
        right_rows, left_rows = left.index(shared).lookup(*(right.columns[variable] for variable in shared))
        return _joined(left, left_rows, right, right_rows)
    return _probe(left, right, shared)


def join_restrict(left: Relation, right: Relation, variables: Sequence[str], chunk: int = 1 << 22) -> Relation:
    """The join projected to some variables, as ``restrict(join(left, right), variables)``, without the whole join in memory.

    About ``chunk`` joined rows are computed and compacted at a time, so memory follows the result, not the join.
    """
    shared = tuple(variable for variable in left.variables if variable in right.columns)
    if shared:
        ends = np.cumsum(right.index(shared).fanout(*(left.columns[variable] for variable in shared)))
    else:
        ends = np.arange(1, left.rows + 1) * right.rows
    found: dict[str, list[Ids]] = {variable: [] for variable in variables}
    counts: list[Ids] = []
    start = 0
    while start < left.rows:
        done = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, done + chunk, "right")))
        rows = slice(start, end)
        some = Relation({v: a[rows] for v, a in left.columns.items()}, None if left.n is None else left.n[rows], end - start)
        projected = restrict(_probe(some, right, shared), variables)
        for variable in variables:
            found[variable].append(projected.columns[variable])
        counts.append(projected.multiplicities())
        start = end
    empty = np.empty(0, np.int64)
    columns, n = compact({v: np.concatenate([empty, *found[v]]) for v in variables}, np.concatenate([empty, *counts]))
    return Relation.build(columns, None if columns and bool((n == 1).all()) else n)


def _probe(left: Relation, right: Relation, shared: tuple[str, ...]) -> Relation:
    """The join by probing the right side's index."""
    if shared:
        left_rows, right_rows = right.index(shared).lookup(*(left.columns[variable] for variable in shared))
    else:
        left_rows, right_rows = right.all_pairs(left.rows)
    return _joined(left, left_rows, right, right_rows)


def _joined(left: Relation, left_rows: Ids, right: Relation, right_rows: Ids) -> Relation:
    columns = {variable: array[left_rows] for variable, array in left.columns.items()}
    columns |= {variable: array[right_rows] for variable, array in right.columns.items() if variable not in columns}
    if left.n is None and right.n is None:
        return Relation(columns, None, len(left_rows))
    return Relation(columns, product(left.multiplicities()[left_rows], right.multiplicities()[right_rows]), len(left_rows))


def join_rows(left: Relation, right: Relation) -> int:
    """How many rows :func:`join` would make, without making them."""
    shared = tuple(variable for variable in left.variables if variable in right.columns)
    if not shared:
        return left.rows * right.rows
    return int(right.index(shared).fanout(*(left.columns[variable] for variable in shared)).sum())
