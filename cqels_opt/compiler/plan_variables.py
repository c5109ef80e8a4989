"""The variables of a logical plan: those that it names, and those that it binds on every row."""

from __future__ import annotations

from cqels_opt.compiler.logical_blocks import LogicalBlock, LogicalOperator, LogicalPlan
from cqels_opt.operators import compiled_query as p
from cqels_opt.query.scope import variables as read_by


def mentioned(plan: LogicalPlan) -> set[str]:
    """All variables that occur anywhere in a plan."""
    match plan:
        case LogicalBlock():
            found = [*plan.filters, *(unit.condition for unit in plan.units if unit.condition is not None)]
            return plan.variables.union(*map(read_by, found), *(unit.right.variables for unit in plan.units))
        case LogicalOperator(node, inputs):
            return set(node.own_variables).union(*map(mentioned, inputs))
        case p.ValuesNode(variables, _):
            return set(variables)
        case p.StaticNode(static):
            return set(static.variables)
    return set()


def certain(plan: LogicalPlan) -> set[str]:
    """The variables that a plan binds on every row."""
    match plan:
        case LogicalBlock():
            return plan.certain
        case LogicalOperator(p.ClosureNode() as closure):
            return set(closure.variables)
        case LogicalOperator(p.JoinNode(), inputs):
            return set().union(*map(certain, inputs))
        case LogicalOperator(p.UnionNode(), inputs) if inputs:
            return set.intersection(*map(certain, inputs))
        case LogicalOperator(
            p.ExtendNode()
            | p.FilterNode()
            | p.LeftJoinNode()
            | p.MinusNode()
            | p.ExistsNode()
            | p.DistinctNode()
            | p.OrderNode(),
            inputs,
        ):
            return certain(inputs[0])
        case LogicalOperator(p.ProjectNode(_, variables), inputs):
            return certain(inputs[0]) & set(variables)
    return set()
