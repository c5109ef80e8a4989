"""Drafts: blocks of inner joins in the making, and the operators above them whose inputs may still be drafts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from cqels_opt.operators import program as p
from cqels_opt.operators.subresults import Part
from cqels_opt.query import algebra as a
from cqels_opt.query.scope import variables as read_by


@dataclass(slots=True)
class Draft:
    """Patterns with their sources, static relations, and filters, all to be joined."""

    patterns: list[tuple[a.TriplePattern, a.Source]] = field(default_factory=list)
    statics: list[Part] = field(default_factory=list)
    filters: list[a.Expression] = field(default_factory=list)

    @property
    def variables(self) -> set[str]:
        """What the draft binds, on every row."""
        found = {v for pattern, source in self.patterns for v in pattern_variables(pattern, source)}
        return found | {v for part in self.statics for v in part.relation.variables}

    @property
    def moving(self) -> bool:
        """Whether a window is read."""
        return any(isinstance(source, a.InWindow) for _, source in self.patterns)


Normal: TypeAlias = "Draft | p.Tree | Above"


@dataclass(slots=True)
class Above:
    """An operator whose inputs may still be drafts; :func:`filled` puts the finished ones into its node."""

    node: p.Tree
    inputs: list[Normal]


def pattern_variables(pattern: a.TriplePattern, source: a.Source) -> list[str]:
    """The variables of a pattern, the graph's included."""
    nodes: list[a.Node] = [pattern.s, pattern.p, pattern.o]
    if isinstance(source, a.NamedGraph):
        nodes.append(source.name)
    return list(dict.fromkeys(n.name for n in nodes if isinstance(n, a.Variable)))


def branches(normal: Normal) -> list[Normal]:
    """The branches of a UNION; anything else is its own only branch."""
    return normal.inputs if isinstance(normal, Above) and isinstance(normal.node, p.UnionNode) else [normal]


def union(parts: Iterable[Normal]) -> Above:
    """The UNION of parts, flat."""
    flat = [branch for part in parts for branch in branches(part)]
    return Above(p.UnionNode(()), flat)


def merged(left: Draft, right: Draft) -> Draft:
    """The join of two drafts."""
    return Draft([*left.patterns, *right.patterns], [*left.statics, *right.statics], [*left.filters, *right.filters])


def renamed(draft: Draft, names: Mapping[str, str]) -> Draft:
    """The draft with other names for some of its variables."""
    if not names:
        return draft

    def node(n: a.Node) -> a.Node:
        return a.Variable(names[n.name]) if isinstance(n, a.Variable) and n.name in names else n

    def source(s: a.Source) -> a.Source:
        return a.NamedGraph(node(s.name)) if isinstance(s, a.NamedGraph) else s

    return Draft(
        [(a.TriplePattern(node(t.s), node(t.p), node(t.o)), source(s)) for t, s in draft.patterns],
        [
            replace(part, relation=part.relation.rename({v: names.get(v, v) for v in part.relation.variables}))
            for part in draft.statics
        ],
        [expression_renamed(f, names) for f in draft.filters],
    )


def expression_renamed(expression: a.Expression, names: Mapping[str, str]) -> a.Expression:
    """The expression with other names for some of its variables."""
    if isinstance(expression, a.Variable):
        return a.Variable(names.get(expression.name, expression.name))
    if isinstance(expression, a.Call):
        return a.Call(expression.function, tuple(expression_renamed(part, names) for part in expression.arguments))
    return expression


def mentioned(normal: Normal) -> set[str]:
    """All variables that a part names anywhere."""
    match normal:
        case Draft():
            return normal.variables | {v for f in normal.filters for v in read_by(f)}
        case Above(node, inputs):
            return read_by_node(node).union(*map(mentioned, inputs))
        case p.ValuesNode(variables, _):
            return set(variables)
        case p.StaticNode(static):
            return set(static.variables)
    return set()


def read_by_node(node: p.Tree) -> set[str]:
    """The variables that an operator itself names."""
    match node:
        case p.FilterNode(_, condition):
            return set(read_by(condition))
        case p.LeftJoinNode(_, _, condition) | p.ExistsNode(_, _, condition, _):
            return set(read_by(condition)) if condition is not None else set()
        case p.ExtendNode(_, variable, expression):
            return {variable, *read_by(expression)}
        case p.ProjectNode(_, variables) | p.DistinctNode(_, variables):
            return set(variables)
        case p.GroupNode(_, keys, aggregates, _, whole):
            return {*keys, *whole, *(v for _, spec in aggregates if spec.argument is not None for v in read_by(spec.argument))}
        case p.OrderNode(_, keys, _, _, ties):
            return {*ties, *(v for expression, _ in keys for v in read_by(expression))}
    return set()


def filled(node: p.Tree, inputs: list[p.Tree]) -> p.Tree:
    """An operator with its finished inputs."""
    match node:
        case p.UnionNode():
            return p.UnionNode(tuple(inputs))
        case p.JoinNode() | p.LeftJoinNode() | p.MinusNode():
            return replace(node, left=inputs[0], right=inputs[1])
        case p.ExistsNode():
            return replace(node, input=inputs[0], pattern=inputs[1])
        case p.FilterNode() | p.ExtendNode() | p.ProjectNode() | p.DistinctNode() | p.GroupNode() | p.OrderNode():
            return replace(node, input=inputs[0])
    raise AssertionError(node)
