"""When an OPTIONAL, MINUS or EXISTS may change places with another operator, or become a unit of a block."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TypeGuard

from cqels_opt.compiler.logical_blocks import LogicalBlock, LogicalOperator, LogicalPlan, union, with_unit
from cqels_opt.compiler.plan_variables import certain, mentioned
from cqels_opt.compiler.rules.context import Context
from cqels_opt.compiler.rules.late_binds import split_late_binds, with_binds
from cqels_opt.operators import compiled_query as p
from cqels_opt.plans import JoinKind
from cqels_opt.query import algebra as a
from cqels_opt.query.scope import operands, seeded
from cqels_opt.query.scope import variables as read_by


def can_stay_above(plan: LogicalPlan, names: Collection[str]) -> TypeGuard[LogicalOperator]:
    """Whether an operator that names these variables may move below the OPTIONAL or MINUS at the top of a plan, to its left side.

    ``(L ⟕ M) ⋈ B = (L ⋈ B) ⟕ M`` where B shares with M and its condition only variables that L binds on every row: then B does not read
    what M adds, nor change what M matches. The same holds for a filter instead of B, and for MINUS.
    """
    if not isinstance(plan, LogicalOperator) or not isinstance(plan.node, p.LeftJoinNode | p.MinusNode):
        return False
    left, right, *_ = plan.inputs
    condition = plan.node.condition if isinstance(plan.node, p.LeftJoinNode) else None
    if condition is not None and seeded(condition):
        return False
    return set(names) & (mentioned(right) | plan.node.own_variables) <= certain(left)


def place_unit(
    kind: JoinKind, left: LogicalPlan, right: LogicalPlan, condition: a.Expression | None, context: Context
) -> LogicalPlan | None:
    """The left side with the static right side as a unit of its block, or of the block of each UNION branch; None where that is invalid.

    The block may lie below BINDs, OPTIONALs and MINUSes that do not depend on the unit.
    """
    if context.in_static or not isinstance(right, LogicalBlock):
        return None
    if isinstance(left, LogicalOperator) and isinstance(left.node, p.UnionNode):
        parts = [place_unit(kind, branch, right, condition, context) for branch in left.inputs]
        return union(part for part in parts if part is not None) if None not in parts else None
    read = set(read_by(condition)) if condition is not None else set[str]()
    if can_stay_above(left, mentioned(right) | read):
        below = place_unit(kind, left.inputs[0], right, condition, context)
        return None if below is None else replace(left, inputs=[below, *left.inputs[1:]])
    base, binds = split_late_binds(left, right)
    if not isinstance(base, LogicalBlock) or context.has_static_rows(base) or {v for v, _ in binds} & read:
        return None
    found = with_unit(base, kind, right, [] if condition is None else operands(condition, "&&"))
    return None if found is None else with_binds(found, binds)
