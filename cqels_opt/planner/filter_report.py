"""Filters in EXPLAIN and in the trace: their conditions, and the cost and selectivity of those that plans place by cost."""

from __future__ import annotations

from typing import Any

from cqels_opt.planner.block_planner import BlockPlanner
from cqels_opt.planner.row_expressions import written
from cqels_opt.plans.figures import digits


def described(block: BlockPlanner) -> list[dict[str, Any]]:
    """The expensive filters of a block: those that plans place by their cost.

    ``weight`` is the cost per distinct combination of arguments, as a multiple of a comparison of two numbers; ``selectivity`` is the
    share of rows that the filter kept, None while it was not observed.
    """
    placed = {r.name for r in block.optimizer.graph.relations if r.kind == "filter"}
    return [
        {
            "filter": f.name,
            "condition": written(f.condition),
            "placed": "operator" if f.name in placed else "as soon as its variables are bound",
            "weight": block.costs.weights.get(f.name, block.declared[f.name]),
            "measured": f.name in block.costs.weights,
            "selectivity": block.statistics.observations.ratio(f.name),
        }
        for f in block.block.filters
        if f.name in block.declared
    ]


def text(block: BlockPlanner) -> str:
    """Two lines per filter; empty if none is expensive."""
    lines = []
    for found in described(block):
        how = "measured" if found["measured"] else "declared"
        kept = "not observed" if found["selectivity"] is None else f"{digits(100 * found['selectivity'])} % of rows"
        lines.append(
            f"filter {found['filter']}: {found['condition']}\n"
            f"  {found['placed']}; costs {digits(found['weight'])} comparisons for distinct arguments ({how}); keeps: {kept}"
        )
    return "\n".join(lines)


def with_conditions(text: str, block: BlockPlanner) -> str:
    """The text with the conditions of filters in place of their names, except of those that are operators of plans."""
    placed = {r.name for r in block.optimizer.graph.relations if r.kind == "filter"}
    for f in sorted(block.block.filters, key=lambda f: -len(f.name)):  # no name is replaced within a longer one
        text = text if f.name in placed else text.replace(f.name, written(f.condition))
    return text
