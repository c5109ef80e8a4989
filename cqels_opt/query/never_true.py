"""Conditions that can never be true, for nothing in their group binds a variable that they read.

A FILTER sees what its own group binds (SPARQL 1.1 §5.2.2, §18.2.2), HAVING the keys and aggregates and no name that SELECT gives. Such a
condition is valid, and an error for every row: a query that gives no answers for ever, and says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from cqels_opt.query.algebra import Aggregate, Algebra, Call, Closure, Expression, Filter, Group, LeftJoin, Query, Variable
from cqels_opt.query.printing.formulas import Bare, expression
from cqels_opt.query.scope import inputs, operands
from cqels_opt.query.visible import visible

_LENIENT = ("BOUND", "COALESCE", "||")
"""May have a value though a variable within is unbound; of ``||`` that is looked at more closely where it stands outermost."""

_FIRST = ("IF", "IN", "NOT IN")
"""Are errors without their first argument; whether they read the others hangs on it."""


def never_true(query: Query) -> tuple[str, ...]:
    """A sentence for each such condition of a query's body. What stands within EXISTS is not looked at: it sees more."""
    aggregates = dict[str, Aggregate]()
    found = []
    for pattern in _patterns(query.body):
        if isinstance(pattern, Group):
            aggregates |= {variable.name: aggregate for variable, aggregate in pattern.aggregates}
        elif isinstance(pattern, Filter | LeftJoin) and pattern.condition is not None:
            bound = {variable for side in inputs(pattern) for variable in visible(side)}
            found += [(part, _needed(part) - bound) for part in operands(pattern.condition, "&&")]
    names = Bare(lambda name: not name.startswith((".", "_:")), aggregates)
    sentences = [
        f"{expression(names, part)} is never true: nothing in its group binds {', '.join(sorted(f'?{v.name}' for v in missing))}"
        for part, missing in found
        if missing
    ]
    return tuple(dict.fromkeys(sentences))


def _patterns(body: Algebra) -> Iterator[Algebra]:
    waiting = [body]
    while waiting:
        pattern = waiting.pop()
        if not isinstance(pattern, Closure):
            yield pattern
            waiting.extend(reversed(inputs(pattern)))


def _needed(condition: Expression) -> set[Variable]:
    """The variables without which a condition is not true whatever else is bound: in each of its alternatives."""
    return set.intersection(*(_read(part) for part in operands(condition, "||")))


def _read(part: Expression) -> set[Variable]:
    """The variables without which an expression is an error."""
    found, waiting = set[Variable](), [part]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Variable):
            found.add(part)
        elif isinstance(part, Call) and part.function not in _LENIENT:
            waiting.extend(part.arguments[:1] if part.function in _FIRST else part.arguments)
    return found
