"""The number of rows that a set of relations joins to, for each delta source.

The rows of one relation, and of the join of two on one variable, are exact if the statistics are. Other estimates multiply the rows of
the relations and, for every variable that k of them share, k − 1 edge selectivities. Those form a star around the variable's
*anchor*: the delta itself where it binds the variable, otherwise the relation nearest to it. So the delta's own join sizes,
which are counted, are used as far as they reach, and independence is assumed only beyond them. An edge's
selectivity is its join size over the product of its ends, or one over the larger distinct count (System R); of several
edges between two relations only the most selective counts. Filters that a set covers multiply by the share they keep, and
units by their rows per left row (``outer_join_estimates.py``).

The variables of a cycle are not independent, so products may be too large by any factor. An estimate is therefore at most the product of
the rows of some relations that bind all variables of the set (an edge cover; Atserias, Grohe & Marx 2008, for distinct rows), unless the
rows of this set have been observed.

An estimate is a product of *factors* (``base_estimates.py``). A *state* is a set of relations with the filters evaluated so far; the
factors of all states of all sources are one index array, so that one gather and one product estimate all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from itertools import zip_longest
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.base_estimates import BaseEstimates
from cqels_opt.plans.cycles import is_cyclic
from cqels_opt.plans.feedback import corrected
from cqels_opt.plans.query_graph import QueryGraph
from cqels_opt.plans.relation_set import RelationSet, members, of_all, size

SMALLEST_COVERED = 3
"""Relations of a set whose rows an edge cover can limit."""

MOST_MULTIPLIED = 16
"""Numbers of rows, below 2^63 each, whose product is a floating-point number."""

State: TypeAlias = "tuple[RelationSet, int]"
"""A set of relations, and the filters (as bits) that have been evaluated on its rows."""


def anchor_ranks(graph: QueryGraph, source: str) -> list[int]:
    """The rank of each relation as an anchor: by distance from the delta source, dynamic before static, then as written."""
    reached = found = 1 << graph.index[source]
    count, steps = len(graph.relations), 0
    distance = [count] * count
    while found:
        for i in members(found):
            distance[i] = steps
        found = of_all(graph.adjacent, found) & ~reached
        reached, steps = reached | found, steps + 1
    ranks = [0] * count
    for rank, i in enumerate(sorted(range(count), key=lambda i: (distance[i], not graph.relations[i].dynamic, i))):
        ranks[i] = rank
    return ranks


class Estimator:
    """Turns sets of relations into lists of factors, whose products are rows."""

    def __init__(self, base: BaseEstimates) -> None:
        self.base, self.graph = base, base.graph
        self._ranks = [anchor_ranks(self.graph, source) for source in base.sources]
        self._edge = {(e.left, e.right, e.variable): i for i, e in enumerate(self.graph.edges)}
        self._carriers = self.graph.carriers
        self._stars: dict[tuple[int, str, RelationSet], tuple[int, ...]] = {}
        self._is_cyclic = is_cyclic(self.graph)
        self._covers: dict[tuple[RelationSet, RelationSet], list[int]] = {}
        self._joins = {variable: carriers for variable, carriers in self._carriers.items() if carriers & carriers - 1}

    def ranks(self, source: int) -> list[int]:
        """The rank of each relation as an anchor."""
        return self._ranks[source]

    def factors(self, source: int, relations: RelationSet, filters: int) -> list[int]:
        """The factors whose product is the rows of a state; ``source`` is an index into the sources of the base estimates."""
        base = self.base
        if (units := self.graph.units & relations) and (inner := relations & ~units):
            found = self.factors(source, inner, filters)
            return [*found, *(f for k in members(units) for f in self._unit_factors(source, k, inner))]
        conditions = [base.filter_factor(i) for i in members(filters)]
        edges: list[int] = []
        for variable, carriers in self._joins.items():
            inside = carriers & relations
            if inside & (inside - 1):
                edges.extend(self._stars.get((source, variable, inside)) or self._star(source, variable, inside))
        if size(relations) == 2 and len(edges) == 1:
            return [base.pair_factor(edges[0]), *conditions]
        rows, shares = [base.rows_factor(i) for i in members(relations)], [base.edge_factor(e) for e in edges]
        if len(rows) > MOST_MULTIPLIED:  # rows and selectivities in turn, so that no product on the way is infinite
            return [*(f for pair in zip_longest(rows, shares) for f in pair if f is not None), *conditions]
        return [*rows, *shares, *conditions]

    def limit(self, source: int, relations: RelationSet, filters: int) -> list[int]:
        """The factors whose product limits the rows of a state: of an edge cover of its relations, and of its filters. No factors: there is
        no limit."""
        found = self.cover(source, relations)
        return [*found, *(self.base.filter_factor(i) for i in members(filters))] if found else []

    def cover(self, source: int, relations: RelationSet) -> list[int]:
        """The factors whose product limits the rows of a set in a cyclic graph: those of a greedy edge cover, which begins with the delta.
        No factors for sets that need no limit."""
        if not self._is_cyclic or size(relations) < SMALLEST_COVERED or relations & self.graph.units:
            return []
        delta = relations & 1 << self.graph.index[self.base.sources[source]]
        key = relations, delta
        if key not in self._covers:
            chosen, waiting = [*members(delta)], self.graph.bound(relations) - self.graph.bound(delta)
            while waiting:
                best = max(members(relations), key=lambda i: len(self.graph.relations[i].variables & waiting))
                chosen.append(best)
                waiting -= self.graph.relations[best].variables
            self._covers[key] = [self.base.rows_factor(i) for i in chosen]
        return self._covers[key]

    def _star(self, source: int, variable: str, inside: RelationSet) -> tuple[int, ...]:
        """The edges from the anchor of a variable to the other relations of a set that have it."""
        here = list(members(inside))
        anchor = min(here, key=self._ranks[source].__getitem__)
        found = tuple(self._edge[min(anchor, i), max(anchor, i), variable] for i in here if i != anchor)
        self._stars[source, variable, inside] = found
        return found

    def _unit_factors(self, source: int, unit: int, inner: RelationSet) -> list[int]:
        """The factors of a unit's rows per row of a set, on the edges from the anchor of each variable that it is joined on."""
        edges = []
        for variable in self.graph.relations[unit].joined_on:
            if here := list(members(self._carriers[variable] & inner)):
                anchor = min(here, key=self._ranks[source].__getitem__)
                edges.append(self._edge[min(anchor, unit), max(anchor, unit), variable])
        return self.base.unit_factors(unit, edges)


