"""The leaf statistics of a query graph as one row per delta source, and the assumptions that replace missing ones.

``raw`` holds the observed values (NaN: not observed). ``factors`` is derived from it, with the assumptions filled in, and is what estimates
multiply. :class:`RawColumns` and :class:`FactorColumns` describe the two rows.

If two relations share several variables, only the most selective one counts, and the others are taken to follow from it: the join on each
alone is an upper bound, and the least bound is taken. In RDF one of the variables is mostly the subject of the triples (``?o :value ?v``
and ``<< ?o :value ?v >> :by ?u``), and multiplying the selectivities would underestimate the join by orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.outer_join_estimates import UnitRatios
from cqels_opt.plans.query_graph import FilterNode, QueryGraph
from cqels_opt.plans.statistics import Key, StatisticKey, Statistics
from cqels_opt.plans.steady import is_steady_share

Floats: TypeAlias = "NDArray[np.float64]"


@dataclass(frozen=True, slots=True)
class Assumptions:
    """The value of a statistic that has not been observed; EXPLAIN lists where one of these was used.

    ``delta``, ``dynamic`` and ``static`` are rows; ``distinct_share`` is distinct values per row; ``selectivity`` is the
    third that System R assumes for a condition without statistics (Selinger et al. 1979, Table 1).
    """

    delta: float = 100.0
    dynamic: float = 1_000.0
    static: float = 10_000.0
    distinct_share: float = 0.1
    selectivity: float = 1 / 3


class RawColumns(NamedTuple):
    """The columns of ``raw``: rows of relations, sizes of pairwise joins, distinct values, shares that filters keep."""

    cardinality: slice
    join_size: slice
    distinct: slice
    selectivity: slice


class Followed(NamedTuple):
    """The statistics of a source as they were read last, a row of ``raw``, and the rows of its relations now."""

    before: Floats
    rows: Floats


class FactorColumns(NamedTuple):
    """The columns of ``factors`` after column 0, which is the constant 1, so that lists of factors can be padded.

    ``rows`` has one column per relation; ``edges`` the selectivity of each edge (for a unit's: rows per left row,
    ``outer_join_estimates.py``); ``pairs`` the size of the pairwise join on each edge; ``filters`` the selectivity of each filter;
    ``units`` the rows per left row of each unit on several variables.
    """

    rows: slice
    edges: slice
    pairs: slice
    filters: slice
    units: slice


def _consecutive(start: int, *counts: int) -> Iterator[slice]:
    """Consecutive slices with these numbers of columns."""
    return (slice(first, end) for first, end in pairwise(accumulate(counts, initial=start)))


class BaseEstimates:
    """The leaf statistics of every delta source, read through the protocol and turned into factors."""

    def __init__(self, graph: QueryGraph, sources: Sequence[str]) -> None:
        self.graph, self.sources = graph, tuple(sources)
        self.assumptions = Assumptions()
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
        self.filter_keys = tuple(self._selectivity)
        self.keys = (*self._cardinality, *self._join_size, *self._distinct, *self._selectivity)
        self.column: dict[Key, int] = {key: position for position, key in enumerate(self.keys)}
        self._column_of = self.column | {_reversed(key): self.column[key] for key in self._join_size}
        n, e, f = len(names), len(graph.edges), len(conditions)
        self._raw_columns = RawColumns(*_consecutive(0, n, e, len(bound), f))
        self.columns = FactorColumns(*_consecutive(1, n, e, e, f, len(self._units.several)))
        self.factor_count = self.columns.units.stop
        self._left = np.array([edge.left for edge in graph.edges], np.intp)
        self._right = np.array([edge.right for edge in graph.edges], np.intp)
        self._left_end = np.array([ends[edge.left, edge.variable] for edge in graph.edges], np.intp)
        self._right_end = np.array([ends[edge.right, edge.variable] for edge in graph.edges], np.intp)
        inner = [i for i, edge in enumerate(graph.edges) if not (1 << edge.left | 1 << edge.right) & graph.units]
        together = groupby(inner, key=lambda i: (graph.edges[i].left, graph.edges[i].right))
        self._shared = [edges for _, group in together if len(edges := list(group)) > 1]
        self._beside = {edge: edges for edges in self._shared for edge in edges}
        join_size, distinct = self._raw_columns.join_size.start, self._raw_columns.distinct.start
        self._ends = {
            join_size + edge: (distinct + int(left), distinct + int(right))
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
        self.raw: Floats = np.full((len(self.sources), len(self.keys)), np.nan)
        self.factors: Floats = self._derive()

    # ------------------------------------------------------------------ where a factor stands
    def rows_factor(self, relation: int) -> int:
        """The column of a relation's rows."""
        return int(self.columns.rows.start) + relation

    def edge_factor(self, edge: int) -> int:
        """The column of an edge's selectivity."""
        return int(self.columns.edges.start) + edge

    def pair_factor(self, edge: int) -> int:
        """The column of the rows of the pairwise join on an edge."""
        return int(self.columns.pairs.start) + edge

    def filter_factor(self, condition: int) -> int:
        """The column of a filter's selectivity."""
        return int(self.columns.filters.start) + condition

    def unit_factors(self, relation: int, edges: Sequence[int]) -> list[int]:
        """The columns whose product is a unit's rows per left row; ``edges`` are those to the anchors of its variables."""
        unit = self.graph.relations[relation]
        if unit.kind == "filter":
            return [self.filter_factor(self._condition[unit.name])]
        if relation in self._units.several:
            return [int(self.columns.units.start) + self._units.several.index(relation)]
        return [self.edge_factor(edge) for edge in edges]

    # ------------------------------------------------------------------ reading
    def read(
        self,
        statistics: Mapping[str, Statistics],
        changed: Collection[Key] | None = None,
        followed: Mapping[str, Followed] = MappingProxyType({}),
    ) -> NDArray[np.bool_]:
        """Reads the statistics (only the ``changed`` ones if given) and returns which factors have changed, in the shape of ``factors``.

        A join size may be named in either order; names that no estimate reads are ignored. Sources that are ``followed`` keep the
        selectivities of their joins.
        """
        raw = self.raw.copy()
        columns = None if changed is None else sorted({self._column_of[key] for key in changed if key in self._column_of})
        for row, source in zip(raw, self.sources):
            known = statistics[source]
            if source in followed:
                row[:] = self._following(*followed[source], known)
                continue
            if columns is None:
                row[:] = self._read_all(known)
            else:
                for position in columns:
                    row[position] = number_of(self.keys[position].read(known))
                    for end in self._ends.get(position, ()) if np.isnan(row[position]) else ():
                        row[end] = number_of(self.keys[end].read(known))
        return self.replace(raw)

    def replace(self, raw: Floats) -> NDArray[np.bool_]:
        """Replaces ``raw`` and returns which factors have changed."""
        before, self.raw = self.factors, raw
        self.factors = self._derive()
        different: NDArray[np.bool_] = self.factors != before
        return different

    def keeps_filters(self, source: str, known: Statistics) -> bool:
        """Whether the filters keep about what they kept when the statistics of a source were read."""
        before = self.raw[self.sources.index(source), self._raw_columns.selectivity].tolist()
        now = (number_of(known.selectivity(*key.names)) for key in self._selectivity)
        return all(map(is_steady_share, before, now))

    def has_rows(self, source: str) -> bool:
        """Whether the delta of a source had rows when its statistics were read."""
        return bool(self.raw[self.sources.index(source), self.graph.index[source]] > 0)

    @property
    def rows_read(self) -> int:
        """The number of relations whose rows are read: the first columns of ``raw``."""
        return len(self._cardinality)

    def cardinalities(self, known: Statistics) -> Floats:
        """The rows of all relations; NaN: not known."""
        return np.array([number_of(known.cardinality(*key.names)) for key in self._cardinality])

    def _following(self, before: Floats, now: Floats, known: Statistics) -> Floats:
        """Statistics with the rows of relations now, the sizes of their joins in proportion, and what filters keep now."""
        row, rows = before.copy(), before[self._raw_columns.cardinality]
        ratio = np.ones(len(now))
        np.divide(now, rows, out=ratio, where=(rows > 0) & ~np.isnan(now))
        row[self._raw_columns.cardinality] = now
        row[self._raw_columns.join_size] *= ratio[self._left] * ratio[self._right]
        row[self._raw_columns.selectivity] = [number_of(known.selectivity(*key.names)) for key in self._selectivity]
        return row

    def _read_all(self, known: Statistics) -> list[float]:
        cardinality = self.cardinalities(known)
        join_size = [number_of(known.join_size(*key.names)) for key in self._join_size]
        distinct = [float("nan")] * len(self._distinct)
        for edge, value in enumerate(join_size):
            if value != value:
                for end in (self._left_end[edge], self._right_end[edge]):
                    distinct[end] = number_of(known.distinct(*self._distinct[end].names))
        selectivity = [number_of(known.selectivity(*key.names)) for key in self._selectivity]
        return [*cardinality, *join_size, *distinct, *selectivity]

    def _derive(self) -> Floats:
        """The factors from ``raw``."""
        cardinality, join_size, distinct, selectivity = (self.raw[:, part] for part in self._raw_columns)
        rows = np.where(np.isnan(cardinality), self._rows, cardinality)
        left, right = self._distinct_at_ends(rows, distinct)
        product = rows[:, self._left] * rows[:, self._right]
        unknown = np.isnan(join_size)
        independent = 1.0 / np.maximum(left, right)
        measured = np.minimum(join_size / np.where(product > 0, product, 1.0), 1.0)
        edges = np.where(unknown, independent, measured)
        pairs = np.where(unknown, product * independent, join_size)
        self._keep_most_selective(edges)
        units = np.empty((len(self.sources), 0))
        if self._units.edges.any():
            ratios = self._units.ratios(rows, join_size, left, right, self.assumptions.selectivity)
            edges = np.where(self._units.edges, ratios, edges)
            pairs = np.where(self._units.edges, self._units.pairs(rows, ratios), pairs)
            units = self._units.combined(ratios)
        kept = np.where(np.isnan(selectivity), self._kept, selectivity)
        return np.concatenate([np.ones((len(self.sources), 1)), rows, edges, pairs, kept, units], axis=1)

    def _distinct_at_ends(self, rows: Floats, distinct: Floats) -> tuple[Floats, Floats]:
        """The distinct values of each edge's variable in its left and in its right relation: at least 1, at most the relation's rows."""
        owner_rows = rows[:, self._owner]
        values = np.where(np.isnan(distinct), owner_rows * self.assumptions.distinct_share, distinct)
        values = np.maximum(np.minimum(values, owner_rows), 1.0)
        return values[:, self._left_end], values[:, self._right_end]

    def _keep_most_selective(self, edges: Floats) -> None:
        """Sets the selectivity of the edges between the same two relations to 1, except for the most selective one."""
        for shared in self._shared:
            least = edges[:, shared].argmin(axis=1)[:, None]
            selective = np.take_along_axis(edges[:, shared], least, axis=1)
            edges[:, shared] = 1.0
            np.put_along_axis(edges, np.asarray(shared)[least], selective, axis=1)

    # ------------------------------------------------------------------ where a factor comes from
    def assumed(self, source: str) -> tuple[StatisticKey, ...]:
        """The statistics of a source that estimates read and that have not been observed.

        A distinct count is read only if the join size on its edge is missing.
        """
        row = self.raw[self.sources.index(source)]
        missing = np.isnan(row)
        cardinality, join_size, distinct, selectivity = self._raw_columns
        read = np.zeros(len(self.keys), bool)
        unknown = missing[join_size]
        read[distinct.start + self._left_end[unknown]] = True
        read[distinct.start + self._right_end[unknown]] = True
        read[selectivity] = self._unknown_before
        read[cardinality] = [relation.kind != "filter" for relation in self.graph.relations]
        return tuple(self.keys[i] for i in np.flatnonzero(missing & read))

    def read_now(self, source: str) -> tuple[StatisticKey, ...]:
        """The statistics of a source that its estimates depend on, observed or assumed."""
        known = ~np.isnan(self.raw[self.sources.index(source)])
        return (*(self.keys[i] for i in np.flatnonzero(known)), *self.assumed(source))

    def value(self, source: str, key: StatisticKey) -> float:
        """The observed or assumed value of a statistic."""
        number, position = self.sources.index(source), self.column[key]
        if not np.isnan(self.raw[number, position]):
            return float(self.raw[number, position])
        index = next(position - part.start for part in self._raw_columns if part.start <= position < part.stop)
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
        kind, first = next((k, c.start) for k, c in self.columns._asdict().items() if c.start <= factor < c.stop)
        index = factor - first
        if kind == "rows":
            return (self._cardinality[index],)
        if kind == "filters":
            return (self._selectivity[index],)
        edges = (
            self._units.edges_of(index) if kind == "units" else self._beside.get(index, [index]) if kind == "edges" else [index]
        )
        return tuple(dict.fromkeys(key for edge in edges for key in self._statistics_of_edge(edge)))

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


def number_of(value: float | None) -> float:
    """A statistic as a number; NaN: not known."""
    return float("nan") if value is None else float(value)
