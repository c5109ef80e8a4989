"""BINDs below a join move above it, so that they do not split the block around them."""

from __future__ import annotations

from cqels_opt.compiler.logical_blocks import LogicalOperator, LogicalPlan, join
from cqels_opt.compiler.rules.context import Context
from cqels_opt.compiler.rules.late_binds import split_late_binds, with_binds
from cqels_opt.operators import compiled_query as p


def pull_up_binds(plan: LogicalOperator, context: Context) -> LogicalPlan | None:
    """Moves BINDs above a join whose other side does not name their variable.

    ::

        before: (join (extend ?k (* ?b 2) (block (window w (?a :p ?b)))) (block (?a :q ?c)))
        after:  (extend ?k (* ?b 2) (join (block (window w (?a :p ?b))) (block (?a :q ?c))))
    """
    match plan:
        case LogicalOperator(p.JoinNode(), [left, right]) if context.late_binds:
            (left_below, from_left), (right_below, from_right) = split_late_binds(left, right), split_late_binds(right, left)
            if from_left or from_right:
                return with_binds(context.rewrite(join(left_below, right_below)), [*from_left, *from_right])
    return None
