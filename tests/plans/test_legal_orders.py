"""Every plan made of the pairs of a graph with units gives the answers of the block as written (SPARQL 1.1 §18.5, by the letter)."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cqels_opt.bench.shapes import relation
from cqels_opt.plans import QueryGraph
from cqels_opt.plans.dpccp import join_pairs
from cqels_opt.plans.relation_set import RelationSet, members

from .graphs import random_graph, unit

Row = frozenset[tuple[str, int]]
"""A solution mapping; an unbound variable is not in it."""

Bag = Counter[Row]
Order = int | tuple["Order", "Order"]
"""A relation by its index, or two parts in the order of a pair."""

VALUES = 3


def random_bags(rng: random.Random, graph: QueryGraph) -> list[Bag]:
    def rows(variables: frozenset[str]) -> Bag:
        found: Bag = Counter()
        for _ in range(rng.randint(1, 5)):
            found[frozenset((v, rng.randrange(VALUES)) for v in sorted(variables))] += rng.randint(1, 2)
        return found

    return [rows(relation.variables) for relation in graph.relations]


def holds(row: Row, variables: frozenset[str]) -> bool:
    """A condition that is an error where a variable is unbound."""
    read = [value for variable, value in row if variable in variables]
    return len(read) == len(variables) and sum(read) % 2 == 0


def joined(graph: QueryGraph, left: Bag, right: int | Bag, bags: list[Bag]) -> Bag:
    """A part of a plan joined with a unit, by its index, or with another part."""
    kind, others = (graph.relations[right].kind, bags[right]) if isinstance(right, int) else ("inner", right)
    found: Bag = Counter()
    for row, n in left.items():
        if kind == "filter":
            found[row] += n * holds(row, graph.relations[cast("int", right)].variables)
            continue
        values = dict(row)
        partners = {other: m for other, m in others.items() if all(values.get(v, value) == value for v, value in other)}
        if kind in ("inner", "optional"):
            for other, m in partners.items():
                found[row | other] += n * m
        if (kind in ("optional", "anti") and not partners) or (kind == "semi" and partners):
            found[row] += n
    return +found


def evaluated(graph: QueryGraph, order: Order, bags: list[Bag]) -> Bag:
    if isinstance(order, int):
        return bags[order]
    left, right = order
    unit = isinstance(right, int) and graph.units >> right & 1
    return joined(graph, evaluated(graph, left, bags), right if unit else evaluated(graph, right, bags), bags)


def as_written(graph: QueryGraph) -> Order:
    """The inner joins, and then the units: filters last, as they may read what an OPTIONAL adds."""
    first, *others = members(graph.inner)
    order: Order = first
    for other in (*others, *sorted(members(graph.units), key=lambda i: graph.relations[i].kind == "filter")):
        order = (order, other)
    return order


def orders(graph: QueryGraph, pairs: list[tuple[RelationSet, RelationSet]]) -> list[Order]:
    ways: dict[RelationSet, list[tuple[RelationSet, RelationSet]]] = {}
    for left, right in pairs:
        ways.setdefault(left | right, []).append((left, right))

    @cache
    def of(relations: RelationSet) -> list[Order]:
        if relations & (relations - 1) == 0:
            return [relations.bit_length() - 1]
        return [(one, other) for left, right in ways.get(relations, ()) for one in of(left) for other in of(right)]

    return of(graph.everything)


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_every_plan_gives_the_answers_of_the_block_as_written(rng: random.Random) -> None:
    graph = random_graph(rng, most=3, units=3)
    pairs = join_pairs(graph)
    assert pairs is not None
    ways = orders(graph, pairs)
    assert ways
    for _ in range(4):
        bags = random_bags(rng, graph)
        expected = evaluated(graph, as_written(graph), bags)
        for order in rng.sample(ways, min(len(ways), 30)):
            assert evaluated(graph, order, bags) == expected, order


def test_an_order_that_is_no_plan_has_other_answers() -> None:
    """A filter before the OPTIONAL that binds what it reads."""
    graph = QueryGraph([relation("a", "x"), unit("o", "optional", "x", "y"), unit("f", "filter", "y")])
    one, two = frozenset({("x", 1)}), frozenset({("x", 1), ("y", 2)})
    bags = [Counter([one]), Counter([two]), Counter()]
    (order,) = orders(graph, join_pairs(graph) or [])
    assert order == ((0, 1), 2)
    assert evaluated(graph, order, bags) == Counter([two])
    assert evaluated(graph, ((0, 2), 1), bags) == Counter()
