"""An OPTIONAL or MINUS with a static right side is part of the block of its left side."""

from __future__ import annotations

from cqels_opt.compiler.logical_blocks import LogicalOperator, LogicalPlan
from cqels_opt.compiler.rules.context import Context
from cqels_opt.compiler.rules.outer_joins import place_unit
from cqels_opt.compiler.rules.timestamps import calls_timestamp
from cqels_opt.operators import compiled_query as p


def static_outer_join(plan: LogicalOperator, context: Context) -> LogicalPlan | None:
    """Makes the static right side a unit of the block, which the optimizer places among the joins (decision 008).

    ::

        before: (leftjoin (block (window w (?a :p ?b))) (block (?b :q ?c)) (> ?c ?a))
        after:  (block (window w (?a :p ?b)) (optional (block (?b :q ?c)) (> ?c ?a)))
    """
    match plan:
        case LogicalOperator(p.LeftJoinNode(_, _, condition), [left, right, *_]):
            if condition is None or not calls_timestamp(condition):
                return place_unit("optional", left, right, condition, context)
        case LogicalOperator(p.MinusNode(_, _, ()), [left, right]):
            return place_unit("anti", left, right, None, context)
    return None
