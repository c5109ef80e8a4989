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
            return read_by_node(node).union(*map(mentioned, inputs))
        case p.ValuesNode(variables, _):
            return set(variables)
        case p.StaticNode(static):
            return set(static.variables)
    return set()


def read_by_node(node: p.Tree) -> set[str]:
    """The variables that an operator itself names."""
    match node:
        case p.FilterNode(_, condition):
            return set(read_by(condition))
        case p.LeftJoinNode(_, _, condition, tests):
            named = set(read_by(condition)) if condition is not None else set[str]()
            return named.union(*(read_by_node(test) for test in tests))
        case p.StampNode(keys=keys):
            return set(keys)
        case p.ExistsNode(_, _, condition, _, reads):
            return {*(read_by(condition) if condition is not None else ()), *(reads or ())}
        case p.ExtendNode(_, variable, expression):
            return {variable, *read_by(expression)}
        case p.ProjectNode(_, variables) | p.DistinctNode(_, variables):
            return set(variables)
        case p.GroupNode(_, keys, aggregates, _, whole):
            read = (v for _, spec in aggregates if spec.argument is not None for v in read_by(spec.argument))
            return {*keys, *whole, *(name for name, _ in aggregates), *read}
        case p.ClosureNode(here=here, there=there) as closure:
            return {here, there, *closure.variables}
        case p.OrderNode(_, keys, _, _, ties, each):
            return {*ties, *each, *(v for expression, _ in keys for v in read_by(expression))}
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
