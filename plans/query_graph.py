"""The query graph of a block: its relations, the variables that join them, and its filters (report §3.2, §5).

A relation is an occurrence of a pattern: a window's (dynamic) or a static one, which may itself be a pre-computed
sub-result. Two relations join where they share a variable, so a variable that k relations share is one hyperedge and,
for the enumeration, a clique among the k.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import networkx as nx

from cqels_opt.errors import CqelsOptError
from cqels_opt.plans.relation_set import RelationSet, members


class GraphError(CqelsOptError):
    """A query graph cannot be made: a name occurs twice, or a filter reads a variable that no relation binds."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A node: its name (as in plans and traces), the variables it binds, and whether it changes with a stream."""

    name: str
    variables: frozenset[str]
    dynamic: bool


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition over variables. ``selectivity`` is what is known beforehand, the share of rows that it keeps."""

    name: str
    variables: frozenset[str]
    selectivity: float | None = None


@dataclass(frozen=True, slots=True, order=True)
class JoinEdge:
    """Two relations, by index, that share ``variable``; ``left < right``."""

    left: int
    right: int
    variable: str


class QueryGraph:
    """The relations of a block in the order written, with its filters. Never changes."""

    def __init__(self, relations: tuple[Relation, ...] | list[Relation], filters: tuple[Filter, ...] | list[Filter] = ()) -> None:
        self.relations: tuple[Relation, ...] = tuple(relations)
        self.filters: tuple[Filter, ...] = tuple(filters)
        for kind, names in (("relation", [r.name for r in self.relations]), ("filter", [f.name for f in self.filters])):
            for name in names:
                if names.count(name) > 1:
                    raise GraphError(f"{kind} {name!r} occurs twice in the query graph; names must be unique")
        if not self.relations:
            raise GraphError("a query graph needs at least one relation")
        self._shared: dict[tuple[RelationSet, RelationSet], tuple[str, ...]] = {}
        bound = self.variables(self.everything)
        for condition in self.filters:
            if unbound := sorted(condition.variables - bound):
                raise GraphError(f"filter {condition.name!r} reads ?{unbound[0]}, which no relation binds")

    @cached_property
    def index(self) -> dict[str, int]:
        """The index of each relation's name."""
        return {relation.name: i for i, relation in enumerate(self.relations)}

    @property
    def everything(self) -> RelationSet:
        """The set of all relations."""
        return (1 << len(self.relations)) - 1

    @cached_property
    def carriers(self) -> dict[str, RelationSet]:
        """For each variable the relations that bind it: the hyperedges, variables in alphabetical order."""
        result: dict[str, RelationSet] = {}
        for i, relation in enumerate(self.relations):
            for variable in relation.variables:
                result[variable] = result.get(variable, 0) | 1 << i
        return dict(sorted(result.items()))

    @cached_property
    def edges(self) -> tuple[JoinEdge, ...]:
        """Every pair of relations that share a variable, once for each variable."""
        return tuple(
            sorted(JoinEdge(a, b, x) for x, carriers in self.carriers.items() for a, b in combinations(members(carriers), 2))
        )

    @cached_property
    def neighbours(self) -> tuple[RelationSet, ...]:
        """For each relation those that it shares a variable with, itself not included."""
        result = [0] * len(self.relations)
        for edge in self.edges:
            result[edge.left] |= 1 << edge.right
            result[edge.right] |= 1 << edge.left
        return tuple(result)

    @cached_property
    def components(self) -> tuple[RelationSet, ...]:
        """The connected components, in the order of their first relation; joining two of them is a cross product."""
        found = [sum(1 << i for i in component) for component in nx.connected_components(self.networkx())]
        return tuple(sorted(found, key=lambda component: component & -component))

    def neighbourhood(self, relations: RelationSet) -> RelationSet:
        """The relations outside a set that share a variable with one inside."""
        result = 0
        for i in members(relations):
            result |= self.neighbours[i]
        return result & ~relations

    def variables(self, relations: RelationSet) -> frozenset[str]:
        """The variables that a set of relations binds."""
        return frozenset().union(*(self.relations[i].variables for i in members(relations)))

    def shared(self, left: RelationSet, right: RelationSet) -> tuple[str, ...]:
        """The variables on which two sets join, in alphabetical order; none means a cross product."""
        found = self._shared.get((left, right))
        if found is None:
            found = self._shared[left, right] = tuple(sorted(self.variables(left) & self.variables(right)))
        return found

    def covered_filters(self, relations: RelationSet) -> int:
        """The filters whose variables a set binds, as bits: those that can be evaluated on its rows."""
        bound = self.variables(relations)
        return sum(1 << i for i, condition in enumerate(self.filters) if condition.variables <= bound)

    def is_static(self, relations: RelationSet) -> bool:
        """Whether no relation of the set changes with a stream."""
        return not any(self.relations[i].dynamic for i in members(relations))

    def networkx(self) -> nx.Graph[int]:
        """The graph for checks and drawing: nodes with ``name`` and ``dynamic``, edges with the ``variables`` shared."""
        graph: nx.Graph[int] = nx.Graph()
        for i, relation in enumerate(self.relations):
            graph.add_node(i, name=relation.name, dynamic=relation.dynamic)
        for edge in self.edges:
            known = graph.get_edge_data(edge.left, edge.right, {"variables": ()})["variables"]
            graph.add_edge(edge.left, edge.right, variables=(*known, edge.variable))
        return graph

    def __repr__(self) -> str:
        relations = ", ".join(f"{r.name}({' '.join('?' + v for v in sorted(r.variables))})" for r in self.relations)
        return f"QueryGraph({relations}{'; ' + ', '.join(f.name for f in self.filters) if self.filters else ''})"
