"""Semi-join reduction: rows are looked up in later relations before an operator expands them, and dropped where they have no match.

A plan that expands rows first and drops them later multiplies rows for nothing. Here rows are first looked up in all relations of their
join tree, top-down: a relation with children is read for the distinct keys of the rows above it only. Rows without a match below them are
dropped bottom-up (Yannakakis 1981; Birler, Kemper & Neumann, VLDB 2024, expand rows after look-ups likewise). Afterwards the plan runs as
it is, over fewer rows and over indexes of the rows that are left, so each row that it makes has a match in every relation of the tree.

Look-ups are by key, whatever the intervals of rows and the filters, so they only drop rows that no answer has. Below a relation of which
nearly all rows have matches, as a sample shows, nothing is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cqels_opt.lod.index import Index, Runs
from cqels_opt.lod.relation import Relation
from cqels_opt.operators import rows as row_sets
from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.join_sizes import JoinTable, join_sizes
from cqels_opt.operators.multiway_join import fan_out
from cqels_opt.operators.rows import Ints, Rows
from cqels_opt.plans.join_tree import ROWS, JoinTree, children

LEAST: Final = 1024
"""The fewest rows, or matches of rows, for which rows are looked up in later relations first: below it that costs more than it can save."""

GROWTH: Final = 2
"""An operator multiplies rows if their matches are this many times the rows of the plan's first scan."""

LOOK_UPS: Final = 4 * row_sets.CHUNK
"""The most look-ups (rows times indexes) whose results are held before their rows are read; with more, rows are not reduced."""

SAMPLE: Final = 256
"""Rows whose matches decide whether all rows are looked up, or whether a relation is read."""

MANY: Final = 8 * SAMPLE
"""Fewer rows are looked up without a sample."""

USELESS: Final = 0.9
"""The share of rows with matches from which a relation is not read."""

PAYS: Final = 0.7
"""The greatest share of rows with matches in all relations at which rows are looked up that do not multiply."""

Sides = Sequence[Indexed]


class Reduced(NamedTuple):
    """Rows that are left; the indexes of the relations of which some rows were dropped; for each relation of the tree, in the order of the
    plan, the rows of the join up to it without and with the reduction (none: nothing was dropped); and the rows that were looked up.
    """

    rows: Rows
    sides: Mapping[str, Sides]
    sizes: Sequence[tuple[float, float]]
    looked_up: int


def reduced(rows: Rows, tree: JoinTree, sides_of: Callable[[str], Sides], matches: Ints, multiplies: bool) -> Reduced | None:
    """The rows that have a match in each relation of their join tree. ``sides_of`` has the indexes of a relation; the rows have
    ``matches`` in the first one. None if the rows do not multiply and too many of them have matches.
    """
    run = _Reduction(rows, tree, sides_of)
    if not multiplies and len(rows) > MANY and not run.drops_rows():
        return None
    run.drop(ROWS, 0, matches)
    root = run.tables[ROWS]
    for place in run.below[ROWS][1:]:
        run.look_up(place)
    if not multiplies and root.alive.sum() > PAYS * len(rows):
        return None
    for place in run.below[ROWS]:
        run.read(place)
    if all(table.alive.all() for table in run.tables.values()):
        return Reduced(rows, {}, (), run.looked_up)
    return Reduced(rows.take(root.alive), dict(run.reduced_sides()), join_sizes(tree, run.tables), run.looked_up)


class _Piece(NamedTuple):
    """The rows of a relation in one of its indexes that were read: their positions, and the places of their keys among those that were
    looked up, in ascending order.
    """

    side: Indexed
    key: Ints
    positions: Ints


