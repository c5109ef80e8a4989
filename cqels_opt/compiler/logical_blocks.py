"""Drafts: blocks of joins in the making, and the operators above them whose inputs may still be drafts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from cqels_opt.compiler.static_subpatterns import StaticPart
from cqels_opt.compiler.variable_usage import conjunction, exists_in
from cqels_opt.operators import compiled_query as p
from cqels_opt.operators.rows import HIDDEN
from cqels_opt.plans import JoinKind
from cqels_opt.query import algebra as a
from cqels_opt.query.scope import operands, uses_now
from cqels_opt.query.scope import variables as read_by


@dataclass(slots=True)
class OuterJoinUnit:
    """A static right side of an OPTIONAL, MINUS or EXISTS that is joined within the block.

    ``on`` are the variables that it shares with what it was written after, all bound there on every row; ``condition`` decides which
    of its rows count, and ``reads`` what that reads of the left side besides.
    """

    kind: JoinKind
    right: LogicalBlock
    on: frozenset[str]
    reads: frozenset[str] = frozenset()
    condition: a.Expression | None = None

    @property
    def adds(self) -> set[str]:
        """The variables that it may leave unbound."""
        return self.right.variables - self.on if self.kind == "optional" else set()

    @property
    def needs(self) -> frozenset[str]:
        """The variables that must be bound before it."""
        return self.on | self.reads


@dataclass(slots=True)
class LogicalBlock:
    """Patterns with their sources, static relations, filters, and units, all to be joined."""

    patterns: list[tuple[a.TriplePattern, a.Source]] = field(default_factory=list)
    statics: list[StaticPart] = field(default_factory=list)
    filters: list[a.Expression] = field(default_factory=list)
    units: list[OuterJoinUnit] = field(default_factory=list)

    @property
    def variables(self) -> set[str]:
        """What the draft can bind."""
        return self.certain.union(*(unit.adds for unit in self.units))

    @property
    def certain(self) -> set[str]:
        """What the draft binds on every row."""
        found = {v for pattern, source in self.patterns for v in pattern_variables(pattern, source)}
        return found | {v for part in self.statics for v in part.relation.variables}

    @property
    def moving(self) -> bool:
        """Whether a window is read."""
        return any(isinstance(source, a.InWindow | a.Merged) for _, source in self.patterns)


Normal: TypeAlias = "LogicalBlock | p.Tree | Above"


@dataclass(slots=True)
class Above:
    """An operator whose inputs may still be drafts; its node is a hole until they are finished."""

    node: p.Tree
    inputs: list[Normal]


def pattern_variables(pattern: a.TriplePattern, source: a.Source) -> list[str]:
    """The variables of a pattern, the graph's included."""
    nodes: list[a.Node] = list(pattern.variables)
    if (graph := a.graph_in(source)) is not None:
        nodes.append(graph)
    if isinstance(source, a.InWindow) and source.time is not None:
        nodes.append(source.time)
    return list(dict.fromkeys(n.name for n in nodes if isinstance(n, a.Variable)))


def quotes(pattern: a.TriplePattern) -> bool:
    """Whether a triple term with variables stands in a pattern."""
    return isinstance(pattern.s, a.TripleTerm) or isinstance(pattern.o, a.TripleTerm)


def windows_of(source: a.InWindow | a.Merged) -> tuple[str, ...]:
    """The windows in which patterns of a source are matched."""
    return (source.window,) if isinstance(source, a.InWindow) else source.windows


def branches(normal: Normal) -> list[Normal]:
    """The branches of a UNION; anything else is its own only branch."""
    return normal.inputs if isinstance(normal, Above) and isinstance(normal.node, p.UnionNode) else [normal]


def union(parts: Iterable[Normal]) -> Above:
    """The UNION of parts, flat."""
    flat = [branch for part in parts for branch in branches(part)]
    return Above(p.UnionNode(()), flat)


def merged(left: LogicalBlock, right: LogicalBlock) -> LogicalBlock | None:
    """The join of two drafts; None where one of them binds what the other may leave unbound."""
    if (left.variables - left.certain) & right.variables or (right.variables - right.certain) & left.variables:
        return None
    return LogicalBlock(
        [*left.patterns, *right.patterns],
        [*left.statics, *right.statics],
        [*left.filters, *right.filters],
        [*left.units, *right.units],
    )


