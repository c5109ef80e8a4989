"""Finds conditions ``?a = ?b`` that compare all rows of two patterns, where one variable for both would join them.

SPARQL compares values: ``"1"^^xsd:integer`` and ``"1.0"^^xsd:decimal`` are equal and are different terms. So a comparison is no join, and
each row of one pattern meets each row of the other. A subject is no literal, so there the two mean the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from cqels_opt.query.algebra import Algebra, Bgp, Call, Closure, Expression, Extend, Filter, Join, Query, Variable, graph_in
from cqels_opt.query.scope import operands, parts
from cqels_opt.query.visible import visible


def not_joined(query: Query) -> tuple[str, ...]:
    """One sentence per such condition."""
    sentences = (
        f"{one} and {other} are compared for each pair of matches, because no pattern connects them: write one variable for both"
        for pattern in parts(query.body, lambda part: not isinstance(part, Closure))
        if isinstance(pattern, Filter)
        for one, other in _compared(pattern.condition)
        if _are_apart(one, other, _joined(pattern))
    )
    return tuple(dict.fromkeys(sentences))


def _compared(condition: Expression) -> Iterator[tuple[Variable, Variable]]:
    """The pairs of variables that a condition requires to be equal."""
    for part in operands(condition, "&&"):
        match part:
            case Call("=" | "SAMETERM", (Variable() as one, Variable() as other)):
                yield one, other


def _joined(pattern: Filter) -> list[Algebra]:
    """The patterns that are joined below a filter."""
    return [part for part in parts(pattern, _is_join) if not _is_join(part)]


def _is_join(pattern: Algebra) -> bool:
    return isinstance(pattern, Filter | Join | Extend)


def _are_apart(one: Variable, other: Variable, joined: list[Algebra]) -> bool:
    """Whether triples bind both variables, one of them as a subject, and no variables connect them."""
    triples = [triple for part in joined if isinstance(part, Bgp) for triple in part.patterns]
    if not {one, other} & {triple.s for triple in triples} or not all(
        any(variable in triple.variables for triple in triples) for variable in (one, other)
    ):
        return False
    # a graph's variable connects all triples of its pattern, and any other pattern the variables that it binds
    groups = [{*triple.variables} for triple in triples]
    groups += [{*visible(part)} for part in joined if not isinstance(part, Bgp) or isinstance(graph_in(part.source), Variable)]
    reached, grows = {one}, True
    while grows:
        more = {v for group in groups if reached & group for v in group}
        reached, grows = reached | more, not more <= reached
    return other not in reached
