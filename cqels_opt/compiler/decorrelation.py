"""Which patterns of EXISTS can be evaluated independently of the outside rows, and joined with them at the end (SPARQL 1.1 §18.6).

By definition, the values of an outside row are substituted into each leaf of the pattern. For joins and unions, joining the pattern's rows
with the outside row at the end gives the same result. For other operators it does if they read outside variables only where their left
side, or input, binds these on every row.
"""

from __future__ import annotations

from collections.abc import Set

from cqels_opt.compiler.variable_usage import exists_in
from cqels_opt.query import algebra as a
from cqels_opt.query.graphs import certain
from cqels_opt.query.scope import variables as read_by
from cqels_opt.query.visible import visible


def separable(pattern: a.Algebra, outside: Set[str]) -> bool:
    """Whether the pattern can be evaluated before it is joined with rows that bind the variables ``outside``."""
    match pattern:
        case a.Bgp() | a.Closure() | a.Values() | a.Service():
            return True
        case a.Join(left, right) | a.Union(left, right):
            return separable(left, outside) and separable(right, outside)
        case a.Filter(inner, condition):
            return separable(inner, outside) and _known(condition, inner, outside)
        case a.Extend(inner, _, expression):
            return separable(inner, outside) and _known(expression, inner, outside)
        case a.Minus(left, right):
            return separable(left, outside) and separable(right, outside) and _names(right) & outside <= _certain(left)
        case a.LeftJoin(left, right, condition):
            if not separable(left, outside) or not separable(right, outside) or not _names(right) & outside <= _certain(left):
                return False
            return condition is None or _known(condition, a.Join(left, right), outside)
        case a.Project(inner, variables):
            return separable(inner, outside & {v.name for v in variables})
        case a.Distinct(inner) | a.OrderBy(inner, _):
            return separable(inner, outside)
        case a.Group(inner, keys, aggregates):
            inside = outside & _names(inner)
            arguments = [spec.argument for _, spec in aggregates if spec.argument is not None]
            known = all(_known(argument, inner, outside) for argument in arguments)
            return known and inside <= {v.name for v in keys} & _certain(inner) and separable(inner, outside)
        case a.Slice(inner):
            return not outside & _names(inner) and separable(inner, outside)


def _known(expression: a.Expression, inner: a.Algebra, outside: Set[str]) -> bool:
    """Whether the input binds, on every row, each outside variable that the expression reads."""
    return exists_in(expression) is None and read_by(expression) & outside <= _certain(inner)


def _names(pattern: a.Algebra) -> set[str]:
    return {v.name for v in visible(pattern)}


def _certain(pattern: a.Algebra) -> set[str]:
    return {v.name for v in certain(pattern)}


def open_filters(pattern: a.Algebra) -> tuple[a.Algebra, list[a.Expression]]:
    """A pattern without the filters at its top, and their conditions."""
    conditions: list[a.Expression] = []
    while isinstance(pattern, a.Filter):
        conditions.append(pattern.condition)
        pattern = pattern.input
    return pattern, conditions
