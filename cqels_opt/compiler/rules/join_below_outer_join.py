"""A join above an OPTIONAL or MINUS moves to its left side, into the block there."""

from __future__ import annotations

from dataclasses import replace

from cqels_opt.compiler.logical_blocks import LogicalOperator, LogicalPlan, join
from cqels_opt.compiler.plan_variables import mentioned
from cqels_opt.compiler.rules.context import Context
from cqels_opt.compiler.rules.outer_joins import can_stay_above
from cqels_opt.operators import compiled_query as p


def join_below_outer_join(plan: LogicalOperator, context: Context) -> LogicalPlan | None:
    """Joins with the left side of an OPTIONAL or MINUS where that gives the same rows.

    ::

        before: (join (leftjoin (block (window w (?a :p ?b))) (block (window v (?a :q ?c)))) (block (?b :r ?d)))
        after:  (leftjoin (join (block (window w (?a :p ?b))) (block (?b :r ?d))) (block (window v (?a :q ?c))))
    """
    match plan:
        case LogicalOperator(p.JoinNode(), [left, right]):
            if can_stay_above(left, mentioned(right)):
                return replace(left, inputs=[context.rewrite(join(left.inputs[0], right)), *left.inputs[1:]])
            if can_stay_above(right, mentioned(left)):
                return replace(right, inputs=[context.rewrite(join(left, right.inputs[0])), *right.inputs[1:]])
    return None
