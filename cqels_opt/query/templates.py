"""Combines queries that differ only in constants into one query over a relation of their constants (CQELS report §6.2; DESIGN
§9).

``SELECT ?l { GRAPH ?w { :ann :at ?l } }`` and the same query for ``:bob`` become
``SELECT ?l ?instance { GRAPH ?w { ?p :at ?l } VALUES (?instance ?p) { (1 :ann) (2 :bob) } }``. The instance number is a variable
that every operator propagates: joins match rows of the same instance, and groups, DISTINCT and LIMIT apply per instance. So each
instance has the same answers as if it ran alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from cqels_opt.query import algebra as a
from cqels_opt.query.graphs import certain, group_per_key
from cqels_opt.query.outlines import Outline, filled
from cqels_opt.query.scope import operands
from cqels_opt.rdf.terms import XSD_INTEGER, is_iri, literal

INSTANCE = a.Variable(".instance")
"""The variable of the instance number."""

_PARAMETER = ".parameter"

Values = tuple[a.Term, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """The common part of queries with one outline: each hole has a constant or the number of a parameter."""

    query: a.Query
    holes: tuple[a.Term | int, ...]

    @property
    def parameters(self) -> int:
        """The number of constants per instance."""
        return max((hole for hole in self.holes if isinstance(hole, int)), default=-1) + 1

    def values(self, outline: Outline) -> Values | None:
        """The constants of a query that is an instance; None if the query is not an instance."""
        if outline.query != self.query:
            return None
        found: dict[int, a.Term] = {}
        for hole, value in zip(self.holes, outline.values):
            if (hole if isinstance(hole, str) else found.setdefault(hole, value)) != value:
                return None
        return tuple(found[i] for i in range(len(found)))

    def shared(self, instances: Mapping[int, Values]) -> a.Query:
        """One query for all instances, by their numbers, with :data:`INSTANCE` as an additional variable."""
        nodes = [a.Variable(f"{_PARAMETER}{hole}") if isinstance(hole, int) else hole for hole in self.holes]
        body = _Shared(instances).top(filled(self.query, nodes))
        return replace(self.query, body=body, variables=(*self.query.variables, INSTANCE))


def template_of(outlines: Sequence[Outline]) -> Template:
    """The template of queries with one outline. Holes with the same constants in every query become one parameter."""
    holes: list[a.Term | int] = []
    numbers: dict[Values, int] = {}
    for column in zip(*(outline.values for outline in outlines)):
        same = all(value == column[0] for value in column)
        holes.append(column[0] if same else numbers.setdefault(column, len(numbers)))
    return Template(outlines[0].query, tuple(holes))


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the body. ``free`` are the parameters that it binds and that are not yet joined with the instances.

    ``own``: each of its rows belongs to one instance. A part with neither is the same for all instances.
    """

    node: a.Algebra
    free: frozenset[str] = frozenset()
    own: bool = False

    @property
    def differs(self) -> bool:
        """Whether the rows depend on the instance."""
        return self.own or bool(self.free)


