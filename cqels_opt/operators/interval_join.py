"""Joins of rows with intervals: a joined row is valid during the intersection of both intervals; rows with an empty one are dropped.

(Streaming SPARQL 2008, §5: join on intervals; multiplicities are multiplied, so projections keep their bags.)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from cqels_opt.lod.index import Index, Runs
from cqels_opt.lod.multiplicities import product
from cqels_opt.lod.relation import Relation
from cqels_opt.operators import rows as row_sets
from cqels_opt.operators.memory import check
from cqels_opt.operators.row_limit import RowLimit
from cqels_opt.operators.rows import HIDDEN, Ints, Late, Rows, concat, empty, gathered, group_ids, pieces
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER

Intervals: TypeAlias = Callable[[Ints], tuple[Ints, Ints]]
"""Positions of rows -> starts and ends of their validity."""

PROBES = 200_000


def as_rows(relation: Relation, variables: Sequence[str]) -> Rows:
    """All rows of a static relation, which are always valid. ``variables`` names its columns."""
    columns = dict(zip(variables, (np.asarray(relation.columns[v]) for v in relation.variables)))
    n = np.asarray(relation.n) if relation.n is not None else np.ones(relation.rows, np.int64)
    return Rows(columns, np.full(relation.rows, BEFORE_TIME), np.full(relation.rows, FOREVER), n)


class Indexed:
    """The right side of a join: rows that can be looked up by some of their variables."""

    def __init__(self, relation: Relation, names: dict[str, str], intervals: Intervals | None) -> None:
        """``names`` maps variables to columns of the relation; without ``intervals`` its rows are always valid."""
        self.relation, self.names, self.intervals = relation, names, intervals
        self.rows = relation.rows

    @classmethod
    def of_static(cls, relation: Relation, variables: Sequence[str]) -> Indexed:
        """A static relation; its own columns are renamed to ``variables``."""
        return cls(relation, dict(zip(variables, relation.variables)), None)

    @classmethod
    def of_rows(cls, rows: Rows) -> Indexed:
        """Rows that are indexed in memory."""
        relation = Relation.build(dict(rows.columns), rows.n)
        return cls(relation, {v: v for v in rows.columns}, lambda found: (rows.start[found], rows.end[found]))

    def probe(self, left: Rows, on: Sequence[str], limit: RowLimit | None = None) -> Iterator[Rows]:
        """The joined rows, a bounded number of pairs at a time; a ``limit`` decides on the pieces of a probe on one variable."""
        if not len(left) or not self.rows:
            return
        if not on:
            step = max(1, row_sets.CHUNK // self.rows)
            for at in range(0, len(left), step):
                size = min(step, len(left) - at)
                pairs = np.repeat(np.arange(at, at + size), self.rows), np.tile(np.arange(self.rows), size)
                yield self._merge(left, *pairs, on)
            return
        if len(on) == 1:
            yield from self.matches(left, on).all_rows(limit)
            return
        on = self._stored(on)
        index = self._index(on)
        keys = [left.columns[v] for v in on]
        mixed = left.mixed(on) if index.by is None else None
        for at in range(0, len(left), PROBES):
            some = slice(at, at + PROBES)
            looked_up = index.lookups([key[some] for key in keys], row_sets.CHUNK, None if mixed is None else mixed[some])
            for probe, found in looked_up:
                yield self._merge(left, probe + at, found, on)

    def fan_out(self, left: Rows, on: Sequence[str]) -> Ints:
        """How many rows each left row matches, whatever their intervals."""
        on = self._stored(on)
        index = self._index(on)
        return index.fanout(*[left.columns[v] for v in on], mixed=left.mixed(on) if index.by is None else None)

    def sorts_by(self, on: Sequence[str], probes: int) -> str | None:
        """The variable by which a look-up of this number of unsorted rows sorts them; None if it does not, or by a mix of several."""
        on = self._stored(on)
        index = self._index(on)
        return None if index.by is None or not index.search.sorts(index.keys, probes) else on[index.by]

    def _stored(self, on: Sequence[str]) -> list[str]:
        """The variables in the order of stored indexes: that of the relation's column names."""
        return sorted(on, key=lambda v: self.names[v])

    def has_index(self, on: Sequence[str]) -> bool:
        """Whether there is an index on these variables yet."""
        return tuple(self.names[v] for v in self._stored(on)) in self.relation.indexes

    def _index(self, on: Sequence[str]) -> Index:
        return self.relation.index(tuple(self.names[v] for v in on))

    def matches(self, left: Rows, on: Sequence[str]) -> Matches:
        """The pairs of :meth:`probe` before verification, counted but not built; see :class:`Matches`."""
        runs = [self._index([v]).runs(left.columns[v]) for v in on] if self.rows else []
        return Matches(self, left, tuple(on), min(runs, key=lambda found: found.total, default=None))

    def _merge(self, left: Rows, probe: Ints, found: Ints, on: Sequence[str]) -> Rows:
        """The joined rows of pairs of places whose intervals intersect."""
        rows, start, end, n = left.multiplied(probe), None, None, None
        if self.intervals is not None:
            opened, closed = self.intervals(found)
            start, end = np.maximum(rows.start, opened), np.minimum(rows.end, closed)
            alive = np.flatnonzero(start < end)
            if len(alive) < len(start):
                found, start, end = found.take(alive), start.take(alive), end.take(alive)
                rows = left.multiplied(probe.take(alive))
        columns = rows.columns
        for variable, own in self.names.items():
            if variable not in on:
                column = Late(self.relation.columns[own], found)
                columns.held[variable] = np.minimum(columns[variable], column.values()) if variable in columns else column
        if self.relation.n is not None:
            n = product(rows.n, self.relation.n.take(found))
        return rows.replaced(start, end, n)


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The pairs of a join that agree on the most selective of its variables (all pairs of a cross product), counted but not built.

    Each pair can be built by its position, as index-based join sampling does (Leis et al. 2017).
    """

    side: Indexed
    left: Rows
    on: tuple[str, ...]
    runs: Runs | None

    @property
    def total(self) -> int:
        """The number of pairs."""
        return self.runs.total if self.runs is not None else 0 if self.on else len(self.left) * self.side.rows

    def pairs(self, limit: RowLimit | None = None) -> Iterator[tuple[Ints, Ints]]:
        """The pairs that agree on all variables, a bounded number of the others at a time; a ``limit`` decides on the pieces."""
        if self.runs is not None and len(self.runs.counts):
            for piece in pieces(self.runs.counts) if limit is None else limit.pieces(self.runs.counts):
                yield self._verified(*self.runs.pairs(piece))

    def all_rows(self, limit: RowLimit | None) -> Iterator[Rows]:
        """The joined rows of :meth:`pairs`."""
        for probe, found in self.pairs(limit):
            yield self.side._merge(self.left, probe, found, self.on)

    def rows(self, places: Ints) -> Rows:
        """The joined rows of the pairs at these positions that agree on all variables and whose intervals intersect."""
        picked = self.runs.pick(places) if self.runs is not None else np.divmod(places, max(self.side.rows, 1))
        return self.side._merge(self.left, *self._verified(*picked), self.on)

    def _verified(self, probe: Ints, found: Ints) -> tuple[Ints, Ints]:
        for variable in self.on if len(self.on) > 1 else ():  # the runs agree on one of them
            same = self.side.relation.columns[self.side.names[variable]].take(found) == self.left.columns[variable].take(probe)
            probe, found = probe[same], found[same]
        return probe, found


def per_row(matches: Sequence[Matches], rows: int) -> Ints:
    """The number of pairs of each of some left rows with several indexes."""
    found = np.zeros(rows, np.int64)
    for runs in (each.runs for each in matches if each.runs is not None):
        found[runs.probes] += runs.counts
    return found


def visible(rows: Rows) -> list[str]:
    """The variables of rows, without hidden columns."""
    return [v for v in rows.columns if not v.startswith(HIDDEN)]


def compatible_pairs(left: Rows, right: Rows, apart: Collection[str] | None = None) -> tuple[Ints, Ints]:
    """Positions of compatible rows with intersecting intervals; an unbound variable is compatible with any value (SPARQL 1.1 §18.3).

    With ``apart`` a pair must share another bound variable (MINUS).
    """
    shared = [v for v in visible(left) if v in right.columns]
    pairs: list[tuple[Ints, Ints]] = []
    for left_rows, left_bound in _by_bound(left, shared):
        for right_rows, right_bound in _by_bound(right, shared):
            on = [v for v in shared if v in left_bound and v in right_bound]
            if apart is not None and all(v in apart for v in on):
                continue
            a, b = _equal_pairs(left.take(left_rows), right.take(right_rows), on)
            pairs.append((left_rows[a], right_rows[b]))
    if not pairs:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])


def _by_bound(rows: Rows, variables: Sequence[str]) -> list[tuple[Ints, frozenset[str]]]:
    """Groups of rows that bind the same variables."""
    if not len(rows):
        return []
    masks = [(rows.columns[v] != 0).astype(np.int64) for v in variables]
    group, first = group_ids(masks, len(rows))
    if len(first) == 1:
        groups = [np.arange(len(rows))]
    else:
        groups = [np.flatnonzero(group == g) for g in range(len(first))]
    return [(g, frozenset(v for v, m in zip(variables, masks) if m[g[0]])) for g in groups]


def _equal_pairs(left: Rows, right: Rows, on: Sequence[str]) -> tuple[Ints, Ints]:
    left = Rows({**{v: left.columns[v] for v in on}, "#l": np.arange(len(left))}, left.start, left.end, left.n)
    right = Rows({**{v: right.columns[v] for v in on}, "#r": np.arange(len(right))}, right.start, right.end, right.n)
    found = gathered(f.only(("#l", "#r")) for f in Indexed.of_rows(right).probe(left, on))
    l_place, r_place = found.values(("#l", "#r"))
    return l_place, r_place


def combine(left: Rows, right: Rows, a: Ints, b: Ints) -> Rows:
    """The merged rows of pairs, with the intersection of their intervals."""
    check(len(a), len(left.columns.keys() | right.columns.keys()))
    columns = {v: c[a] for v, c in left.columns.items()}
    for variable, column in right.columns.items():
        taken = column[b]
        if variable in columns:
            mine = columns[variable]
            columns[variable] = np.minimum(mine, taken) if variable.startswith(HIDDEN) else np.where(mine == 0, taken, mine)
        else:
            columns[variable] = taken
    n = product(left.n[a], right.n[b])
    return Rows(columns, np.maximum(left.start[a], right.start[b]), np.minimum(left.end[a], right.end[b]), n)


def join(left: Rows, right: Rows) -> Rows:
    """All compatible pairs, merged."""
    if not len(left) or not len(right):
        return empty([*left.columns, *right.columns])
    return combine(left, right, *compatible_pairs(left, right))


def covered(rows: Rows, owner: Ints, start: Ints, end: Ints) -> tuple[Rows, Rows]:
    """Splits each row into the parts of its interval that its partners' intervals cover, and the parts that they do not.

    ``owner[k]`` is the row whose k-th partner is valid during ``[start[k], end[k])`` (Streaming SPARQL 2008, Algorithms 4 and 5).
    """
    if not len(owner):
        return rows.take(np.empty(0, np.int64)), rows
    order = np.lexsort((start, owner))
    owner, start, end = owner[order], start[order], end[order]
    new_owner = np.append(True, owner[1:] != owner[:-1])
    reach = running_maximum(end, owner)
    # a stretch of covered time begins with an owner, and after each gap between its partners
    first = np.flatnonzero(new_owner | np.append(True, start[1:] > reach[:-1]))
    last = np.append(first[1:], len(owner)) - 1
    own, begin, stop = owner[first], start[first], reach[last]
    is_first = new_owner[first]
    previous = np.where(is_first, rows.start[own], np.concatenate([[0], stop[:-1]]))
    after = np.append(is_first[1:], True)
    alone = np.ones(len(rows), bool)
    alone[own] = False
    inside = rows.take(own).with_interval(begin, stop)
    gaps = rows.take(own).with_interval(previous, begin)
    tails = rows.take(own[after]).with_interval(stop[after], rows.end[own[after]])
    return inside, concat([rows.take(alone), gaps, tails])


def running_maximum(values: Ints, group: Ints) -> Ints:
    """The greatest value so far within each group; ``group`` rises.

    >>> running_maximum(np.array([3, 1, 5, 2, 4]), np.array([0, 0, 0, 7, 7])).tolist()
    [3, 3, 5, 2, 4]
    """
    low = int(values.min())
    span = int(values.max()) - low + 1
    if (int(group[-1]) + 1) * span >= 1 << 62:  # group and value do not fit into one number; group and rank do
        distinct, ranks = np.unique(values, return_inverse=True)
        return distinct[running_maximum(ranks.astype(np.int64), group)]
    return np.maximum.accumulate(group * span + (values - low)) - group * span + low


def disjoint(rows: Rows) -> Rows:
    """Equal rows as one at each time: the union of their intervals, with multiplicity 1 (DISTINCT)."""
    if not len(rows):
        return rows
    names = visible(rows)
    group, first = group_ids([rows.columns[v] for v in names], len(rows))
    whole = rows.take(first)
    whole = Rows(
        whole.columns, np.full(len(first), rows.start.min()), np.full(len(first), rows.end.max()), np.ones(len(first), np.int64)
    )
    return covered(whole, group, rows.start, rows.end)[0]
