"""The rows of the joins of every two parts of a greedy tree, updated while parts are joined.

They are the estimates of ``cardinality.py`` as logarithms, so that products are sums. A variable contributes to a part
the sum of the edges from its anchor to the other relations that have it (also to units, which are never anchors). Since the sums
from *every* relation are stored, the contribution to two joined parts is the sum of two entries for any anchor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.cardinality import Estimator
from cqels_opt.plans.query_graph import QueryGraph
from cqels_opt.plans.relation_set import RelationSet, members, size

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

NONE = -1e4
"""The logarithm of no rows: finite, so that it can be subtracted again."""

EMPTY = NONE / 2
"""Less than this is no rows."""

PRODUCT = 1e6
"""Added to the key of a cross product, so that all other joins come first."""

DIGITS = 9
"""The significant decimals of a logarithm: sums in another order differ in the twelfth."""


@dataclass(frozen=True, slots=True)
class _Variable:
    """A variable that several relations join on: those relations, the edge between each two (-1: none), and which can be anchors."""

    members: Ints
    edges: Ints
    carrying: NDArray[np.bool_]


class PartShape:
    """The data that all delta sources of a graph share."""

    def __init__(self, graph: QueryGraph) -> None:
        self.graph = graph
        edge_of = {(e.left, e.right, e.variable): i for i, e in enumerate(graph.edges)}
        joined: dict[str, set[int]] = {}
        apart = {k for k in members(graph.units) if len(graph.relations[k].joined_on) > 1}  # they have a factor of their own
        for e in graph.edges:
            if not {e.left, e.right} & apart:
                joined.setdefault(e.variable, set()).update((e.left, e.right))
        self.variables: list[_Variable] = []
        for x, found in joined.items():
            here = sorted(found)
            edges = [[edge_of.get((min(i, j), max(i, j), x), -1) for j in here] for i in here]
            carrying = np.array([bool(graph.carriers[x] >> i & 1) for i in here])
            self.variables.append(_Variable(np.array(here, np.intp), np.array(edges, np.intp), carrying))
        self.of_relation: list[list[int]] = [[] for _ in graph.relations]
        for number, variable in enumerate(self.variables):
            for relation in variable.members.tolist():
                self.of_relation[relation].append(number)
        self.conditions = _Conditions(graph)
        self.inner = np.array([relation.kind == "inner" for relation in graph.relations])
        self.requires = {k: tuple(graph.carriers[x] for x in graph.relations[k].requires) for k in members(graph.units)}
        between: dict[tuple[int, int], list[int]] = {}
        for i, e in enumerate(graph.edges):
            if self.inner[e.left] and self.inner[e.right]:
                between.setdefault((e.left, e.right), []).append(i)
        alone = [(left, right, edges[0]) for (left, right), edges in between.items() if len(edges) == 1]
        self.pairs: Ints = np.array(alone, np.intp).reshape(len(alone), 3)


class _Sums:
    """The contribution of one variable: for each part that has it (a column) the sum of the edges from each relation that has it."""

    __slots__ = ("anchor", "carries", "owner", "parts", "ranks", "sums")

    def __init__(self, variable: _Variable, edges: Floats, ranks: Ints) -> None:
        count = len(variable.members)
        self.ranks = np.append(ranks[variable.members], np.iinfo(np.intp).max)
        self.sums = np.where(variable.edges < 0, 0.0, edges[variable.edges])
        self.anchor = np.where(variable.carrying, np.arange(count), count)  # the last rank: none
        self.owner, self.parts = variable.members.copy(), count
        self.carries = variable.carrying.copy()

    def joined(self, column: int) -> tuple[Ints, Floats]:
        """The parts that share the variable with the part of a column, and the change of the contributions when they are joined."""
        others = np.flatnonzero((self.owner >= 0) & (np.arange(len(self.owner)) != column))
        mine, theirs = self.anchor[column], self.anchor[others]
        anchors = np.where(self.ranks[theirs] < self.ranks[mine], theirs, mine)
        there = self.carries[others]
        before = np.where(there, self.sums[np.where(there, theirs, 0), others], 0.0)
        return others, self.sums[anchors, others] + self.sums[anchors, column] - before - self.sums[mine, column]

    def merge(self, one: int, other: int) -> float:
        """Merges the second column into the first; returns the change of their contributions."""
        if not self.carries[one]:
            self.anchor[[one, other]] = self.anchor[[other, one]]
            self.carries[[one, other]] = self.carries[[other, one]]
            self.sums[:, [one, other]] = self.sums[:, [other, one]]
        before = self.sums[self.anchor[one], one]
        if self.carries[other]:
            before += self.sums[self.anchor[other], other]
            if self.ranks[self.anchor[other]] < self.ranks[self.anchor[one]]:
                self.anchor[one] = self.anchor[other]
        self.sums[:, one] += self.sums[:, other]
        self.owner[other] = -1
        self.parts -= 1
        return float(self.sums[self.anchor[one], one] - before)


class _Conditions:
    """The filters of a graph by the variables that they read."""

    def __init__(self, graph: QueryGraph) -> None:
        read = sorted({x for condition in graph.filters for x in condition.variables})
        place = {x: i for i, x in enumerate(read)}
        self.binds = np.array([[bool(graph.carriers[x] >> i & 1) for i in range(len(graph.relations))] for x in read], bool)
        self.binds = self.binds.reshape(len(read), len(graph.relations))
        together: dict[frozenset[str], list[int]] = {}
        for i, condition in enumerate(graph.filters):
            together.setdefault(condition.variables, []).append(i)
        self.of_one = [(place[next(iter(xs))], filters) for xs, filters in together.items() if len(xs) == 1]
        self.of_several = [([place[x] for x in sorted(xs)], filters) for xs, filters in together.items() if len(xs) > 1]
        self.of_none = together.get(frozenset(), [])


class _Filtered:
    """The shares of rows that filters keep, as logarithms: each filter counts once, as soon as its variables are bound."""

    def __init__(self, conditions: _Conditions, kept: Floats, count: int) -> None:
        self._binds = np.zeros((len(conditions.binds), 2 * count), bool)
        self._binds[:, :count] = conditions.binds
        self._of_one = np.zeros(len(conditions.binds))
        for place, filters in conditions.of_one:
            self._of_one[place] = kept[filters].sum()
        self._of_several = [(places, float(kept[filters].sum())) for places, filters in conditions.of_several]
        self._always = float(kept[conditions.of_none].sum())

    def with_each(self, part: int, count: int) -> Floats:
        """The share that all filters keep of a part joined with each of the first ``count`` parts."""
        if not len(self._binds):
            return np.full(count, self._always)
        bound = self._binds[:, :count] | self._binds[:, part, None]
        left: Floats = self._always + self._of_one @ bound
        for places, kept in self._of_several:
            left += np.where(bound[places].all(axis=0), kept, 0.0)
        return left

    def merge(self, one: int, other: int, made: int) -> None:
        """Adds the part that joins two others."""
        self._binds[:, made] = self._binds[:, one] | self._binds[:, other]


class PartRows:
    """The parts of a tree for one delta source while it is built; the result of a join gets the next number."""

    def __init__(self, shape: PartShape, estimator: Estimator, source: int) -> None:
        self.shape, base = shape, estimator.base
        n = len(shape.graph.relations)
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(base.factors[source]), NONE)
        self._pair_rows = logs[base.columns.pairs][shape.pairs[:, 2]]
        ranks = np.array(estimator.ranks(source), np.intp)
        edges = logs[base.columns.edges]
        self._sums = [_Sums(variable, edges, ranks) for variable in shape.variables]
        self.sets: list[RelationSet] = [1 << i for i in range(n)]
        self._rows = np.zeros(2 * n)  # without filters
        self._rows[:n] = np.where(shape.inner, logs[base.columns.rows], 0.0)
        for k in members(shape.graph.units):
            if len(shape.graph.relations[k].joined_on) != 1:
                self._rows[k] = sum(float(logs[f]) for f in base.unit_factors(k, ()))
        self._filtered = _Filtered(shape.conditions, logs[base.filter_factor(0) :], n)
        self._columns: list[dict[int, int]] = [
            {x: int(np.searchsorted(shape.variables[x].members, i)) for x in shape.of_relation[i]} for i in range(n)
        ]
        self._alive = np.zeros(2 * n, bool)
        self._alive[:n] = True

    def singles(self) -> Floats:
        """The keys of all joins of two relations; infinite if they cannot be joined."""
        count = len(self.sets)
        keys = np.full((count, count), np.inf)
        for i in np.flatnonzero(self.shape.inner).tolist():
            found = self.against(i)
            keys[i] = np.minimum(keys[i], found)
            keys[:, i] = np.minimum(keys[:, i], found)
        return keys

    def against(self, part: int) -> Floats:
        """A key for the joins of a part with each other part: the least is joined first; infinite if they cannot be joined."""
        shape, count, mine = self.shape, len(self.sets), self.sets[part]
        keys = self._rows[:count] + self._rows[part]
        connected = np.zeros(count, bool)
        for x, column in self._columns[part].items():
            sums = self._sums[x]
            others, change = sums.joined(column)
            owners = sums.owner[others]
            keys[owners] += change
            connected[owners] |= sums.carries[others]
        if size(mine) == 1:  # the rows of joins of two relations are known
            left, right = shape.pairs[:, 0], shape.pairs[:, 1]
            for here, there in ((left, right), (right, left)):
                at = np.flatnonzero((here == part) & self._alive[there])
                keys[there[at]] = self._pair_rows[at]
        keys += self._filtered.with_each(part, count)
        keys = np.where(keys < EMPTY, NONE, np.round(keys, DIGITS)) + np.where(connected, 0.0, PRODUCT)
        for k, carriers in shape.requires.items():
            if self._alive[k]:
                fits = all(each & mine for each in carriers)
                keys[k] = keys[k] - (0.0 if connected[k] else PRODUCT) if fits else np.inf
        keys[~self._alive[:count]] = np.inf
        keys[part] = np.inf
        return keys

    def merge(self, one: int, other: int) -> None:
        """Joins two parts to a new one."""
        made, columns, added = len(self.sets), dict(self._columns[one]), 0.0
        for x, column in self._columns[other].items():
            sums = self._sums[x]
            if x in columns:
                added += sums.merge(columns[x], column)
                if sums.parts == 1:  # no other part has the variable
                    del columns[x]
            else:
                columns[x] = column
        for x, column in columns.items():
            self._sums[x].owner[column] = made
        self._rows[made] = self._rows[one] + self._rows[other] + added
        self._filtered.merge(one, other, made)
        self._alive[[one, other]], self._alive[made] = False, True
        self.sets.append(self.sets[one] | self.sets[other])
        self._columns.append(columns)
