"""A query without its constants: queries with the same outline differ only in constants (CQELS report §6.2, its Q1' to Q4').

Replaced are subjects and objects of triple patterns and constants in FILTER and BIND. All other constants (predicates, graphs,
windows, LIMIT) belong to the outline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from cqels_opt.query import algebra as a
from cqels_opt.query.functions import SEEDED

HOLE = ".hole"
"""The prefix of the variables that replace constants."""


@dataclass(frozen=True, slots=True)
class Outline:
    """A query whose constants are replaced by holes, numbered in query order; ``values`` are the constants."""

    query: a.Query
    values: tuple[a.Term, ...] = field(compare=False)


def outline(query: a.Query) -> Outline | None:
    """The outline of a query; None for a query that cannot share a template.

    Those are CONSTRUCT, ASK and DESCRIBE, and queries that call RAND() and the like (their values depend on the text) or
    C-SPARQL's timestamp(), whose arguments are patterns. The name that a SELECT registers is ignored: a SELECT produces no
    stream.
    """
    if query.form is not None or _calls(query.body, SEEDED | {a.TIMESTAMP}):
        return None
    found = _Constants(lambda term: a.Variable(f"{HOLE}{len(values)}"))
    values = found.values
    body = found.algebra(query.body)
    return Outline(replace(query, text="", clauses=(), base=None, output=None, file="", body=body), tuple(values))


def filled(query: a.Query, nodes: Sequence[a.Name]) -> a.Algebra:
    """The body of an outline with these terms or variables in its holes."""
    return _Constants(lambda hole: nodes[int(hole.removeprefix(HOLE))], holes=True).algebra(query.body)


class _Constants:
    """Replaces the constants, or the holes, of an algebra tree."""

    def __init__(self, put: Callable[[str], a.Name], holes: bool = False) -> None:
        self._put, self._holes = put, holes
        self.values: list[a.Term] = []

    def node(self, node: a.Node) -> a.Node:
        """A subject or object. Triple terms with variables stay unchanged."""
        return node if isinstance(node, a.TripleTerm) else self._name(node)

    def _name(self, node: a.Name) -> a.Name:
        if isinstance(node, a.Variable):
            return self._put(node.name) if self._holes and node.name.startswith(HOLE) else node
        return node if self._holes else self._taken(node)

    def _taken(self, term: a.Term) -> a.Name:
        found = self._put(term)
        self.values.append(term)
        return found

    def expression(self, expression: a.Expression) -> a.Expression:
        """An expression."""
        match expression:
            case a.Constant(term) if not self._holes:
                found = self._taken(term)
                assert isinstance(found, a.Variable)
                return found
            case a.Variable():
                node = self._name(expression)
                return node if isinstance(node, a.Variable) else a.Constant(node)
            case a.Call(function, arguments):
                return a.Call(function, tuple(map(self.expression, arguments)))
            case a.Exists(pattern):
                return replace(expression, pattern=self.algebra(pattern), place=0)
        return expression

    def algebra(self, node: a.Algebra) -> a.Algebra:
        """A pattern. Paths and inline data stay unchanged."""
        match node:
            case a.Bgp(patterns, source):
                return a.Bgp(tuple(a.TriplePattern(self.node(t.s), t.p, self.node(t.o)) for t in patterns), source)
            case a.Join(left, right) | a.Union(left, right) | a.Minus(left, right):
                return replace(node, left=self.algebra(left), right=self.algebra(right))
            case a.LeftJoin(left, right, condition):
                one, other = self.algebra(left), self.algebra(right)
                return a.LeftJoin(one, other, None if condition is None else self.expression(condition))
            case a.Filter(inner, condition):
                return a.Filter(self.algebra(inner), self.expression(condition))
            case a.Extend(inner, variable, expression):
                return a.Extend(self.algebra(inner), variable, self.expression(expression))
            case a.Group() | a.Project() | a.Distinct() | a.OrderBy() | a.Slice():
                return replace(node, input=self.algebra(node.input))
        return node


def _calls(node: object, functions: frozenset[str]) -> bool:
    """Whether a node contains a call of one of the functions."""
    if isinstance(node, a.Call) and node.function in functions:
        return True
    if isinstance(node, tuple):
        return any(_calls(part, functions) for part in node)
    fields = getattr(type(node), "__dataclass_fields__", ())
    return any(_calls(getattr(node, name), functions) for name in fields)
