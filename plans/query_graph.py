"""The query graph of a block: its relations, the variables that join them, and its filters (report §3.2, §5).

A relation is an occurrence of a pattern: a window's (dynamic) or a static one, which may itself be a pre-computed
sub-result. Two relations join on each variable that they share, so a variable that k relations share is, for the enumeration,
a clique of the k.

A relation that is not joined by an inner join is a *unit*: the right side of an OPTIONAL, of a MINUS or NOT EXISTS, of an
EXISTS, or a filter whose place is chosen by cost. A unit can only be joined to a part of the plan that binds the variables that it
requires. If only several relations together bind them, they form a hyperedge (Moerkotte & Neumann 2008).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, groupby
from typing import Literal, TypeAlias

from cqels_opt.errors import CqelsOptError
from cqels_opt.plans.relation_set import RelationSet, contains, members, of, of_all, size

JoinKind: TypeAlias = Literal["inner", "optional", "anti", "semi", "filter"]
"""How a relation is joined: ⋈, the left outer join ⟕ (OPTIONAL), ▷ (MINUS, NOT EXISTS), ⋉ (EXISTS), or σ, a filter as an operator."""


class GraphError(CqelsOptError):
    """A query graph cannot be made: a name occurs twice, or a filter reads a variable that no relation binds."""


@dataclass(frozen=True, slots=True)
class RelationNode:
    """A node: its name (as in plans and traces), the variables it binds, and whether it changes with a stream.

    ``kind`` is how it is joined. A unit ``requires`` variables to be bound before it. It is joined on those of them that it has
    itself, and an optional one binds its other variables. The variables of a filter are those that it reads; ``weight`` is its cost.
    A look-up in it costs as much as ``indexes`` look-ups in one index of all its rows: those of a window are in several files.
    """

    name: str
    variables: frozenset[str]
    dynamic: bool
    kind: JoinKind = "inner"
    requires: frozenset[str] = frozenset()
    weight: float = 1.0
    selectivity: float | None = None
    rank: tuple[int, ...] = ()
    """Its rank in heuristics without statistics; the least comes first."""
    indexes: float = 1.0

    @property
    def binds(self) -> frozenset[str]:
        """The variables that other relations can join on or read: without those that a unit only reads."""
        if self.kind == "inner":
            return self.variables
        return self.variables - self.requires if self.kind == "optional" else frozenset()

    @property
    def joined_on(self) -> frozenset[str]:
        """The variables of its join sizes in the statistics."""
        if self.kind == "inner":
            return self.variables
        return frozenset() if self.kind == "filter" else self.variables & self.requires


@dataclass(frozen=True, slots=True)
class FilterNode:
    """A condition over variables. ``selectivity`` is the share of rows that it keeps, if that is known in advance.

    ``weight`` is the cost of one evaluation, as a multiple of ``Constants.evaluate``. ``uncertain``: it refers to a
    probability, so heuristic H4 applies to it.
    """

    name: str
    variables: frozenset[str]
    selectivity: float | None = None
    weight: float = 1.0
    uncertain: bool = False

    @property
    def unit(self) -> RelationNode:
        """The filter as an operator of its own."""
        return RelationNode(self.name, self.variables, False, "filter", self.variables, self.weight, self.selectivity)


@dataclass(frozen=True, slots=True, order=True)
class JoinEdge:
    """Two relations, by index, that share ``variable``; ``left < right``."""

    left: int
    right: int
    variable: str


class QueryGraph:
    """The relations of a block in the order written, with its filters. Immutable."""

    def __init__(
        self, relations: tuple[RelationNode, ...] | list[RelationNode], filters: tuple[FilterNode, ...] | list[FilterNode] = ()
    ) -> None:
        self.relations: tuple[RelationNode, ...] = tuple(relations)
        self.filters: tuple[FilterNode, ...] = tuple(filters)
        for kind, names in (("relation", [r.name for r in self.relations]), ("filter", [f.name for f in self.filters])):
            for name, count in Counter(names).items():
                if count > 1:
                    raise GraphError(f"{kind} {name!r} occurs twice in the query graph; names must be unique")
        if not self.relations:
            raise GraphError("a query graph needs at least one relation")
        self._shared: dict[tuple[RelationSet, RelationSet], tuple[str, ...]] = {}
        bound = frozenset[str]().union(*(r.binds for r in self.relations))
        for condition in self.filters:
            if unbound := sorted(condition.variables - bound):
                raise GraphError(f"filter {condition.name!r} reads ?{unbound[0]}, which no relation binds")
        for relation in self.relations:
            if relation.kind == "inner":
                continue
            if relation.kind == "optional" and (
                known := sorted(x for x in relation.binds if self.carriers[x] & self.carriers[x] - 1)
            ):
                raise GraphError(f"optional {relation.name!r} adds ?{known[0]}, which another relation binds")
            if relation.kind != "filter" and any(self.carriers[x] & self.units for x in relation.requires & bound):
                raise GraphError(f"{relation.kind} {relation.name!r} requires what may be unbound")
            if unbound := sorted(relation.requires - bound):
                raise GraphError(f"{relation.kind} {relation.name!r} requires ?{unbound[0]}, which no relation binds")
            if not relation.requires & relation.variables:
                raise GraphError(f"{relation.kind} {relation.name!r} shares no variable with what it is joined to")

    @cached_property
    def index(self) -> dict[str, int]:
        """The index of each relation's name."""
        return {relation.name: i for i, relation in enumerate(self.relations)}

    def set_of(self, names: Iterable[str]) -> RelationSet:
        """The set of the relations with these names."""
        return of(self.index[name] for name in names)

    def names(self, relations: RelationSet) -> list[str]:
        """The names of a set's relations, in the order written."""
        return [self.relations[i].name for i in members(relations)]

    @cached_property
    def everything(self) -> RelationSet:
        """The set of all relations."""
        return (1 << len(self.relations)) - 1

    @cached_property
    def inner(self) -> RelationSet:
        """The relations that are joined by inner joins."""
        return sum(1 << i for i, relation in enumerate(self.relations) if relation.kind == "inner")

    @cached_property
    def units(self) -> RelationSet:
        """All other relations."""
        return self.everything & ~self.inner

    @cached_property
    def carriers(self) -> dict[str, RelationSet]:
        """For each variable the relations that bind it, variables in alphabetical order."""
        result: dict[str, RelationSet] = {}
        for i, relation in enumerate(self.relations):
            for variable in relation.binds:
                result[variable] = result.get(variable, 0) | 1 << i
        return dict(sorted(result.items()))

    @cached_property
    def edges(self) -> tuple[JoinEdge, ...]:
        """Every pair of relations that are joined on a variable, once for each variable; for a unit, the relations that bind it."""
        inner = [JoinEdge(a, b, x) for x, carriers in self.carriers.items() for a, b in combinations(members(carriers), 2)]
        outer = [
            JoinEdge(min(i, k), max(i, k), x)
            for k in members(self.units)
            for x in self.relations[k].joined_on
            for i in members(self.carriers[x])
        ]
        return tuple(sorted([*inner, *outer]))

    @cached_property
    def hyperedges(self) -> tuple[tuple[RelationSet, RelationSet], ...]:
        """The hyperedges: two relations with a common variable, and a unit with each minimal set that binds the variables it requires."""
        found = [(1 << e.left, 1 << e.right) for e in self.edges if not (1 << e.left | 1 << e.right) & self.units]
        for k in members(self.units):
            sets: Collection[RelationSet] = [0]
            for x in sorted(self.relations[k].requires):
                carriers = self.carriers[x]
                sets = _minimal({s if s & carriers else s | 1 << i for s in sets for i in members(carriers)})
            found += [(s, 1 << k) for s in sorted(sets)]
        return tuple(dict.fromkeys(found))

    @cached_property
    def neighbours(self) -> tuple[RelationSet, ...]:
        """For each relation those that it can be joined with by an edge between the two, itself not included."""
        result = [0] * len(self.relations)
        for left, right in self.hyperedges:
            if size(left) == size(right) == 1:
                result[left.bit_length() - 1] |= right
                result[right.bit_length() - 1] |= left
        return tuple(result)

    @cached_property
    def adjacent(self) -> tuple[RelationSet, ...]:
        """For each relation those that it has a variable of :attr:`edges` in common with."""
        result = [0] * len(self.relations)
        for edge in self.edges:
            result[edge.left] |= 1 << edge.right
            result[edge.right] |= 1 << edge.left
        return tuple(result)

    @cached_property
    def components(self) -> tuple[RelationSet, ...]:
        """The components connected by inner joins, in the order of their first relation, each with the units that it alone satisfies.

        Joining two of them is a cross product.
        """
        found, rest = [], self.inner
        while rest:
            relations = reached = rest & -rest
            while reached:
                reached = of_all(self.adjacent, reached) & rest & ~relations
                relations |= reached
            rest &= ~relations
            while more := [k for k in members(self.units & ~relations) if self.fits(relations, 1 << k)]:
                relations |= sum(1 << k for k in more)
            found.append(relations)
        return tuple(sorted(found, key=lambda component: component & -component))

    @cached_property
    def spanning(self) -> RelationSet:
        """The units that require variables of several components."""
        return self.everything & ~sum(self.components)

    def fits(self, left: RelationSet, right: RelationSet) -> bool:
        """Whether ``right`` may be joined to ``left`` in this orientation: a unit only alone, to a part that binds all that it requires.

        Both sides must be parts of a plan themselves. An inner join may be a cross product.
        """
        if contains(self.units, left):
            return False
        if not contains(self.units, right):
            return True
        return size(right) == 1 and self.relations[right.bit_length() - 1].requires <= self.bound(left)

    def bound(self, relations: RelationSet) -> frozenset[str]:
        """The variables that a part of a plan binds, including those that an optional relation leaves unbound on some rows."""
        return frozenset().union(*(self.relations[i].binds for i in members(relations)))

    def with_filter_units(self, names: Collection[str]) -> QueryGraph:
        """The graph with some of its filters as units, after all other relations."""
        units = [condition.unit for condition in self.filters if condition.name in names]
        return QueryGraph([*self.relations, *units], [condition for condition in self.filters if condition.name not in names])

    def neighbourhood(self, relations: RelationSet) -> RelationSet:
        """The relations outside a set that an edge joins with one inside."""
        return of_all(self.neighbours, relations) & ~relations

    def variables(self, relations: RelationSet) -> frozenset[str]:
        """The variables that a set of relations binds or, of units, reads."""
        return frozenset().union(*(self.relations[i].variables for i in members(relations)))

    def shared(self, left: RelationSet, right: RelationSet) -> tuple[str, ...]:
        """The variables on which two sets join, in alphabetical order; none means a cross product."""
        found = self._shared.get((left, right))
        if found is None:
            found = self._shared[left, right] = tuple(sorted(self.variables(left) & self.variables(right)))
        return found

    def covered_filters(self, relations: RelationSet) -> int:
        """The filters whose variables a set binds, as bits: those that can be evaluated on its rows."""
        if not self.filters:
            return 0
        bound = self.bound(relations)
        return of(i for i, condition in enumerate(self.filters) if condition.variables <= bound)

    @cached_property
    def weights(self) -> dict[str, float]:
        """The weight of each filter: first those that are evaluated as soon as possible, then those that are operators."""
        units = (r for r in self.relations if r.kind == "filter")
        return {f.name: f.weight for f in self.filters} | {r.name: r.weight for r in units}

    def least_sets(self, unit: int) -> list[RelationSet]:
        """The minimal sets of relations that bind all variables that a unit requires."""
        return [left for left, right in self.hyperedges if right == 1 << unit]

    def is_static(self, relations: RelationSet) -> bool:
        """Whether no relation of the set changes with a stream."""
        return not any(self.relations[i].dynamic for i in members(relations))

    def __repr__(self) -> str:
        relations = ", ".join(f"{r.name}({' '.join('?' + v for v in sorted(r.variables))})" for r in self.relations)
        return f"QueryGraph({relations}{'; ' + ', '.join(f.name for f in self.filters) if self.filters else ''})"


def _minimal(sets: Collection[RelationSet]) -> list[RelationSet]:
    """The sets that contain no other one."""
    kept, smaller = list[RelationSet](), list[RelationSet]()
    for _, equal in groupby(sorted(sets, key=size), key=size):
        kept += [s for s in equal if not any(contains(s, other) for other in smaller)]
        smaller = list(kept)
    return kept
