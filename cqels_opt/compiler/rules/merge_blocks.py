"""Inner joins of blocks are one block, which plans join in any order."""

from __future__ import annotations

from cqels_opt.compiler.logical_blocks import LogicalBlock, LogicalOperator, LogicalPlan
from cqels_opt.compiler.rules.context import Context
from cqels_opt.operators import compiled_query as p


def merge_blocks(plan: LogicalOperator, context: Context) -> LogicalPlan | None:
    """Joins two blocks into one, unless one of them binds a variable that a unit of the other may leave unbound.

    ::

        before: (join (block (window w (?a :p ?b)) (filter (> ?b 1))) (block (?b :q ?c)))
        after:  (block (window w (?a :p ?b)) (?b :q ?c) (filter (> ?b 1)))
    """
    match plan:
        case LogicalOperator(p.JoinNode(), [LogicalBlock() as left, LogicalBlock() as right]):
            if (left.variables - left.certain) & right.variables or (right.variables - right.certain) & left.variables:
                return None
            return LogicalBlock(
                [*left.patterns, *right.patterns],
                [*left.statics, *right.statics],
                [*left.filters, *right.filters],
                [*left.units, *right.units],
            )
    return None
