"""The variables that an expression reads, and whether its value depends on the instant."""

from __future__ import annotations

from collections.abc import Iterator

from cqels_opt.query.algebra import (
    Algebra,
    Bgp,
    Call,
    Closure,
    Exists,
    Expression,
    Extend,
    Filter,
    Group,
    Join,
    LeftJoin,
    Minus,
    OrderBy,
    Project,
    Union,
    Values,
    Variable,
    graph_in,
    variables_in,
)
from cqels_opt.query.functions import INSTANT_DEPENDENT, SEEDED


def variables(expression: Expression) -> frozenset[str]:
    """The names of the variables that an expression reads, including those of EXISTS patterns that no sub-select hides."""
    found: set[str] = set()
    for part in _parts(expression):
        if isinstance(part, Variable):
            found.add(part.name)
        elif isinstance(part, Exists):
            found |= visible(part.pattern)
    return frozenset(found)


def uses_now(expression: Expression) -> bool:
    """Whether the value for a row can change between instants: the expression calls NOW(), RAND(), UUID() or STRUUID()."""
    return any(
        _pattern_uses_now(part.pattern) if isinstance(part, Exists) else part.function in INSTANT_DEPENDENT
        for part in _parts(expression)
        if isinstance(part, (Call, Exists))
    )


def seeded(expression: Expression) -> bool:
    """Whether the expression calls a function that depends on all bindings of a row; such an expression must not be moved."""
    return any(isinstance(part, Call) and part.function in SEEDED for part in _parts(expression))


def _parts(expression: Expression) -> Iterator[Expression]:
    """The expression and all its parts, without those inside EXISTS; no recursion, because chains of operators may be long."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, Call):
            waiting.extend(part.arguments)


def operands(condition: Expression, operator: str) -> list[Expression]:
    """The operands of an operator from left to right, however nested; for ``&&``, the conjuncts. Without recursion, as above."""
    found, waiting = list[Expression](), [condition]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Call) and part.function == operator:
            waiting.extend(reversed(part.arguments))
        else:
            found.append(part)
    return found


def _pattern_uses_now(pattern: Algebra) -> bool:
    return any(map(uses_now, _expressions(pattern))) or any(map(_pattern_uses_now, inputs(pattern)))


def visible(pattern: Algebra) -> frozenset[str]:
    """The variables of a pattern that an outer mapping can bind: all except blank nodes and those hidden in a sub-select."""
    if isinstance(pattern, Project):
        return frozenset(v.name for v in pattern.variables)
    own: set[str] = set()
    if isinstance(pattern, Group):
        return frozenset(v.name for v in (*pattern.keys, *(v for v, _ in pattern.aggregates)))
    if isinstance(pattern, Bgp):
        graph = graph_in(pattern.source)
        inside = [variable for t in pattern.patterns for variable in t.variables]
        own = {v.name for v in (*inside, *variables_in(*(() if graph is None else (graph,)))) if not v.name.startswith("_:")}
    elif isinstance(pattern, Closure):
        return frozenset(v.name for v in pattern.ends if not v.name.startswith("_:"))
    elif isinstance(pattern, Values):
        own = {v.name for v in pattern.variables}
    elif isinstance(pattern, Extend):
        own = {pattern.variable.name}
    for expression in _expressions(pattern):
        own |= variables(expression)
    return frozenset(own.union(*map(visible, inputs(pattern))))


def inputs(pattern: Algebra) -> tuple[Algebra, ...]:
    """The input patterns of a pattern, left before right, without those inside EXISTS."""
    if isinstance(pattern, (Bgp, Values)):
        return ()
    if isinstance(pattern, Closure):
        return (pattern.step,)
    if isinstance(pattern, (Join, LeftJoin, Union, Minus)):
        return (pattern.left, pattern.right)
    return (pattern.input,)


def _expressions(pattern: Algebra) -> Iterator[Expression]:
    if isinstance(pattern, (Filter, LeftJoin)) and pattern.condition is not None:
        yield pattern.condition
    elif isinstance(pattern, Extend):
        yield pattern.expression
    elif isinstance(pattern, OrderBy):
        yield from (expression for expression, _ in pattern.keys)
    elif isinstance(pattern, Group):
        for _, aggregate in pattern.aggregates:
            if aggregate.argument is not None:
                yield aggregate.argument
