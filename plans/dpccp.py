"""The pairs of connected sub-patterns that the plans of a block consist of: DPccp (Moerkotte & Neumann 2006, §3).

A pair is a connected subset and a connected subset of the other relations, with a variable in common. Every bushy tree
without cross products consists of such pairs, and each pair is found once. A graph with units may have hyperedges, because a unit can
require variables that several relations bind together: it is searched by DPhyp (``dphyp.py``). Components of a disconnected graph are
enumerated alone and then multiplied, one component at a time; units that need several of them follow. Beyond a budget of pairs the
caller searches greedily (``greedy.py``) instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from cqels_opt.plans.dphyp import HyperSearch, TooManyPairsError
from cqels_opt.plans.query_graph import QueryGraph
from cqels_opt.plans.relation_set import RelationSet, below, contains, members, size, subsets

Pair: TypeAlias = "tuple[RelationSet, RelationSet]"

PAIR_BUDGET = 1 << 17
"""Pairs (unordered) times delta sources that a block may have before it is planned greedily: the memo has alternatives for each source.

With one source a star of 14 has 53,248 and a clique of 11 86,526; a clique of 9, each of them a source, has 83,970.
"""

COMPONENT_BUDGET = 8
"""The most components whose order of multiplication is searched exhaustively."""


class _Search:
    """One run of DPccp over one component; the recursion of the paper's EnumerateCsg and EnumerateCmp."""

    def __init__(self, graph: QueryGraph, budget: int) -> None:
        self.graph, self.budget = graph, budget
        self.pairs: list[Pair] = []
        self._neighbourhood: dict[RelationSet, RelationSet] = {}

    def neighbourhood(self, relations: RelationSet) -> RelationSet:
        known = self._neighbourhood.get(relations)
        if known is None:
            known = self._neighbourhood[relations] = self.graph.neighbourhood(relations)
        return known

    def connected_subsets(self, start: int, forbidden: RelationSet) -> Iterator[RelationSet]:
        """EnumerateCsg from one relation: the connected sets that hold it and nothing forbidden."""
        pending = [(1 << start, forbidden)]
        yield 1 << start
        while pending:
            current, excluded = pending.pop()
            around = self.neighbourhood(current) & ~excluded
            for extension in subsets(around):
                yield current | extension
                pending.append((current | extension, excluded | around))

    def complements(self, first: RelationSet) -> Iterator[RelationSet]:
        """EnumerateCmp: the connected sets that ``first`` pairs with, numbered after its lowest relation."""
        lowest = (first & -first).bit_length() - 1
        excluded = below(lowest) | first
        around = self.neighbourhood(first) & ~excluded
        for start in sorted(members(around), reverse=True):
            yield from self.connected_subsets(start, excluded | (below(start) & around))

    def run(self, component: RelationSet) -> None:
        for start in sorted(members(component), reverse=True):
            for first in self.connected_subsets(start, below(start)):
                found = ((first, second) for second in self.complements(first))
                self.pairs.extend(islice(found, self.budget + 1 - len(self.pairs)))
                if len(self.pairs) > self.budget:
                    raise TooManyPairsError


def connected_pairs(graph: QueryGraph, budget: int = PAIR_BUDGET) -> list[Pair] | None:
    """Every csg-cmp pair of a graph without hyperedges, each once and in no particular orientation; None beyond the budget."""
    search = _Search(graph, budget)
    try:
        for component in graph.components:
            search.run(component)
    except TooManyPairsError:
        return None
    return search.pairs


def _pairs_with_units(graph: QueryGraph, budget: int) -> list[Pair] | None:
    """The ordered pairs of a graph with units, in every orientation that :meth:`QueryGraph.fits` allows; None beyond the budget."""
    found: list[Pair] = []

    def accept(one: RelationSet, other: RelationSet) -> bool:
        ways = [pair for pair in ((one, other), (other, one)) if graph.fits(*pair)]
        found.extend(ways)
        return bool(ways)

    try:
        for component in graph.components:
            inside = [edge for edge in graph.hyperedges if contains(component, edge[0] | edge[1])]
            HyperSearch(inside, budget, accept).run(component)
    except TooManyPairsError:
        return None
    return found


def spanning_pairs(graph: QueryGraph) -> list[Pair]:
    """The cross products between components, left-deep: a product of some of them (left) with one more (right).

    Units that need several components are joined as soon as they can be, or later.
    """
    parts = [*graph.components, *(1 << k for k in members(graph.spanning))]
    pairs: list[Pair] = []
    for chosen in range(1, 1 << len(parts)):
        left = sum(parts[i] for i in members(chosen))
        pairs.extend((left, parts[i]) for i in range(len(parts)) if not chosen >> i & 1 and graph.fits(left, parts[i]))
    return pairs


def join_pairs(graph: QueryGraph, budget: int = PAIR_BUDGET) -> list[Pair] | None:
    """All *ordered* pairs that the plans of this graph consist of: (left, right) and (right, left); None beyond the budget."""
    if len(graph.components) + size(graph.spanning) > COMPONENT_BUDGET:
        return None
    pairs = _pairs_with_units(graph, budget) if graph.units else connected_pairs(graph, budget)
    if pairs is None:
        return None
    reversed_pairs = [] if graph.units else [(right, left) for left, right in pairs]
    return pairs + reversed_pairs + spanning_pairs(graph)
