"""An index over the rows of a relation, for whole columns of probes.

A sorted array of distinct keys, with the start of each key's run of rows, takes the role of a B+-tree: a probe is one binary search, which
``key_search.py`` shortens. A composite index has the arrays of an index on one of its columns and verifies the others, if the relation
already has one that is selective enough; otherwise it sorts by a 64-bit mix of all columns, verified as well. All of it are plain arrays
that can be memory-mapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cqels_opt.lod.fan_out import FanOut, fan_out
from cqels_opt.lod.key_search import KeySearch, mix
from cqels_opt.lod.order import Ids, is_sorted, run_starts, stable_order
from cqels_opt.stats.frequencies import dot

VERIFY_LIMIT: Final = 4.0
"""A single column is good enough for a composite index while a row's key has on average at most this many rows to verify."""

#: Rows that are verified at a time to count the matches of a composite index.
CANDIDATES: Final = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """The matches of some probe rows as runs of an index: probe row ``probes[i]`` has ``counts[i]`` of them, from ``begins[i]`` on."""

    index: Index
    probes: Ids
    begins: Ids
    counts: Ids

    @property
    def total(self) -> int:
        """How many matches there are."""
        return int(self.counts.sum())

    def pairs(self, some: slice = slice(None)) -> tuple[Ids, Ids]:
        """The matches of some of the runs: (probe positions, relation rows)."""
        begins, counts = self.begins[some], self.counts[some]
        if len(counts) and counts.max() == 1:  # each run is one row
            positions, slots = self.probes[some], begins
        else:
            positions = np.repeat(self.probes[some], counts)
            slots = np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(len(positions))
        return positions, slots if self.index.rows is None else self.index.rows.take(slots).astype(np.int64, copy=False)

    def pick(self, places: Ids) -> tuple[Ids, Ids]:
        """The matches at some places of :meth:`Index.lookup`'s answer: (probe positions, relation rows)."""
        ends = np.cumsum(self.counts)
        run = np.searchsorted(ends, places, "right")
        slots = self.begins[run] + places - (ends[run] - self.counts[run])
        rows = slots if self.index.rows is None else self.index.rows[slots].astype(np.int64, copy=False)
        return self.probes[run], rows


def pieces(counts: Ids, size: int, first: int | None = None) -> Iterator[slice]:
    """Cuts runs into pieces of at most ``size`` rows each, or of one run; ``first`` is the size of the first piece."""
    total, size, following = np.cumsum(counts), first or size, size
    if not len(total) or total[-1] <= size:
        yield slice(0, len(counts))
        return
    at = 0
    while at < len(counts):
        before = total[at - 1] if at else 0
        stop = max(at + 1, int(np.searchsorted(total, before + size, "right")))
        yield slice(at, stop)
        at, size = stop, following


