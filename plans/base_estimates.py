"""The leaf statistics of a query graph as one array a delta source, and what is assumed where one is not known.

``raw`` holds what was observed (NaN: not observed). ``factors`` is derived from it, with the assumptions filled in, and
is what estimates multiply: a row count for each relation, a selectivity for each edge (of a unit's: rows a left row,
``outer_join_estimates.py``), the size of each pairwise join, the selectivity of each filter, and rows a left row of units on several
variables. Column 0 is the constant 1, so that lists of factors can be padded.

Of several variables that two relations share the most selective one counts, and the others are taken to follow from it: the join on each
alone is a bound, and the least is taken. In RDF one of them is mostly what the triples are about (``?o :value ?v`` and
``<< ?o :value ?v >> :by ?u``), and to multiply would leave next to nothing of their join.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.outer_join_estimates import UnitRatios
from cqels_opt.plans.query_graph import FilterNode, QueryGraph
from cqels_opt.plans.statistics import Key, StatisticKey, Statistics


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What a statistic that nobody has observed is taken to be; EXPLAIN lists where one of these was used.

    ``delta``, ``dynamic`` and ``static`` are rows; ``distinct_share`` is distinct values a row; ``selectivity`` is the
    classical third of System R for a condition about which nothing is known.
    """

    delta: float = 100.0
    dynamic: float = 1_000.0
    static: float = 10_000.0
    distinct_share: float = 0.1
    selectivity: float = 1 / 3


