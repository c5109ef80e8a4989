"""A filter above an OPTIONAL or MINUS moves to its left side."""

from __future__ import annotations

from dataclasses import replace

from cqels_opt.compiler.logical_blocks import LogicalOperator, LogicalPlan, filtered
from cqels_opt.compiler.rules.context import Context
from cqels_opt.compiler.rules.outer_joins import can_stay_above
from cqels_opt.compiler.variable_usage import exists_in
from cqels_opt.operators import compiled_query as p
from cqels_opt.query.scope import seeded, uses_now
from cqels_opt.query.scope import variables as read_by


def filter_below_outer_join(plan: LogicalOperator, context: Context) -> LogicalPlan | None:
    """Filters the left side of an OPTIONAL or MINUS by a condition that reads only what this side binds.

    ::

        before: (filter (> ?b 1) (leftjoin (block (window w (?a :p ?b))) (block (window v (?a :q ?c)))))
        after:  (leftjoin (filter (> ?b 1) (block (window w (?a :p ?b)))) (block (window v (?a :q ?c))))
    """
    match plan:
        case LogicalOperator(p.FilterNode(_, condition), [outer]):
            if exists_in(condition) or uses_now(condition) or seeded(condition):
                return None
            if can_stay_above(outer, read_by(condition)):
                return replace(outer, inputs=[context.rewrite(filtered(outer.inputs[0], condition)), *outer.inputs[1:]])
    return None
