"""The placement of filters among the joins: by cost, or by the heuristics H3 and H4 of Keskisärkkä et al. 2021 (§4.1).

The search places a filter that is an operator of its own (a unit of the query graph) like a join, anywhere after its variables are
bound (Hellerstein & Stonebraker 1993); every other filter is evaluated as soon as they are. With ``cost`` expensive filters are operators.
With ``early`` (H3, filter push-down) no filter is one. With ``late`` (H4, filter pull-up) filters on probabilities come after all joins,
and with ``last`` all filters do.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from math import prod
from typing import Literal, TypeAlias

from cqels_opt.plans import plan as planning
from cqels_opt.plans.base_estimates import BaseEstimates
from cqels_opt.plans.cost import CostModel, JoinShape
from cqels_opt.plans.dpccp import Pair, join_pairs
from cqels_opt.plans.plan import Plan, PlanError
from cqels_opt.plans.query_graph import FilterNode, QueryGraph
from cqels_opt.plans.relation_set import size

Placing: TypeAlias = Literal["cost", "early", "late", "last"]

HEAVY = 8.0
"""A filter that costs at least this number of evaluations of a plain one is an operator of its own."""

LIFTED = 6
"""The most filters that are operators, the heaviest ones: each can double the number of sub-patterns."""

LIFTED_EDGES = 64
"""The most minimal sets of relations that bind the variables of such a filter; each is a hyperedge."""

LIFTED_BUDGET = 20_000
"""The most pairs of a block with such filters; beyond it, the lightest filters are evaluated as soon as possible."""


def operators_among(
    graph: QueryGraph, model: CostModel, mode: str | Mapping[str, Plan], placing: Placing, budget: int
) -> tuple[QueryGraph, list[Pair] | None]:
    """The graph with some filters as operators, and the pairs that its plans consist of (None: more than the budget).

    With given plans, the filters that the plans name are operators. Raises :class:`PlanError` if the cost model has no such operators.
    """
    has_operators = bool(model.operators(JoinShape(True, True, True, "filter")))
    if not isinstance(mode, str):
        named = {name for plan in mode.values() for name in planning.relations(plan)}
        lifted = graph.with_filter_units([f.name for f in graph.filters if f.name in named])
        if lifted.filters != graph.filters and not has_operators:
            raise PlanError(
                f"a plan names a filter as an operator, {lifted.relations[-1].name}, and the cost model has no such operators"
            )
        return lifted, join_pairs(lifted, budget)
    if not has_operators or placing == "early":
        return graph, join_pairs(graph, budget)
    if placing != "cost":
        return _after_all_joins(graph, placing, budget)
    heavy = (
        [] if mode in ("first", "heuristic") else [f for f in graph.filters if f.weight >= HEAVY and _may_be_operator(f, graph)]
    )
    heavy = sorted(heavy, key=lambda f: -f.weight)[:LIFTED]
    while heavy:
        lifted = graph.with_filter_units([f.name for f in heavy])
        pairs = join_pairs(lifted, min(budget, LIFTED_BUDGET))
        if pairs is not None:
            return lifted, pairs
        heavy = heavy[: len(heavy) // 2]
    return graph, join_pairs(graph, budget)


def _may_be_operator(condition: FilterNode, graph: QueryGraph) -> bool:
    """Whether a filter reads variables, and few sets of relations bind them together."""
    sets = prod(size(graph.carriers[x]) for x in condition.variables)
    return bool(condition.variables) and sets <= LIFTED_EDGES


def filter_order(base: BaseEstimates, weights: Mapping[str, float]) -> tuple[str, ...]:
    """All filters by cost/(1 − selectivity) (Hellerstein & Stonebraker 1993).

    A filter's selectivity is counted over all delta sources together, so that of the first source holds for all.
    """
    kept = [float(base.factors[0, base.filter_factor(i)]) for i in range(len(base.graph.filters))]
    ranks = {f.name: (share - 1) / weights[f.name] for f, share in zip(base.graph.filters, kept)}
    return tuple(sorted(ranks, key=ranks.__getitem__))


def _after_all_joins(graph: QueryGraph, placing: Placing, budget: int) -> tuple[QueryGraph, list[Pair] | None]:
    """Filters as operators after all joins: the first ones in any order among themselves, others behind them as written."""
    pairs = join_pairs(graph, budget)
    wanted = [f.name for f in graph.filters if f.variables and (f.uncertain or placing == "last")]
    lifted = graph.with_filter_units(wanted)
    if pairs is None or not wanted:
        return lifted, pairs
    units = [1 << lifted.index[name] for name in wanted]
    free, fixed = units[:LIFTED], units[LIFTED:]
    last = [
        (graph.everything | sum(before), unit)
        for n in range(len(free))
        for before in combinations(free, n)
        for unit in free
        if unit not in before
    ]
    last += [(graph.everything | sum(units[:n]), unit) for n, unit in enumerate(fixed, len(free))]
    return lifted, [*pairs, *last]
