"""Queries that differ in constants only, as one query over a relation of their constants (CQELS report §6.2; DESIGN §9).

``SELECT ?l { GRAPH ?w { :ann :at ?l } }`` and the same of ``:bob`` become ``SELECT ?l ?instance { GRAPH ?w { ?p :at ?l }
VALUES (?instance ?p) { (1 :ann) (2 :bob) } }``. The number of the instance goes through every operator as a variable that always agrees:
what is joined is joined within an instance, and groups, DISTINCT and LIMIT are an instance's own. So each has the answers that it has
alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from cqels_opt.query import algebra as a
from cqels_opt.query.graphs import a_group_for_each, certain
from cqels_opt.query.outlines import Outline, filled
from cqels_opt.query.scope import operands
from cqels_opt.rdf.terms import XSD_INTEGER, is_iri, literal

INSTANCE = a.Variable(".instance")
"""The variable of the instance's number."""

_PARAMETER = ".parameter"

Values = tuple[a.Term, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """What queries of one outline have in common: a constant, or the number of a parameter, in each hole."""

    query: a.Query
    holes: tuple[a.Term | int, ...]

    @property
    def parameters(self) -> int:
        """How many constants an instance has of its own."""
        return max((hole for hole in self.holes if isinstance(hole, int)), default=-1) + 1

    def values(self, outline: Outline) -> Values | None:
        """The constants of a query that is an instance; None where it is none: it differs in more."""
        if outline.query != self.query:
            return None
        found: dict[int, a.Term] = {}
        for hole, value in zip(self.holes, outline.values):
            if (hole if isinstance(hole, str) else found.setdefault(hole, value)) != value:
                return None
        return tuple(found[i] for i in range(len(found)))

    def shared(self, instances: Mapping[int, Values]) -> a.Query:
        """One query for all instances, by their numbers; it has :data:`INSTANCE` as one more variable."""
        nodes = [a.Variable(f"{_PARAMETER}{hole}") if isinstance(hole, int) else hole for hole in self.holes]
        body = _Shared(instances).top(filled(self.query, nodes))
        return replace(self.query, body=body, variables=(*self.query.variables, INSTANCE))


def template_of(outlines: Sequence[Outline]) -> Template:
    """The template of queries of one outline. Holes with the same constants in every query are one parameter."""
    holes: list[a.Term | int] = []
    numbers: dict[Values, int] = {}
    for column in zip(*(outline.values for outline in outlines)):
        same = all(value == column[0] for value in column)
        holes.append(column[0] if same else numbers.setdefault(column, len(numbers)))
    return Template(outlines[0].query, tuple(holes))


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the body: ``free`` are parameters that it binds and that nothing has joined with the instances yet.

    ``own``: its rows are each of one instance. A part with neither is the same for all instances.
    """

    node: a.Algebra
    free: frozenset[str] = frozenset()
    own: bool = False

    @property
    def differs(self) -> bool:
        """Whether instances differ in it."""
        return self.own or bool(self.free)


class _Shared:
    """The body with the instances joined in: below each operator that tells rows apart, and as late as that allows."""

    def __init__(self, instances: Mapping[int, Values]) -> None:
        self.instances = instances
        self.numbers = [(number, literal(str(number), XSD_INTEGER)) for number in sorted(instances)]
        self.apart = (INSTANCE, *(self._parameter(i) for i in range(len(next(iter(instances.values()), ())))))
        self._fresh = count()

    def top(self, body: a.Algebra) -> a.Algebra:
        """The query's own body, whose rows must be of one instance each."""
        return self._owned(body).node

    def _owned(self, body: a.Algebra) -> _Part:
        """Operators above the query's pattern are an instance's own, whether or not the pattern differs."""
        match body:
            case a.Project(inner, variables):
                return _Part(a.Project(self._owned(inner).node, (*variables, INSTANCE)), own=True)
            case a.Distinct(inner):
                return _Part(a.Distinct(self._owned(inner).node), own=True)
            case a.OrderBy(inner, keys):
                return _Part(a.OrderBy(self._owned(inner).node, keys), own=True)
            case a.Slice(inner, offset, limit, each):
                return _Part(a.Slice(self._owned(inner).node, offset, limit, (*each, INSTANCE)), own=True)
        return self._closed(self.part(body))

    # -------------------------------------------------------------- the relation
    def _parameter(self, number: int) -> a.Variable:
        return a.Variable(f"{_PARAMETER}{number}")

    def relation(self, columns: Mapping[str, str]) -> a.Values:
        """The instances' numbers and, by the name of a column, the parameter in it."""
        places = [int(parameter.removeprefix(_PARAMETER)) for parameter in columns.values()]
        rows = tuple((text, *(self.instances[number][place] for place in places)) for number, text in self.numbers)
        return a.Values((INSTANCE, *map(a.Variable, columns)), rows)

    def _closed(self, part: _Part, also: Iterable[str] = (), equal: Mapping[str, str] | None = None) -> _Part:
        """The part with its rows an instance's own. ``also``: parameters that are read above; ``equal``: variables that equal some."""
        names = sorted(part.free.union(also))
        if part.own and not names and not equal:
            return part
        relation = self.relation({**{name: name for name in names}, **(equal or {})})
        return _Part(a.Join(part.node, relation), own=True)

    # -------------------------------------------------------------- patterns
    def part(self, node: a.Algebra) -> _Part:
        """A pattern, with the instances joined in where they must be."""
        match node:
            case a.Bgp(patterns):
                nodes = (n for t in patterns for n in (t.s, t.o) if isinstance(n, a.Variable) and _is_parameter(n))
                return _Part(node, frozenset(n.name for n in nodes))
            case a.Join(left, right):
                one, other = self.part(left), self.part(right)
                if one.own or other.own:
                    one, other = (self._closed(x) if x.free else x for x in (one, other))
                return _Part(a.Join(one.node, other.node), one.free | other.free, one.own or other.own)
            case a.Union(left, right):
                one, other = self.part(left), self.part(right)
                if one.differs or other.differs:
                    one, other = self._closed(one), self._closed(other)
                return _Part(a.Union(one.node, other.node), own=one.own)
            case a.LeftJoin(left, right, condition):
                return self._optional(self.part(left), self.part(right), condition)
            case a.Minus(left, right, apart):
                one, other = self.part(left), self.part(right)
                if other.differs:
                    one, other, apart = self._closed(one), self._closed(other), (*apart, *self.apart)
                elif one.free:
                    one = self._closed(one)
                return _Part(a.Minus(one.node, other.node, apart), own=one.own)
            case a.Filter(inner, condition):
                return self._filtered(self.part(inner), condition)
            case a.Extend(inner, variable, expression):
                part, expression = self._seeing(self.part(inner), expression)
                return replace(part, node=a.Extend(part.node, variable, expression))
            case a.Group():
                return self._group(node)
            case a.Project(inner, variables):
                part = self.part(inner)
                if not part.differs:
                    return _Part(node)
                return _Part(a.Project(self._closed(part).node, (*variables, INSTANCE)), own=True)
            case a.Slice(inner, offset, limit, each):
                part = self._own_or_same(inner)
                return _Part(a.Slice(part.node, offset, limit, (*each, INSTANCE) if part.own else each), own=part.own)
            case a.Distinct(inner):
                part = self._own_or_same(inner)
                return _Part(a.Distinct(part.node), own=part.own)
            case a.OrderBy(inner, keys):
                part = self._own_or_same(inner)
                return _Part(a.OrderBy(part.node, keys), own=part.own)
        return _Part(node)

    def _own_or_same(self, node: a.Algebra) -> _Part:
        part = self.part(node)
        return self._closed(part) if part.differs else part

    def _optional(self, one: _Part, other: _Part, condition: a.Expression | None) -> _Part:
        if condition is not None:
            seeing, condition = self._seeing(one, condition)
            one = seeing if seeing.own else one
        if other.differs:
            one, other = self._closed(one), self._closed(other)
        elif one.free:
            one = self._closed(one)
        return _Part(a.LeftJoin(one.node, other.node, condition), own=one.own)

    def _group(self, node: a.Group) -> _Part:
        part = self.part(node.input)
        if not part.differs:
            return _Part(node)
        body = self._closed(part).node
        if node.implicit:
            fresh = (a.Variable(f".of{number}") for number in self._fresh)
            return _Part(a_group_for_each(self.relation({}), (INSTANCE,), body, node.aggregates, lambda: next(fresh)), own=True)
        return _Part(a.Group(body, (*node.keys, INSTANCE), node.aggregates), own=True)

    # -------------------------------------------------------------- expressions
    def _filtered(self, inner: _Part, condition: a.Expression) -> _Part:
        """FILTER. That a variable equals a parameter is a join with the instances."""
        equal: dict[str, str] = {}
        left = []
        for conjunct in operands(condition, "&&"):
            found = self._equality(conjunct, inner)
            if found is not None and found[0] not in equal:
                equal[found[0]] = found[1]
            else:
                left.append(conjunct)
        if equal:
            inner = self._closed(inner, equal=equal)
        for conjunct in left:
            inner, conjunct = self._seeing(inner, conjunct)
            inner = replace(inner, node=a.Filter(inner.node, conjunct))
        return inner

    def _equality(self, condition: a.Expression, inner: _Part) -> tuple[str, str] | None:
        """The variable and the parameter, where the condition says that they are equal, which is to be the same term."""
        match condition:
            case a.Call("=", (a.Variable() as one, a.Variable() as other)):
                variable, parameter = (one, other) if _is_parameter(other) else (other, one)
                if not _is_parameter(parameter) or _is_parameter(variable) or variable not in certain(inner.node):
                    return None
                place = int(parameter.name.removeprefix(_PARAMETER))
                if all(map(_equal_as_terms, {values[place] for values in self.instances.values()})):
                    return variable.name, parameter.name
        return None

    def _seeing(self, inner: _Part, expression: a.Expression) -> tuple[_Part, a.Expression]:
        """The input of an expression with the parameters that it reads, and the number for the patterns of EXISTS that differ."""
        read: set[str] = set()
        differs = False

        def rewritten(part: a.Expression) -> a.Expression:
            nonlocal differs
            match part:
                case a.Variable() if _is_parameter(part):
                    read.add(part.name)
                case a.Call(function, arguments):
                    return a.Call(function, tuple(map(rewritten, arguments)))
                case a.Exists(pattern):
                    found = self._own_or_same(pattern)
                    differs |= found.own
                    return replace(part, pattern=found.node)
            return part

        expression = rewritten(expression)
        return (self._closed(inner, read) if read or differs else inner), expression


def _is_parameter(node: a.Node | a.Expression) -> bool:
    return isinstance(node, a.Variable) and node.name.startswith(_PARAMETER)


def _equal_as_terms(term: a.Term) -> bool:
    """Whether what equals the term is the term: an IRI, or a plain string. Numbers and times have many forms of one value."""
    return is_iri(term) or term.endswith('"')