NO_INDEXES: Final[Mapping[str, Index]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """Rows of a relation by the values of the variables ``on``.

    ``keys`` are the distinct sort keys; the rows of ``keys[i]`` are ``rows[starts[i]:starts[i+1]]``; ``rows`` is None if the
    relation itself is in that order. ``by`` is the position in ``on`` of the column that ``keys`` come from, None for the mix.
    """

    on: tuple[str, ...]
    columns: tuple[Ids, ...]
    by: int | None
    keys: Ids
    starts: Ids
    rows: NDArray[np.integer] | None
    search: KeySearch = field(default_factory=KeySearch)

    @classmethod
    def build(
        cls,
        on: tuple[str, ...],
        columns: Sequence[Ids],
        by_variable: Mapping[str, Index] = NO_INDEXES,
        most: float = VERIFY_LIMIT,
    ) -> Index:
        """Sort the rows by ``columns``, the arrays of the variables ``on``.

        ``by_variable`` has indexes of these rows on one variable each. If the key of a row has there at most ``most`` rows on average, an
        index on several variables shares its arrays; without one it sorts by the mix.
        """
        if not on or len(on) != len(set(on)) or len(on) != len(columns):
            raise ValueError(f"an index is on one or more different variables, not {on}")
        if len(on) == 1:
            return cls(on, tuple(columns), 0, *_sorted_runs(columns[0]))
        weighted = {place: by_variable[v].fan_out.weighted for place, v in enumerate(on) if v in by_variable}
        by = min(weighted, key=weighted.__getitem__, default=None)
        if by is not None and weighted[by] <= most:
            return replace(by_variable[on[by]], on=on, columns=tuple(columns), by=by)
        return cls(on, tuple(columns), None, *_sorted_runs(mix(columns)))

    @classmethod
    def merged(cls, parts: Sequence[Index], columns: Sequence[Ids], first: int = 0) -> Index:
        """The index of the rows of several indexes, one after the other, from row ``first`` of the first of them on.

        ``parts`` have the same variables, and each its own sort keys, which are merged: nothing is sorted again.
        """
        keys = np.concatenate([np.repeat(part.keys, np.diff(part.starts)) for part in parts])
        sizes = [int(part.starts[-1]) for part in parts]
        begins = np.cumsum([-first, *sizes[:-1]])
        rows = np.concatenate([begin + (np.arange(n) if p.rows is None else p.rows) for p, n, begin in zip(parts, sizes, begins)])
        if first:
            kept = np.flatnonzero(rows >= 0)
            keys, rows = keys.take(kept), rows.take(kept)
        order = np.argsort(keys, kind="stable")  # Timsort, which finds the sorted parts
        return cls(parts[0].on, tuple(columns), parts[0].by, *_runs_of(keys.take(order)), _narrow(rows.take(order)))

    @property
    def is_shared(self) -> bool:
        """Whether it has the arrays of an index on one of its variables."""
        return len(self.on) > 1 and self.by is not None

    def rename(self, on: tuple[str, ...]) -> Index:
        """The same index with other names for its variables."""
        return Index(on, self.columns, self.by, self.keys, self.starts, self.rows, self.search)

    @property
    def fan_out(self) -> FanOut:
        """The distribution of rows per key (per sort key, if the index is composite)."""
        found = self.search.fan_out
        if found is None:
            found = self.search.fan_out = fan_out(self.starts)
        return found

    def lookup(self, *keys: Ids) -> tuple[Ids, Ids]:
        """For probe rows with these keys: (probe positions, relation rows), a pair per match, by ascending probe position."""
        runs = Runs(self, *self._runs(keys))
        return self._verified(runs.pairs(), keys)

    def lookups(self, keys: Sequence[Ids], most: int, mixed: Ids | None = None) -> Iterator[tuple[Ids, Ids]]:
        """The pairs of :meth:`lookup` in pieces, each of at most ``most`` rows with the sort key of a probe row, or of those of one row.

        ``mixed`` is the :func:`mix` of the keys, if it is known.
        """
        runs = Runs(self, *self._runs(keys, mixed))
        for some in pieces(runs.counts, most):
            yield self._verified(runs.pairs(some), keys)

    def _verified(self, pairs: tuple[Ids, Ids], keys: Sequence[Ids]) -> tuple[Ids, Ids]:
        """The pairs that agree on all variables."""
        positions, rows = pairs
        for place, (column, key) in enumerate(zip(self.columns, keys)):
            if place != self.by:
                kept = np.flatnonzero(column.take(rows) == key.take(positions))
                positions, rows = positions.take(kept), rows.take(kept)
        return positions, rows

    def join_size(self, other: Index) -> int:
        """The rows that the relations of two indexes, each on one variable, join to on it."""
        few, many = (self, other) if len(self.keys) <= len(other.keys) else (other, self)
        return dot(np.diff(few.starts), many.fanout(np.asarray(few.keys)))

    def fanout(self, *keys: Ids, mixed: Ids | None = None) -> Ids:
        """How many relation rows each probe row matches; ``mixed`` is as in :meth:`lookups`."""
        result = np.zeros(len(keys[0]), np.int64)
        if len(self.on) > 1:
            for positions, _ in self.lookups(keys, CANDIDATES, mixed):
                result += np.bincount(positions, minlength=len(result))
            return result
        probes, _, counts = self._runs(keys)
        result[probes] = counts
        return result

    def runs(self, key: Ids) -> Runs:
        """The matches of each probe row by the sort key alone (of a single-variable index: its matches), without making them."""
        if len(self.on) != 1:
            raise ValueError(f"the index on {self.on} has runs that must be verified; use one on a single variable")
        return Runs(self, *self._runs((key,)))

    def contains(self, *keys: Ids) -> NDArray[np.bool_]:
        """Which probe rows match at all."""
        return self.fanout(*keys) > 0

    def _runs(self, keys: Sequence[Ids], mixed: Ids | None = None) -> tuple[Ids, Ids, Ids]:
        """The probe rows whose sort key occurs, and the beginning and length of its run."""
        if len(keys) != len(self.on):
            raise ValueError(f"the index on {self.on} takes {len(self.on)} keys, not {len(keys)}")
        probe = keys[self.by] if self.by is not None else mix(keys) if mixed is None else mixed
        hits, at = self.search.find(self.keys, probe)
        begins = self.starts.take(at)
        return hits, begins, self.starts.take(at + 1) - begins


def _sorted_runs(column: Ids) -> tuple[Ids, Ids, NDArray[np.integer] | None]:
    """Distinct values in order, the starts of their runs, and the rows in that order (None: they are in order)."""
    rows: NDArray[np.integer] | None = None
    ordered = column
    if not is_sorted(column):
        order = stable_order(column)
        ordered = column[order]
        rows = _narrow(order)
    return *_runs_of(ordered), rows


def _runs_of(ordered: Ids) -> tuple[Ids, Ids]:
    """The distinct values of a sorted column, and the starts of their runs."""
    first = run_starts((ordered,))
    return ordered[first], np.append(first, len(ordered))


def _narrow(rows: Ids) -> NDArray[np.integer]:
    """Positions of rows, in four bytes if these suffice."""
    return rows.astype(np.int32) if len(rows) < 1 << 31 else rows