class BaseEstimates:
    """The leaf statistics of every delta source, read through the protocol and turned into factors."""

    def __init__(self, graph: QueryGraph, sources: Sequence[str], assumptions: Assumptions | None = None) -> None:
        self.graph, self.sources = graph, tuple(sources)
        self.assumptions = assumptions or Assumptions()
        names = [relation.name for relation in graph.relations]
        bound = [(i, x) for i, relation in enumerate(graph.relations) for x in sorted(relation.variables)]
        ends = {end: position for position, end in enumerate(bound)}
        self._cardinality = [StatisticKey("cardinality", (name,)) for name in names]
        self._join_size = [StatisticKey("join_size", (names[e.left], names[e.right], e.variable)) for e in graph.edges]
        self._distinct = [StatisticKey("distinct", (names[i], x)) for i, x in bound]
        conditions = [
            *graph.filters,
            *(FilterNode(r.name, r.variables, r.selectivity) for r in graph.relations if r.kind == "filter"),
        ]
        self._selectivity = [StatisticKey("selectivity", (f.name,)) for f in conditions]
        self._condition = {f.name: i for i, f in enumerate(conditions)}
        self._units = UnitRatios(graph)
        self.keys = (*self._cardinality, *self._join_size, *self._distinct, *self._selectivity)
        self.column: dict[Key, int] = {key: position for position, key in enumerate(self.keys)}
        self._column_of = self.column | {_reversed(key): self.column[key] for key in self._join_size}
        n, e, d, f = len(names), len(graph.edges), len(bound), len(conditions)
        self.factor_count = 1 + n + 2 * e + f + len(self._units.several)
        self._slices = (slice(0, n), slice(n, n + e), slice(n + e, n + e + d), slice(n + e + d, n + e + d + f))
        self._left = np.array([edge.left for edge in graph.edges], np.intp)
        self._right = np.array([edge.right for edge in graph.edges], np.intp)
        self._left_end = np.array([ends[edge.left, edge.variable] for edge in graph.edges], np.intp)
        self._right_end = np.array([ends[edge.right, edge.variable] for edge in graph.edges], np.intp)
        inner = [i for i, edge in enumerate(graph.edges) if not (1 << edge.left | 1 << edge.right) & graph.units]
        together = groupby(inner, key=lambda i: (graph.edges[i].left, graph.edges[i].right))
        self._shared = [edges for _, group in together if len(edges := list(group)) > 1]
        self._beside = {edge: edges for edges in self._shared for edge in edges}
        joins, distincts = self._slices[1:3]
        self._ends = {
            joins.start + edge: (distincts.start + int(left), distincts.start + int(right))
            for edge, (left, right) in enumerate(zip(self._left_end, self._right_end))
        }
        self._owner = np.array([i for i, _ in bound], np.intp)
        assume = self.assumptions
        content = [assume.dynamic if relation.dynamic else assume.static for relation in graph.relations]
        self._rows = np.array(
            [[assume.delta if name == source else rows for name, rows in zip(names, content)] for source in sources]
        )
        self._rows = self._rows.reshape(len(self.sources), n)
        self._kept = np.array([assume.selectivity if c.selectivity is None else c.selectivity for c in conditions])
        self._unknown_before = [c.selectivity is None for c in conditions]
        self.raw: NDArray[np.float64] = np.full((len(self.sources), len(self.keys)), np.nan)
        self.factors: NDArray[np.float64] = self._derive()

    # ------------------------------------------------------------------ where a factor stands
    def rows_factor(self, relation: int) -> int:
        """The column of a relation's rows."""
        return 1 + relation

    def edge_factor(self, edge: int) -> int:
        """The column of an edge's selectivity."""
        return 1 + len(self.graph.relations) + edge

    def pair_factor(self, edge: int) -> int:
        """The column of the rows of the pairwise join on an edge."""
        return 1 + len(self.graph.relations) + len(self.graph.edges) + edge

    def filter_factor(self, condition: int) -> int:
        """The column of a filter's selectivity."""
        return 1 + len(self.graph.relations) + 2 * len(self.graph.edges) + condition

    def unit_factors(self, relation: int, edges: Sequence[int]) -> list[int]:
        """The column that says what a unit makes of each row; ``edges`` are those to the anchors of its variables."""
        unit = self.graph.relations[relation]
        if unit.kind == "filter":
            return [self.filter_factor(self._condition[unit.name])]
        if relation in self._units.several:
            return [self.filter_factor(len(self._selectivity)) + self._units.several.index(relation)]
        return [self.edge_factor(edge) for edge in edges]

    # ------------------------------------------------------------------ reading
    def read(self, statistics: Mapping[str, Statistics], changed: Collection[Key] | None = None) -> NDArray[np.bool_]:
        """Read the statistics (only the ``changed`` ones where that is given) and say which factors are different now.

        The answer has the shape of ``factors``. A join size may be named in either order; a name that no estimate reads is
        passed over.
        """
        raw = self.raw.copy()
        columns = None if changed is None else sorted({self._column_of[key] for key in changed if key in self._column_of})
        for row, source in zip(raw, self.sources):
            known = statistics[source]
            if columns is None:
                row[:] = self._read_all(known)
            else:
                for position in columns:
                    row[position] = _number(self.keys[position].read(known))
                    for end in self._ends.get(position, ()) if np.isnan(row[position]) else ():
                        row[end] = _number(self.keys[end].read(known))
        return self.replace(raw)

    def replace(self, raw: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Take other values for ``raw`` and say which factors are different now."""
        before, self.raw = self.factors, raw
        self.factors = self._derive()
        different: NDArray[np.bool_] = self.factors != before
        return different

    def _read_all(self, known: Statistics) -> list[float]:
        cardinality = [_number(known.cardinality(*key.names)) for key in self._cardinality]
        join_size = [_number(known.join_size(*key.names)) for key in self._join_size]
        distinct = [float("nan")] * len(self._distinct)
        for edge, value in enumerate(join_size):
            if value != value:
                for end in (self._left_end[edge], self._right_end[edge]):
                    distinct[end] = _number(known.distinct(*self._distinct[end].names))
        selectivity = [_number(known.selectivity(*key.names)) for key in self._selectivity]
        return [*cardinality, *join_size, *distinct, *selectivity]

    def _derive(self) -> NDArray[np.float64]:
        cardinality, join_size, distinct, selectivity = (self.raw[:, part] for part in self._slices)
        rows = np.where(np.isnan(cardinality), self._rows, cardinality)
        owner_rows = rows[:, self._owner]
        values = np.where(np.isnan(distinct), owner_rows * self.assumptions.distinct_share, distinct)
        values = np.maximum(np.minimum(values, owner_rows), 1.0)
        product = rows[:, self._left] * rows[:, self._right]
        unknown = np.isnan(join_size)
        independent = 1.0 / np.maximum(values[:, self._left_end], values[:, self._right_end])
        measured = np.minimum(join_size / np.where(product > 0, product, 1.0), 1.0)
        edges = np.where(unknown, independent, measured)
        pairs = np.where(unknown, product * independent, join_size)
        for shared in self._shared:
            selective = np.take_along_axis(edges[:, shared], least := edges[:, shared].argmin(axis=1)[:, None], axis=1)
            edges[:, shared] = 1.0
            np.put_along_axis(edges, np.asarray(shared)[least], selective, axis=1)
        kept = np.where(np.isnan(selectivity), self._kept, selectivity)
        several = np.empty((len(self.sources), 0))
        if self._units.edges.any():
            left, right = values[:, self._left_end], values[:, self._right_end]
            ratios = self._units.ratios(rows, join_size, left, right, self.assumptions.selectivity)
            edges = np.where(self._units.edges, ratios, edges)
            pairs = np.where(self._units.edges, self._units.pairs(rows, ratios), pairs)
            several = self._units.combined(ratios)
        return np.concatenate([np.ones((len(self.sources), 1)), rows, edges, pairs, kept, several], axis=1)

    # ------------------------------------------------------------------ what was assumed, what moved
    def assumed(self, source: str) -> tuple[StatisticKey, ...]:
        """The statistics of a source that estimates would read and nobody has observed.

        A distinct count is only missed where the join size that would replace it is missing as well.
        """
        row = self.raw[self.sources.index(source)]
        missing = np.isnan(row)
        cardinality, join_size, distinct, selectivity = self._slices
        read = np.zeros(len(self.keys), bool)
        unknown = missing[join_size]
        read[distinct.start + self._left_end[unknown]] = True
        read[distinct.start + self._right_end[unknown]] = True
        read[selectivity] = self._unknown_before
        read[cardinality] = [relation.kind != "filter" for relation in self.graph.relations]
        return tuple(self.keys[i] for i in np.flatnonzero(missing & read))

    def read_now(self, source: str) -> tuple[StatisticKey, ...]:
        """The statistics of a source that its estimates are made from, observed or assumed."""
        known = ~np.isnan(self.raw[self.sources.index(source)])
        return (*(self.keys[i] for i in np.flatnonzero(known)), *self.assumed(source))

    def value(self, source: str, key: StatisticKey) -> float:
        """What a statistic is, or is assumed to be."""
        number, position = self.sources.index(source), self.column[key]
        if not np.isnan(self.raw[number, position]):
            return float(self.raw[number, position])
        index = next(position - part.start for part in self._slices if part.start <= position < part.stop)
        match key.kind:
            case "cardinality":
                return float(self.factors[number, self.rows_factor(index)])
            case "join_size":
                return float(self.factors[number, self.pair_factor(index)])
            case "selectivity":
                return float(self.factors[number, self.filter_factor(index)])
        rows = float(self.factors[number, self.rows_factor(int(self._owner[index]))])
        return max(1.0, rows * self.assumptions.distinct_share)

    def statistics_of(self, factor: int) -> tuple[StatisticKey, ...]:
        """The leaf statistics that a factor is derived from."""
        n, e = len(self.graph.relations), len(self.graph.edges)
        position = factor - 1
        if position < n:
            return (self._cardinality[position],)
        if position >= n + 2 * e + len(self._selectivity):
            edges = self._units.edges_of(position - n - 2 * e - len(self._selectivity))
            return tuple(key for edge in edges for key in self._statistics_of_edge(edge))
        if position >= n + 2 * e:
            return (self._selectivity[position - n - 2 * e],)
        edge = (position - n) % e
        if position < n + e and edge in self._beside:
            return tuple(dict.fromkeys(key for other in self._beside[edge] for key in self._statistics_of_edge(other)))
        return self._statistics_of_edge(edge)

    def _statistics_of_edge(self, edge: int) -> tuple[StatisticKey, ...]:
        return (
            self._join_size[edge],
            self._distinct[self._left_end[edge]],
            self._distinct[self._right_end[edge]],
            self._cardinality[self._left[edge]],
            self._cardinality[self._right[edge]],
        )


def _reversed(key: StatisticKey) -> Key:
    left, right, variable = key.names
    return key.kind, (right, left, variable)


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)
