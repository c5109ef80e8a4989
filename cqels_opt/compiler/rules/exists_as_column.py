"""EXISTS and timestamp() in an expression become columns of the operator's input, which the expression then reads."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from cqels_opt.compiler.decorrelation import open_filters, separable
from cqels_opt.compiler.logical_blocks import HOLE, LogicalOperator, LogicalPlan
from cqels_opt.compiler.plan_variables import mentioned
from cqels_opt.compiler.rules.context import Context
from cqels_opt.compiler.rules.timestamps import calls_timestamp, times_of
from cqels_opt.compiler.variable_usage import conjunction, exists_in
from cqels_opt.operators import compiled_query as p
from cqels_opt.operators.rows import HIDDEN
from cqels_opt.query import algebra as a
from cqels_opt.query.scope import variables as read_by


def exists_as_column(plan: LogicalOperator, context: Context) -> LogicalPlan | None:
    """Evaluates each EXISTS below the operator that reads it; of an OPTIONAL's condition, on the joined rows.

    ::

        before: (filter (|| (notexists (bgp (?b :q ?c))) (> ?a 1)) (block (window w (?a :p ?b))))
        after:  (filter (|| (! ?#exists0) (> ?a 1)) (exists ?#exists0 (block (window w (?a :p ?b))) (block (?b :q ?c))))
    """
    match plan:
        case LogicalOperator(p.FilterNode(_, condition), [below]) if _has_tests(condition):
            below, condition = _as_columns(below, condition, context)
            return LogicalOperator(p.FilterNode(HOLE, condition), [below])
        case LogicalOperator(p.ExtendNode(_, variable, expression), [below]) if _has_tests(expression):
            below, expression = _as_columns(below, expression, context)
            return LogicalOperator(p.ExtendNode(HOLE, variable, expression), [below])
        case LogicalOperator(p.LeftJoinNode(_, _, a.Call() | a.Exists() as condition), [left, right]) if _has_tests(condition):
            return _tests_of_joined_rows(left, right, condition, context)
        case LogicalOperator(p.GroupNode() as group, [below]):
            aggregates = []
            for name, spec in group.aggregates:
                if spec.argument is not None:
                    below, argument = _as_columns(below, spec.argument, context)
                    spec = replace(spec, argument=argument)
                aggregates.append((name, spec))
            return LogicalOperator(replace(group, aggregates=tuple(aggregates)), [below])
        case LogicalOperator(p.OrderNode() as order, [below]):
            keys = []
            for expression, descending in order.keys:
                below, expression = _as_columns(below, expression, context)
                keys.append((expression, descending))
            return LogicalOperator(replace(order, keys=tuple(keys)), [below])
    return None


def _has_tests(expression: a.Expression) -> bool:
    return exists_in(expression) is not None or calls_timestamp(expression)


def _as_columns(below: LogicalPlan, expression: a.Expression, context: Context) -> tuple[LogicalPlan, a.Expression]:
    """The input with one more column per EXISTS and timestamp() of an expression, and the expression that reads these columns."""
    match expression:
        case a.Call(a.TIMESTAMP, arguments):
            stamp, times = times_of(arguments, context)
            return LogicalOperator(stamp, [below, times]), a.Variable(stamp.flag)
        case a.Exists():
            outside, flag = mentioned(below) | context.outside, _new_flag(context)
            test, pattern = _test(expression, outside, context)
            return LogicalOperator(replace(test, flag=flag), [below, pattern]), _flag_read(expression, flag)
        case a.Call(_, arguments):
            read = []
            for argument in arguments:
                below, argument = _as_columns(below, argument, context)
                read.append(argument)
            return below, replace(expression, arguments=tuple(read))
    return below, expression


def _tests_of_joined_rows(left: LogicalPlan, right: LogicalPlan, condition: a.Expression, context: Context) -> LogicalOperator:
    """OPTIONAL whose operator evaluates each EXISTS and timestamp() of its condition on the joined rows."""
    tests: list[tuple[p.ExistsNode, LogicalPlan]] = []
    outside = mentioned(left) | mentioned(right) | context.outside

    def flagged(expression: a.Expression) -> a.Expression:
        match expression:
            case a.Call(a.TIMESTAMP, arguments):
                stamp, times = times_of(arguments, context)
                tests.append((stamp, times))
                return a.Variable(stamp.flag)
            case a.Exists():
                test, pattern = _test(expression, outside, context, per_row=True)
                flag = _new_flag(context)
                tests.append((replace(test, flag=flag), pattern))
                return _flag_read(expression, flag)
            case a.Call(_, arguments):
                return replace(expression, arguments=tuple(map(flagged, arguments)))
        return expression

    condition = flagged(condition)
    node = p.LeftJoinNode(HOLE, HOLE, condition, tuple(test for test, _ in tests))
    return LogicalOperator(node, [left, right, *(pattern for _, pattern in tests)])


def _new_flag(context: Context) -> str:
    return f"{HIDDEN}exists{context.fresh_number()}"


def _flag_read(test: a.Exists, flag: str) -> a.Expression:
    variable = a.Variable(flag)
    return a.Call("!", (variable,)) if test.negated else variable


def _test(test: a.Exists, outside: Set[str], context: Context, per_row: bool = False) -> tuple[p.ExistsNode, LogicalPlan]:
    """The operator of an EXISTS, without its flag, and the plan of its pattern.

    The pattern is joined with the outside rows where that has the same result; otherwise, or with ``per_row``, it is evaluated per row.
    """
    pattern, conditions = open_filters(test.pattern)
    independent = separable(pattern, outside) and not any(map(_has_tests, conditions))
    if independent and not per_row:
        return p.ExistsNode(HOLE, HOLE, conjunction(conditions), ""), context.plan(pattern)
    return p.ExistsNode(HOLE, HOLE, None, "", tuple(sorted(read_by(test)))), context.plan_per_row(test.pattern, outside)