class _Shared:
    """Joins the instances into a body: below each operator that distinguishes rows, and otherwise as late as possible."""

    def __init__(self, instances: Mapping[int, Values]) -> None:
        self.instances = instances
        self.numbers = [(number, literal(str(number), XSD_INTEGER)) for number in sorted(instances)]
        self.apart = (INSTANCE, *(self._parameter(i) for i in range(len(next(iter(instances.values()), ())))))
        self._fresh = count()

    def top(self, body: a.Algebra) -> a.Algebra:
        """The body of the query itself; each of its rows must belong to one instance."""
        return self._per_instance(body).node

    def _per_instance(self, body: a.Algebra) -> _Part:
        """The operators above the query's pattern apply per instance, whether or not the pattern depends on the instance."""
        match body:
            case a.Project(inner, variables):
                return _Part(a.Project(self._per_instance(inner).node, (*variables, INSTANCE)), own=True)
            case a.Distinct(inner):
                return _Part(a.Distinct(self._per_instance(inner).node), own=True)
            case a.OrderBy(inner, keys):
                return _Part(a.OrderBy(self._per_instance(inner).node, keys), own=True)
            case a.Slice(inner, offset, limit, each):
                return _Part(a.Slice(self._per_instance(inner).node, offset, limit, (*each, INSTANCE)), own=True)
        return self._joined(self.part(body))

    # -------------------------------------------------------------- the relation
    def _parameter(self, number: int) -> a.Variable:
        return a.Variable(f"{_PARAMETER}{number}")

    def relation(self, columns: Mapping[str, str]) -> a.Values:
        """The instance numbers and, for each column name, the values of its parameter."""
        places = [int(parameter.removeprefix(_PARAMETER)) for parameter in columns.values()]
        rows = tuple((text, *(self.instances[number][place] for place in places)) for number, text in self.numbers)
        return a.Values((INSTANCE, *map(a.Variable, columns)), rows)

    def _joined(self, part: _Part, also: Iterable[str] = (), equal: Mapping[str, str] | None = None) -> _Part:
        """The part joined with the instances. ``also``: parameters read above it; ``equal``: variables that equal a parameter."""
        names = sorted(part.free.union(also))
        if part.own and not names and not equal:
            return part
        relation = self.relation({**{name: name for name in names}, **(equal or {})})
        return _Part(a.Join(part.node, relation), own=True)

    # -------------------------------------------------------------- patterns
    def part(self, node: a.Algebra) -> _Part:
        """A pattern, joined with the instances where necessary."""
        match node:
            case a.Bgp(patterns):
                nodes = (n for t in patterns for n in (t.s, t.o) if isinstance(n, a.Variable) and _is_parameter(n))
                return _Part(node, frozenset(n.name for n in nodes))
            case a.Join(left, right):
                one, other = self.part(left), self.part(right)
                if one.own or other.own:
                    one, other = (self._joined(x) if x.free else x for x in (one, other))
                return _Part(a.Join(one.node, other.node), one.free | other.free, one.own or other.own)
            case a.Union(left, right):
                one, other = self.part(left), self.part(right)
                if one.differs or other.differs:
                    one, other = self._joined(one), self._joined(other)
                return _Part(a.Union(one.node, other.node), own=one.own)
            case a.LeftJoin(left, right, condition):
                return self._optional(self.part(left), self.part(right), condition)
            case a.Minus(left, right, apart):
                one, other = self.part(left), self.part(right)
                if other.differs:
                    one, other, apart = self._joined(one), self._joined(other), (*apart, *self.apart)
                elif one.free:
                    one = self._joined(one)
                return _Part(a.Minus(one.node, other.node, apart), own=one.own)
            case a.Filter(inner, condition):
                return self._filtered(self.part(inner), condition)
            case a.Extend(inner, variable, expression):
                part, expression = self._with_parameters(self.part(inner), expression)
                return replace(part, node=a.Extend(part.node, variable, expression))
            case a.Group():
                return self._group(node)
            case a.Project(inner, variables):
                part = self.part(inner)
                if not part.differs:
                    return _Part(node)
                return _Part(a.Project(self._joined(part).node, (*variables, INSTANCE)), own=True)
            case a.Slice(inner, offset, limit, each):
                part = self._joined_if_differing(inner)
                return _Part(a.Slice(part.node, offset, limit, (*each, INSTANCE) if part.own else each), own=part.own)
            case a.Distinct(inner):
                part = self._joined_if_differing(inner)
                return _Part(a.Distinct(part.node), own=part.own)
            case a.OrderBy(inner, keys):
                part = self._joined_if_differing(inner)
                return _Part(a.OrderBy(part.node, keys), own=part.own)
        return _Part(node)

    def _joined_if_differing(self, node: a.Algebra) -> _Part:
        part = self.part(node)
        return self._joined(part) if part.differs else part

    def _optional(self, one: _Part, other: _Part, condition: a.Expression | None) -> _Part:
        if condition is not None:
            joined, condition = self._with_parameters(one, condition)
            one = joined if joined.own else one
        if other.differs:
            one, other = self._joined(one), self._joined(other)
        elif one.free:
            one = self._joined(one)
        return _Part(a.LeftJoin(one.node, other.node, condition), own=one.own)

    def _group(self, node: a.Group) -> _Part:
        part = self.part(node.input)
        if not part.differs:
            return _Part(node)
        body = self._joined(part).node
        if node.implicit:
            fresh = (a.Variable(f".of{number}") for number in self._fresh)
            return _Part(group_per_key(self.relation({}), (INSTANCE,), body, node.aggregates, lambda: next(fresh)), own=True)
        return _Part(a.Group(body, (*node.keys, INSTANCE), node.aggregates), own=True)

    # -------------------------------------------------------------- expressions
    def _filtered(self, inner: _Part, condition: a.Expression) -> _Part:
        """FILTER. Equality of a variable and a parameter becomes a join with the instances."""
        equal: dict[str, str] = {}
        left = []
        for conjunct in operands(condition, "&&"):
            found = self._equality(conjunct, inner)
            if found is not None and found[0] not in equal:
                equal[found[0]] = found[1]
            else:
                left.append(conjunct)
        if equal:
            inner = self._joined(inner, equal=equal)
        for conjunct in left:
            inner, conjunct = self._with_parameters(inner, conjunct)
            inner = replace(inner, node=a.Filter(inner.node, conjunct))
        return inner

    def _equality(self, condition: a.Expression, inner: _Part) -> tuple[str, str] | None:
        """The variable and the parameter of an equality condition, if equal values are always the same term; else None."""
        match condition:
            case a.Call("=", (a.Variable() as one, a.Variable() as other)):
                variable, parameter = (one, other) if _is_parameter(other) else (other, one)
                if not _is_parameter(parameter) or _is_parameter(variable) or variable not in certain(inner.node):
                    return None
                place = int(parameter.name.removeprefix(_PARAMETER))
                if all(map(_equal_as_terms, {values[place] for values in self.instances.values()})):
                    return variable.name, parameter.name
        return None

    def _with_parameters(self, inner: _Part, expression: a.Expression) -> tuple[_Part, a.Expression]:
        """The input of an expression joined with the parameters that it reads, and the expression with its EXISTS rewritten."""
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
                    found = self._joined_if_differing(pattern)
                    differs |= found.own
                    return replace(part, pattern=found.node)
            return part

        expression = rewritten(expression)
        return (self._joined(inner, read) if read or differs else inner), expression


def _is_parameter(node: a.Node | a.Expression) -> bool:
    return isinstance(node, a.Variable) and node.name.startswith(_PARAMETER)


def _equal_as_terms(term: a.Term) -> bool:
    """Whether only the term itself equals the term: an IRI or a plain string. Numbers and times have many forms of one value."""
    return is_iri(term) or term.endswith('"')
