"""Which patterns of EXISTS can be evaluated by themselves, and joined with the outside only then (SPARQL 1.1 §18.6, substitute).

The outside's values reach every leaf of a pattern. That a pattern joined with them at the end has the same rows holds of joins and
unions, and of other operators as long as no variable of the outside acts within them but through what their left side, or input, surely
binds.
"""

from __future__ import annotations

from collections.abc import Set

from cqels_opt.compiler.variable_usage import exists_in
from cqels_opt.query import algebra as a
from cqels_opt.query.graphs import certain
from cqels_opt.query.scope import variables as read_by
from cqels_opt.query.visible import visible


def separable(pattern: a.Algebra, outside: Set[str]) -> bool:
    """Whether it makes no difference that the variables of the outside are only looked at in the end."""
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
    """Whether an expression reads of the outside only what its input binds on every row."""
    return exists_in(expression) is None and read_by(expression) & outside <= _certain(inner)


def _names(pattern: a.Algebra) -> set[str]:
    return {v.name for v in visible(pattern)}


def _certain(pattern: a.Algebra) -> set[str]:
    return {v.name for v in certain(pattern)}