def with_unit(
    left: LogicalBlock, kind: JoinKind, right: LogicalBlock, conditions: Iterable[a.Expression] = ()
) -> LogicalBlock | None:
    """The draft with one unit more; None where it has to stay above.

    The right side must be static and bind all its variables on every row, and what both sides share must be bound on every row of the
    left. What a window brings to a right side changes what old rows of the left side have found: that is not linear, and stays above.
    """
    on = frozenset(left.variables & right.variables)
    if right.moving or right.units or not on or not on <= left.certain:
        return None
    inside, across = list[a.Expression](), list[a.Expression]()
    for condition in conditions:
        if exists_in(condition) or uses_now(condition):
            return None
        (inside if read_by(condition) & (left.variables | right.variables) <= right.variables else across).append(condition)
    reads = frozenset(v for condition in across for v in read_by(condition) if v in left.variables - right.variables)
    if not reads <= left.certain:
        return None
    static = LogicalBlock(right.patterns, right.statics, [*right.filters, *inside])
    return replace(left, units=[*left.units, OuterJoinUnit(kind, static, on, reads, conjunction(across))])


def without_units(draft: LogicalBlock) -> Normal:
    """The draft with its units as operators above it: the filters that read what an OPTIONAL adds stand above them all."""
    early = [condition for condition in draft.filters if read_by(condition) <= draft.certain]
    found: Normal = replace(draft, filters=early, units=[])
    hole = p.ValuesNode((), ())
    for number, unit in enumerate(draft.units):
        if unit.kind == "optional":
            found = Above(p.LeftJoinNode(hole, hole, unit.condition), [found, unit.right])
            continue
        flag = a.Variable(f"{HIDDEN}unit{number}")
        found = Above(p.ExistsNode(hole, hole, unit.condition, flag.name), [found, unit.right])
        found = Above(p.FilterNode(hole, a.Call("!", (flag,)) if unit.kind == "anti" else flag), [found])
    for condition in draft.filters:
        if condition not in early:
            found = Above(p.FilterNode(hole, condition), [found])
    return found


def conjuncts(condition: a.Expression | None) -> list[a.Expression]:
    """The parts of a conjunction, each of which a row must pass."""
    return [] if condition is None else operands(condition, "&&")


def renamed(draft: LogicalBlock, names: Mapping[str, str]) -> LogicalBlock:
    """The draft with other names for some of its variables."""
    if not names:
        return draft

    def name(n: a.Name) -> a.Name:
        return a.Variable(names[n.name]) if isinstance(n, a.Variable) and n.name in names else n

    def node(n: a.Node) -> a.Node:
        return a.TripleTerm(node(n.s), node(n.p), node(n.o)) if isinstance(n, a.TripleTerm) else name(n)

    def source(s: a.Source) -> a.Source:
        if isinstance(s, a.InWindow) and s.graph is not None:
            return replace(s, graph=name(s.graph))
        return a.NamedGraph(name(s.name)) if isinstance(s, a.NamedGraph) else s

    return LogicalBlock(
        [(a.TriplePattern(node(t.s), node(t.p), node(t.o)), source(s)) for t, s in draft.patterns],
        [
            replace(part, relation=part.relation.rename({v: names.get(v, v) for v in part.relation.variables}))
            for part in draft.statics
        ],
        [expression_renamed(f, names) for f in draft.filters],
        [
            OuterJoinUnit(
                unit.kind,
                renamed(unit.right, names),
                frozenset(names.get(v, v) for v in unit.on),
                frozenset(names.get(v, v) for v in unit.reads),
                None if unit.condition is None else expression_renamed(unit.condition, names),
            )
            for unit in draft.units
        ],
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
        case LogicalBlock():
            found = [*normal.filters, *(unit.condition for unit in normal.units if unit.condition is not None)]
            return normal.variables.union(*map(read_by, found), *(unit.right.variables for unit in normal.units))
        case Above(node, inputs):
            return set(node.own_variables).union(*map(mentioned, inputs))
        case p.ValuesNode(variables, _):
            return set(variables)
        case p.StaticNode(static):
            return set(static.variables)
    return set()
