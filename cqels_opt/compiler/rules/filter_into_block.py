"""A filter over a block is part of the block, which evaluates it as soon as its variables are bound."""

from __future__ import annotations

from dataclasses import replace

from cqels_opt.compiler.logical_blocks import LogicalBlock, LogicalOperator, LogicalPlan
from cqels_opt.compiler.rules.context import Context
from cqels_opt.compiler.variable_usage import exists_in
from cqels_opt.operators import compiled_query as p
from cqels_opt.query.scope import uses_now
from cqels_opt.query.scope import variables as read_by


def filter_into_block(plan: LogicalOperator, context: Context) -> LogicalPlan | None:
    """Moves a filter into the block below it, where the block binds all its variables.

    ::

        before: (filter (> ?a ?b) (block (window w (?a :p ?b))))
        after:  (block (window w (?a :p ?b)) (filter (> ?a ?b)))
    """
    match plan:
        case LogicalOperator(p.FilterNode(_, condition), [LogicalBlock() as block]):
            if not exists_in(condition) and not uses_now(condition) and read_by(condition) <= block.variables:
                return replace(block, filters=[*block.filters, condition])
    return None
