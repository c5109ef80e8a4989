"""A filter over a UNION filters each branch."""

from __future__ import annotations

from cqels_opt.compiler.logical_blocks import LogicalOperator, LogicalPlan, filtered, union
from cqels_opt.compiler.rules.context import Context
from cqels_opt.compiler.variable_usage import exists_in
from cqels_opt.operators import compiled_query as p


def filter_below_union(plan: LogicalOperator, context: Context) -> LogicalPlan | None:
    """Moves a filter without EXISTS into the branches of a UNION.

    ::

        before: (filter (> ?b 1) (union (block (window w (?a :p ?b))) (block (window v (?a :q ?b)))))
        after:  (union (filter (> ?b 1) (block (window w (?a :p ?b)))) (filter (> ?b 1) (block (window v (?a :q ?b)))))
    """
    match plan:
        case LogicalOperator(p.FilterNode(_, condition), [LogicalOperator(p.UnionNode(), parts)]) if not exists_in(condition):
            return union(context.rewrite(filtered(part, condition)) for part in parts)
    return None