class _Reduction:
    """One reduction: the tables of the rows and of each relation that was read, by their places in the join tree."""

    def __init__(self, rows: Rows, tree: JoinTree, sides_of: Callable[[str], Sides]) -> None:
        self.tree, self._sides_of = tree, sides_of
        self.below = {place: children(tree, place) for place in (ROWS, *range(len(tree)))}
        self.tables = {ROWS: JoinTable(rows, np.ones(len(rows), bool))}
        self._pieces: dict[int, list[_Piece]] = {}
        self.looked_up = 0

    def drops_rows(self) -> bool:
        """Whether a sample of the rows has so few matches in the next relations that looking all of them up pays."""
        rows = self.tables[ROWS].rows
        sample = rows.take(np.linspace(0, len(rows) - 1, SAMPLE).astype(np.int64))
        left = np.arange(SAMPLE)
        for place in self.below[ROWS]:
            left = left[fan_out(sample.take(left), self._sides(place), self.tree[place].relation.on) > 0]
        return len(left) <= PAYS * SAMPLE

    def look_up(self, place: int) -> None:
        """Looks the rows of a parent that are left up in a child, and drops those without a match."""
        relation, parent = self.tree[place]
        table, matches = self.tables[parent], np.zeros(len(self.tables[parent].alive), np.int64)
        left = table.rows if table.alive.all() else table.rows.only(relation.on).take(table.alive)
        matches[table.alive] = fan_out(left, self._sides(place), relation.on)
        self.drop(parent, place, matches)

    def drop(self, parent: int, place: int, matches: Ints) -> None:
        """Drops the rows of a parent without a match in a child.

        They count for joins without that child. These are joins with relations before it in the plan, in which they have been looked up.
        """
        self.tables[parent].matches[place] = matches
        self.tables[parent].alive &= matches > 0

    def read(self, place: int) -> None:
        """Reads the rows of a child with children that its parent's rows meet, drops those without a match below, and then such rows of the
        parent.
        """
        below, table = self.below[place], self.tables[self.tree[place].parent]
        (variable,) = self.tree[place].relation.on if below else ("",)
        if not below or not table.alive.any():
            return
        keys, numbers = np.unique(table.rows.columns[variable][table.alive], return_inverse=True)
        runs = self._runs(place, keys)
        if sum(found.total for _, found in runs) > row_sets.CHUNK or not self._drops(place, runs):
            return
        pieces = [_Piece(side, *found.pairs()) for side, found in runs]
        own = self._table(place, [(piece.side, piece.positions) for piece in pieces])
        own.keys, own.key = keys, np.concatenate([piece.key for piece in pieces])
        self._pieces[place] = pieces
        own.of_parent = np.full(len(table.alive), -1)
        own.of_parent[table.alive] = numbers
        self.tables[place] = own
        self.looked_up += len(own.alive)
        for child in below:
            self.look_up(child)
        for child in below:
            self.read(child)
        has_rows = np.bincount(own.key[own.alive], minlength=len(keys)) > 0
        table.alive[table.alive] = has_rows[numbers]

    def _drops(self, place: int, runs: Sequence[tuple[Indexed, Runs]]) -> bool:
        """Whether many of the rows of a relation in some runs have no match in a child, or rows of a child in one of its children."""
        total = sum(found.total for _, found in runs)
        if total <= SAMPLE:
            return bool(total)
        places, pieces = np.linspace(0, total - 1, SAMPLE).astype(np.int64), []
        for side, found in runs:
            pieces.append((side, found.pick(places[(places >= 0) & (places < found.total)])[1]))
            places = places - found.total
        sample = self._table(place, pieces)
        self.looked_up += len(sample.alive)
        for child in self.below[place]:
            sample.alive &= fan_out(sample.rows, self._sides(child), self.tree[child].relation.on) > 0
        if sample.alive.sum() < USELESS * len(sample.alive):
            return True
        inner = (child for child in self.below[place] if self.below[child])
        return any(self._drops(child, self._runs(child, self._keys(child, sample.rows))) for child in inner)

    def _keys(self, place: int, rows: Rows) -> Ints:
        return np.unique(rows.columns[self.tree[place].relation.on[0]])

    def _sides(self, place: int) -> Sides:
        return self._sides_of(self.tree[place].relation.name)

    def _runs(self, place: int, keys: Ints) -> list[tuple[Indexed, Runs]]:
        """The rows of a relation with some keys, by index."""
        (variable,) = self.tree[place].relation.on
        return [(side, side.relation.index((side.names[variable],)).runs(keys)) for side in self._sides(place) if side.rows]

    def _table(self, place: int, pieces: Sequence[tuple[Indexed, Ints]]) -> JoinTable:
        """Rows of a relation, with the variables on which its children are probed."""
        read = {variable for child in self.below[place] for variable in self.tree[child].relation.on}
        columns = {v: np.concatenate([side.relation.columns[side.names[v]].take(found) for side, found in pieces]) for v in read}
        unread = np.zeros(sum(len(found) for _, found in pieces), np.int64)
        return JoinTable(Rows(columns, unread, unread, unread), np.ones(len(unread), bool))

    def reduced_sides(self) -> Iterator[tuple[str, Sides]]:
        """The indexes of the relations of which rows were dropped, over the rows that are left."""
        for place, pieces in self._pieces.items():
            if (table := self.tables[place]).alive.all():
                continue
            (variable,) = self.tree[place].relation.on
            ends = np.cumsum([len(piece.key) for piece in pieces])
            kept = np.split(table.alive, ends[:-1])
            yield self.tree[place].relation.name, [_indexed(*one, variable, table.keys) for one in zip(pieces, kept)]


def _indexed(piece: _Piece, kept: NDArray[np.bool_], variable: str, keys: Ints) -> Indexed:
    """An index over some rows of another one."""
    side, own, name = piece.side, piece.side.relation, piece.side.names[variable]
    counts = np.bincount(piece.key[kept], minlength=len(keys))
    filled = counts > 0
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts[filled])])
    index = Index((name,), (own.columns[name],), 0, keys[filled], starts, piece.positions[kept])
    return Indexed(Relation(own.columns, own.n, own.rows, [index]), side.names, side.intervals)
