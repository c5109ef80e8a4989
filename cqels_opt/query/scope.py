"""What an expression reads: its variables, and whether its value depends on the instant."""

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
    """The names of the variables that an expression reads, those of EXISTS patterns included (not what a sub-select hides)."""
    found: set[str] = set()
    for part in _parts(expression):
        if isinstance(part, Variable):
            found.add(part.name)
        elif isinstance(part, Exists):
            found |= visible(part.pattern)
    return frozenset(found)


def uses_now(expression: Expression) -> bool:
    """Whether the value can differ from instant to instant for the same row: NOW(), RAND(), UUID() or STRUUID() occur."""
    return any(
        _pattern_uses_now(part.pattern) if isinstance(part, Exists) else part.function in INSTANT_DEPENDENT
        for part in _parts(expression)
        if isinstance(part, (Call, Exists))
    )


def seeded(expression: Expression) -> bool:
    """Whether a function is called that hangs on all that a row binds: what calls it stays where it was written."""
    return any(isinstance(part, Call) and part.function in SEEDED for part in _parts(expression))


def _parts(expression: Expression) -> Iterator[Expression]:
    """The expression and all within it, EXISTS unopened; without recursion, for chains of operators may be long."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, Call):
            waiting.extend(part.arguments)


def operands(condition: Expression, operator: str) -> list[Expression]:
    """What an operator joins, from left to right, however it is nested: of ``&&`` what each row must pass. Without recursion, as above."""
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
    """The variables of a pattern that a mapping from outside can bind: all but those hidden in a sub-select, and blank nodes."""
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
    """The patterns that a pattern is made of, left before right; what stands within EXISTS is none of them."""
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
