"""The variables that an expression reads, and whether its value depends on the instant."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cqels_opt.query import algebra as a
from cqels_opt.query.functions import INSTANT_DEPENDENT, SEEDED


def variables(expression: a.Expression) -> frozenset[str]:
    """The names of the variables that an expression reads, including those of EXISTS patterns that no sub-select hides."""
    found: set[str] = set()
    for part in _parts(expression):
        if isinstance(part, a.Variable):
            found.add(part.name)
        elif isinstance(part, a.Exists):
            found |= _substitutable(part.pattern)
    return frozenset(found)


def uses_now(expression: a.Expression) -> bool:
    """Whether the value for a row can change between instants: the expression calls NOW(), RAND(), UUID() or STRUUID()."""
    return any(
        _pattern_uses_now(part.pattern) if isinstance(part, a.Exists) else part.function in INSTANT_DEPENDENT
        for part in _parts(expression)
        if isinstance(part, (a.Call, a.Exists))
    )


def seeded(expression: a.Expression) -> bool:
    """Whether the expression calls a function that depends on all bindings of a row; such an expression must not be moved."""
    return any(isinstance(part, a.Call) and part.function in SEEDED for part in _parts(expression))


def _parts(expression: a.Expression) -> Iterator[a.Expression]:
    """The expression and all its parts, without those inside EXISTS; no recursion, because chains of operators may be long."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, a.Call):
            waiting.extend(part.arguments)


def operands(condition: a.Expression, operator: str) -> list[a.Expression]:
    """The operands of an operator from left to right, however nested; for ``&&``, the conjuncts. Without recursion, as above."""
    found, waiting = list[a.Expression](), [condition]
    while waiting:
        part = waiting.pop()
        if isinstance(part, a.Call) and part.function == operator:
            waiting.extend(reversed(part.arguments))
        else:
            found.append(part)
    return found


def parts(pattern: a.Algebra, enters: Callable[[a.Algebra], bool]) -> Iterator[a.Algebra]:
    """A pattern and those inside it, of the ones that a function ``enters``. Without recursion, as above."""
    waiting = [pattern]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(reversed(inputs(part)) if enters(part) else ())


def _pattern_uses_now(pattern: a.Algebra) -> bool:
    return any(map(uses_now, _expressions(pattern))) or any(map(_pattern_uses_now, inputs(pattern)))


def _substitutable(pattern: a.Algebra) -> frozenset[str]:
    """The variables of a pattern that an outer mapping can bind: all except blank nodes and those hidden in a sub-select."""
    if isinstance(pattern, a.Project):
        return frozenset(v.name for v in pattern.variables)
    own: set[str] = set()
    if isinstance(pattern, a.Group):
        return frozenset(v.name for v in (*pattern.keys, *(v for v, _ in pattern.aggregates)))
    if isinstance(pattern, a.Bgp):
        graph = a.graph_in(pattern.source)
        inside = [variable for t in pattern.patterns for variable in t.variables]
        own = {v.name for v in (*inside, *a.variables_in(*(() if graph is None else (graph,)))) if not v.name.startswith("_:")}
    elif isinstance(pattern, a.Closure):
        return frozenset(v.name for v in pattern.ends if not v.name.startswith("_:"))
    elif isinstance(pattern, a.Values):
        own = {v.name for v in pattern.variables}
    elif isinstance(pattern, a.Extend):
        own = {pattern.variable.name}
    for expression in _expressions(pattern):
        own |= variables(expression)
    return frozenset(own.union(*map(_substitutable, inputs(pattern))))


def inputs(pattern: a.Algebra) -> tuple[a.Algebra, ...]:
    """The input patterns of a pattern, left before right, without those inside EXISTS."""
    if isinstance(pattern, (a.Bgp, a.Values)):
        return ()
    if isinstance(pattern, a.Closure):
        return (pattern.step,)
    if isinstance(pattern, (a.Join, a.LeftJoin, a.Union, a.Minus)):
        return (pattern.left, pattern.right)
    return (pattern.input,)


def _expressions(pattern: a.Algebra) -> Iterator[a.Expression]:
    if isinstance(pattern, (a.Filter, a.LeftJoin)) and pattern.condition is not None:
        yield pattern.condition
    elif isinstance(pattern, a.Extend):
        yield pattern.expression
    elif isinstance(pattern, a.OrderBy):
        yield from (expression for expression, _ in pattern.keys)
    elif isinstance(pattern, a.Group):
        for _, aggregate in pattern.aggregates:
            if aggregate.argument is not None:
                yield aggregate.argument
