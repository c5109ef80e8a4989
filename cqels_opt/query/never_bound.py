"""Finds likely mistakes in valid queries: variables that nothing binds, conditions that are never true or join nothing, and odd window
clauses."""

from __future__ import annotations

import difflib
from collections.abc import Collection

from cqels_opt.query.algebra import Distinct, OrderBy, Project, Query, Slice
from cqels_opt.query.never_true import never_true
from cqels_opt.query.not_joined import not_joined
from cqels_opt.query.reading import line_and_column
from cqels_opt.query.visible import nameable, visible

_NEAR = 0.75
"""The least similarity of two names (of 1) at which one is probably the other, misspelt."""


def meant(name: str, bound: Collection[str], selected: Collection[str]) -> str | None:
    """The bound variable that a name probably means; None if there is none, or if SELECT has it as well.

    >>> meant("flght", ["flight", "delay"], ["flght", "delay"])
    'flight'
    >>> meant("flight2", ["flight", "delay"], ["flight", "flight2"])
    """
    lower = {other.lower(): other for other in bound}
    near = difflib.get_close_matches(name.lower(), lower, 1, _NEAR)
    return lower[near[0]] if near and lower[near[0]] not in selected else None


def likely_mistakes(query: Query) -> tuple[str, ...]:
    """One sentence per likely mistake, for a warning."""
    return (*odd_windows(query), *never_true(query), *not_joined(query), *never_bound(query))


def odd_windows(query: Query) -> tuple[str, ...]:
    """One sentence per window clause in a form that its language does not define: how it was read."""
    found = []
    for clause in query.clauses:
        if clause.note:
            line, column = line_and_column(query.text, clause.start)
            found.append(f"line {line}, column {column}: {clause.note}")
    return tuple(found)


def never_bound(query: Query) -> tuple[str, ...]:
    """One sentence per variable of the outermost SELECT that nothing in the query binds. SPARQL allows it: the column is empty."""
    body = query.body
    while isinstance(body, Slice | Distinct | OrderBy):
        body = body.input
    if query.form is not None or not isinstance(body, Project):
        return ()
    bound = visible(body.input)
    named = ", ".join(map(str, nameable(bound))) or "no variable"
    return tuple(
        f"{variable} is in SELECT, and nothing binds it: its column is empty; the query binds {named}"
        for variable in nameable(body.variables)
        if variable not in bound
    )
