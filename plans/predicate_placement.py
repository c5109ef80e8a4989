"""Where filters stand among the joins: by their cost, or as the heuristics H3 and H4 of Keskisärkkä et al. 2021 (§4.1) have it.

A filter that is an operator of its own (a unit of the query graph) is placed by the search like any join, wherever its variables are
bound; every other is evaluated as soon as they are. By ``cost`` the heavy filters are operators. ``early`` (H3) none is. ``late`` (H4)
those that refer to probabilities come after all joins, and ``last`` every filter does.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Literal, TypeAlias

from cqels_opt.plans import plan as planning
from cqels_opt.plans.cost import CostModel, JoinShape
from cqels_opt.plans.dpccp import Pair, join_pairs
from cqels_opt.plans.plan import Plan
from cqels_opt.plans.query_graph import QueryGraph
from cqels_opt.plans.relation_set import size

Placing: TypeAlias = Literal["cost", "early", "late", "last"]

HEAVY = 8.0
"""A filter that costs at least so many evaluations of a plain one is an operator of its own, placed where it costs least."""

LIFTED = 6
"""So many filters at most, the heaviest: each can double the sub-patterns."""

LIFTED_BUDGET = 20_000
"""Pairs that a block with such filters may have; the lightest are evaluated as soon as they can be otherwise."""


def operators_among(
    graph: QueryGraph, model: CostModel, mode: str | Mapping[str, Plan], placing: Placing, budget: int
) -> tuple[QueryGraph, list[Pair] | None]:
    """The graph with some filters as operators, and the pairs that its plans are made of (None: more than the budget).

    Of given plans those filters are operators that the plans name.
    """
    if not isinstance(mode, str):
        named = {name for plan in mode.values() for name in planning.relations(plan)}
        lifted = graph.with_filter_units([f.name for f in graph.filters if f.name in named])
        return lifted, join_pairs(lifted, budget)
    if not model.operators(JoinShape(True, True, True, "filter")) or placing == "early":
        return graph, join_pairs(graph, budget)
    if placing != "cost":
        return _after_all_joins(graph, placing, budget)
    heavy = [] if mode in ("first", "heuristic") else [f for f in graph.filters if f.weight >= HEAVY and f.variables]
    heavy = sorted(heavy, key=lambda f: -f.weight)[:LIFTED]
    while heavy:
        lifted = graph.with_filter_units([f.name for f in heavy])
        pairs = join_pairs(lifted, min(budget, LIFTED_BUDGET))
        if pairs is not None:
            return lifted, pairs
        heavy.pop()
    return graph, join_pairs(graph, budget)


def _after_all_joins(graph: QueryGraph, placing: Placing, budget: int) -> tuple[QueryGraph, list[Pair] | None]:
    """Filters as operators that nothing but such filters comes after, in any order."""
    pairs = join_pairs(graph, budget)
    wanted = [f.name for f in graph.filters if f.variables and (f.uncertain or placing == "last")]
    wanted = wanted[:LIFTED]
    lifted = graph.with_filter_units(wanted)
    units = [1 << lifted.index[name] for name in wanted]
    if pairs is None or not units:
        return lifted, pairs
    last = [
        (graph.everything | sum(before), unit) for n in range(len(units)) for before in combinations(units, n) for unit in units
    ]
    return lifted, [*pairs, *((left, right) for left, right in last if not left & right and size(right) == 1)]
