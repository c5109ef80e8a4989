"""Finds conditions that can never be true because nothing in their group binds a variable that they read.

A FILTER reads what its own group binds (SPARQL 1.1 §5.2.2, §18.2.2); HAVING reads keys and aggregates, but no name that SELECT
assigns. A condition that reads another variable is valid but an error for every row, so the query would never return an answer,
without a message.
"""

from __future__ import annotations

from cqels_opt.query.algebra import Aggregate, Call, Closure, Expression, Filter, Group, LeftJoin, Query, Variable
from cqels_opt.query.printing.formulas import Bare, expression
from cqels_opt.query.scope import inputs, operands, parts
from cqels_opt.query.visible import visible

_LENIENT = ("BOUND", "COALESCE", "||")
"""Functions that may have a value although a variable in them is unbound; an outermost ``||`` is checked operand by operand."""

_FIRST = ("IF", "IN", "NOT IN")
"""Functions that are an error without their first argument; the first argument decides whether they read the others."""


def never_true(query: Query) -> tuple[str, ...]:
    """One sentence per such condition in a query's body. Conditions inside EXISTS are skipped: they also read outer bindings."""
    aggregates = dict[str, Aggregate]()
    found = []
    for pattern in parts(query.body, lambda part: not isinstance(part, Closure)):
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


def _needed(condition: Expression) -> set[Variable]:
    """The variables without which the condition is never true: those that each of its alternatives needs."""
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
