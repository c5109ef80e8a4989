"""A join with a UNION becomes a UNION of joins, so that each branch is planned as a block of its own."""

from __future__ import annotations

from typing import Final

from cqels_opt.compiler.logical_blocks import LogicalOperator, LogicalPlan, branches, join, union
from cqels_opt.compiler.rules.context import Context
from cqels_opt.operators import compiled_query as p

MOST_BRANCHES: Final = 16
"""A join with more UNION branches than this stays above them: each branch needs a plan of its own."""


def join_below_union(plan: LogicalOperator, context: Context) -> LogicalPlan | None:
    """Distributes a join over the branches of a UNION.

    ::

        before: (join (union (block (window w (?a :p ?b))) (block (window v (?a :p ?b)))) (block (?b :q ?c)))
        after:  (union
                  (join (block (window w (?a :p ?b))) (block (?b :q ?c)))
                  (join (block (window v (?a :p ?b))) (block (?b :q ?c))))
    """
    match plan:
        case LogicalOperator(p.JoinNode(), [left, right]) if _few_branches(left, right):
            return union(context.rewrite(join(x, y)) for x in branches(left) for y in branches(right))
        case LogicalOperator(p.JoinNode(), [left, right]) if _few_branches(right, left):
            return union(context.rewrite(join(x, y)) for y in branches(right) for x in branches(left))
    return None


def _few_branches(plan: LogicalPlan, other: LogicalPlan) -> bool:
    """Whether a plan is a UNION that the join with another plan may be distributed over."""
    is_union = isinstance(plan, LogicalOperator) and isinstance(plan.node, p.UnionNode)
    return is_union and len(branches(plan)) * len(branches(other)) <= MOST_BRANCHES