class StateTable:
    """The rows of many states at once, for some delta sources: ``rows[source · len(states) + state]``.

    A state's rows are the product of its factors and of a correction, 1 unless feedback says otherwise (``feedback.py``), and at most the
    bound of its relations where one is given (``size_bounds.py``).
    """

    def __init__(self, estimator: Estimator, states: Sequence[State], sources: Sequence[str]) -> None:
        base = estimator.base
        width = base.factor_count
        numbers = [base.sources.index(source) for source in sources]
        lists = [[f + width * s for f in estimator.factors(s, *state)] for s in numbers for state in states]
        covers = [[f + width * s for f in estimator.limit(s, *state)] for s in numbers for state in states]
        self._factors, self._covers = _padded(lists), _padded(covers)
        self._base = base
        sets = [relations for relations, _ in states]
        filtered = {relations: at for at, (relations, _) in sorted(enumerate(states), key=lambda state: state[1][1])}
        self._filtered = np.array(
            [s * len(states) + filtered[relations] for s in range(len(sources)) for relations in sets], np.intp
        )
        self._sets = np.array(sets, np.int64 if max(sets, default=0) < 1 << 63 else object)
        self._correction = np.ones(len(lists))
        self._corrected = np.zeros(len(lists), bool)
        self._uncovered: NDArray[np.bool_] = self._covers.sum(axis=0) == 0  # no cover limits their rows
        self._observed = np.zeros(len(lists), bool)
        self._most = np.full(len(lists), np.inf)
        every = np.arange(len(lists))
        self.rows: NDArray[np.float64] = np.minimum(self.uncorrected(every), self._greatest(every))

    def of_source(self, number: int) -> StateTable:
        """The states of one of the sources."""
        found, span = copy(self), slice(number * len(self._sets), (number + 1) * len(self._sets))
        found._factors, found.rows = self._factors[:, span], self.rows[span].copy()
        found._correction, found._corrected = self._correction[span].copy(), self._corrected[span].copy()
        found._covers, found._uncovered = self._covers[:, span], self._uncovered[span]
        found._most, found._observed = self._most[span].copy(), self._observed[span].copy()
        found._filtered = self._filtered[span] - span.start
        return found

    def uncorrected(self, chosen: slice | NDArray[np.intp]) -> NDArray[np.float64]:
        """The rows of some states, from the statistics alone."""
        product: NDArray[np.float64] = np.multiply.reduce(self._base.factors.ravel()[self._factors[:, chosen]], axis=0)
        return product

    def unlimited(self, chosen: NDArray[np.intp]) -> NDArray[np.float64]:
        """The rows of some states with their corrections, whatever their bounds.

        Corrections are of rows that all filters of their relations have kept. The rows before a filter are at least as many; that they
        are more by the same factor is not known, because the estimate of the filter may be what was false.
        """
        alone, correction, filtered = self.uncorrected(chosen), self._correction[chosen], self._filtered[chosen]
        rows = corrected(alone, correction)
        before = np.flatnonzero((filtered != chosen) & ((correction > 1.0) | (correction < 0.0)))
        if len(before):
            kept = corrected(self.uncorrected(filtered[before]), correction[before])
            rows[before] = np.maximum(alone[before], kept)
        return rows

    def estimated_at(self, chosen: NDArray[np.intp]) -> StateTable:
        """A copy that has the rows of some states under the current factors, corrections and bounds; the others are of the last update."""
        found = copy(self)
        found.rows = self.rows.copy()
        found.rows[chosen] = np.minimum(self.unlimited(chosen), self._greatest(chosen))
        return found

    def update(self, changed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Estimates again the states that read a changed factor or have a new correction; returns which states' rows have changed."""
        marked = changed.ravel()[self._factors].any(axis=0) | self._corrected
        touched = np.flatnonzero(marked | marked[self._filtered])
        self._corrected[:] = False
        moved = np.zeros(len(self.rows), bool)
        fresh = np.minimum(self.unlimited(touched), self._greatest(touched))
        moved[touched] = fresh != self.rows[touched]
        self.rows[touched] = fresh
        return moved

    def _greatest(self, chosen: NDArray[np.intp]) -> NDArray[np.float64]:
        """The greatest rows of some states: bounds, and edge covers of sets that have not been observed."""
        most = self._most[chosen]
        if len(self._covers):
            covered = np.multiply.reduce(self._base.factors.ravel()[self._covers[:, chosen]], axis=0)
            most = np.minimum(most, np.where(self._uncovered[chosen] | self._observed[chosen], np.inf, covered))
        return most

    @property
    def pending(self) -> bool:
        """Whether the next update has to apply a new correction or bound."""
        return bool(self._corrected.any())

    def correct(self, source: int, corrections: Mapping[RelationSet, float]) -> None:
        """Sets the corrections of a source: the next update multiplies each state by the correction of the largest set inside it."""
        count = len(self._sets)
        fresh = np.ones(count)
        for relations in sorted(corrections, key=lambda s: (size(s), s)):
            fresh[self._sets & relations == relations] = corrections[relations]
        span = slice(source * count, (source + 1) * count)
        observed = np.isin(self._sets, [*corrections]) if len(self._covers) else self._observed[span]
        self._corrected[span] |= (fresh != self._correction[span]) | (observed != self._observed[span])
        self._correction[span], self._observed[span] = fresh, observed

    def limit(self, source: int, bounds: Mapping[RelationSet, float]) -> None:
        """Sets the greatest rows of some sets of a source, and removes those of the others: the next update applies them."""
        count = len(self._sets)
        span = slice(source * count, (source + 1) * count)
        if not bounds and np.isinf(self._most[span]).all():
            return
        fresh = np.full(count, np.inf)
        for relations, rows in bounds.items():
            fresh[self._sets == relations] = rows
        self._corrected[span] |= fresh != self._most[span]
        self._most[span] = fresh

    def factors_of(self, source: int, states: Sequence[int]) -> list[int]:
        """The factors that some states of a source read, as columns of ``base.factors``."""
        positions = np.array(states, np.intp) + source * len(self._sets)
        found: list[int] = np.unique(self._factors[:, positions] % self._base.factor_count).tolist()
        return [factor for factor in found if factor > 0]


def _padded(lists: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    """Lists of factors as columns, padded with the constant factor."""
    padded = np.zeros((max(map(len, lists), default=0), len(lists)), np.int32)
    for position, found in enumerate(lists):
        padded[: len(found), position] = found
    return padded
