"""Query graphs and statistics for the tests of this room: the shapes of the literature, and random ones."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from cqels_opt.bench.shapes import relation
from cqels_opt.plans import FilterNode, JoinKind, KnownStatistics, QueryGraph, RelationNode
from cqels_opt.plans.cardinality import Estimator
from cqels_opt.plans.relation_set import RelationSet


def q2() -> QueryGraph:
    """Q2 of the report (Figure 2), co-authors as one pre-computed relation (§4.2)."""
    return QueryGraph(
        [
            relation("lsnow", "person1 loc", True),
            relation("ls30", "person2 loc", True),
            relation("loc_name", "loc locName"),
            relation("coauthor", "person1 person2"),
            relation("name#1", "person1 author1Name"),
            relation("name#2", "person2 author2Name"),
        ]
    )


UNIT_KINDS: tuple[JoinKind, ...] = ("optional", "anti", "semi", "filter")


def unit(name: str, kind: JoinKind, requires: str, adds: str = "", weight: float = 1.0) -> RelationNode:
    needed = frozenset(requires.split())
    return RelationNode(name, needed | frozenset(adds.split()), False, kind, needed, weight)


def with_units(rng: random.Random, graph: QueryGraph, most: int) -> QueryGraph:
    """The graph with one to ``most`` units more, before or between its relations; filters may read what an OPTIONAL adds."""
    bound = sorted(graph.bound(graph.everything))
    units: list[RelationNode] = []
    for i in range(rng.randint(1, most)):
        kind = rng.choice(UNIT_KINDS)
        known = bound if kind != "filter" else bound + [f"o{k}" for k, u in enumerate(units) if u.kind == "optional"]
        requires = rng.sample(known, min(len(known), rng.choice([1, 1, 2])))
        units.append(unit(f"u{i}", kind, " ".join(requires), f"o{i}" if kind == "optional" else "", rng.choice([0.5, 20.0])))
    relations = [*graph.relations, *units]
    rng.shuffle(relations)
    return QueryGraph(relations, graph.filters)


def random_graph(rng: random.Random, most: int = 6, connected: bool = True, units: int = 0) -> QueryGraph:
    """Two to ``most`` relations over a few variables, up to two filters; with ``units``, one to so many of them besides."""
    if units:
        return with_units(rng, random_graph(rng, most, connected), units)
    while True:
        n = rng.randint(2, most)
        variables = [f"v{i}" for i in range(rng.randint(1, n + 1))]
        relations = [
            RelationNode(
                f"r{i}",
                frozenset(rng.sample(variables, min(len(variables), rng.randint(1, 3)))),
                dynamic := rng.random() < 0.5,
                indexes=2.5 if dynamic else 1.0,
            )
            for i in range(n)
        ]
        bound = sorted({v for r in relations for v in r.variables})
        filters = [
            FilterNode(
                f"f{i}",
                frozenset(rng.sample(bound, min(len(bound), rng.randint(1, 2)))),
                rng.choice([None, 0.5]),
                rng.choice([1.0, 3.0]),
            )
            for i in range(rng.randint(0, 2))
        ]
        graph = QueryGraph(relations, filters)
        if not connected or len(graph.components) == 1:
            return graph


def random_statistics(rng: random.Random, graph: QueryGraph, unknown: float = 0.2) -> KnownStatistics:
    """Row counts, join sizes and selectivities over many orders of magnitude; each is missing with some probability."""

    def known() -> bool:
        return rng.random() >= unknown

    names = [r.name for r in graph.relations]
    rows = {name: rng.choice([0.0, 1.0, float(rng.randint(1, 50)), float(rng.randint(1, 100_000))]) for name in names}
    joins = {}
    for edge in graph.edges:
        left, right = names[edge.left], names[edge.right]
        joins[left, right, edge.variable] = rows[left] * rows[right] * 10 ** rng.uniform(-5, 0)
    return KnownStatistics(
        {name: value for name, value in rows.items() if known()},
        {key: value for key, value in joins.items() if known()},
        {(r.name, v): float(rng.randint(1, 1000)) for r in graph.relations for v in r.variables if known()},
        {f.name: rng.random() for f in (*graph.filters, *graph.relations) if known()},
    )


def uniform_statistics(graph: QueryGraph, rows: Sequence[float], selectivity: float) -> KnownStatistics:
    """Every edge with the same selectivity."""
    names = [r.name for r in graph.relations]
    known = dict(zip(names, rows))
    joins = {
        (names[e.left], names[e.right], e.variable): known[names[e.left]] * known[names[e.right]] * selectivity
        for e in graph.edges
    }
    return KnownStatistics(known, joins)


class RowsEstimator(Estimator):
    """An estimator of single states, without the arrays of the memo."""

    def rows(self, source: int, relations: RelationSet, filters: int | None = None) -> float:
        """The rows of one state now; without ``filters``, with all that the set covers."""
        applied = self.graph.covered_filters(relations) if filters is None else filters
        values = self.base.factors[source]
        result = 1.0
        for factor in self.factors(source, relations, applied):
            result *= float(values[factor])
        limit = [float(values[factor]) for factor in self.limit(source, relations, applied)]
        return min(result, math.prod(limit)) if limit else result
