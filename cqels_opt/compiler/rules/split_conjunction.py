"""The conditions of a conjunction are filters of their own, each of which is placed by itself."""

from __future__ import annotations

from cqels_opt.compiler.logical_blocks import LogicalOperator, LogicalPlan, filtered
from cqels_opt.compiler.rules.context import Context
from cqels_opt.operators import compiled_query as p
from cqels_opt.query import algebra as a


def split_conjunction(plan: LogicalOperator, context: Context) -> LogicalPlan | None:
    """Splits a filter at ``&&``.

    ::

        before: (filter (&& (> ?a 1) (< ?b 5)) (block (window w (?a :p ?b))))
        after:  (filter (< ?b 5) (filter (> ?a 1) (block (window w (?a :p ?b)))))
    """
    match plan:
        case LogicalOperator(p.FilterNode(_, a.Call("&&", conditions)), [below]):
            for condition in conditions:
                below = context.rewrite(filtered(below, condition))
            return below
    return None
