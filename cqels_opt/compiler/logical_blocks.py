"""Logical plans: blocks of joins, and the operators above them whose inputs are logical plans again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from cqels_opt.compiler.static_subpatterns import StaticPart
from cqels_opt.compiler.variable_usage import conjunction, exists_in
from cqels_opt.operators import compiled_query as p
from cqels_opt.operators.rows import HIDDEN
from cqels_opt.plans import JoinKind
from cqels_opt.query import algebra as a
from cqels_opt.query.scope import uses_now
from cqels_opt.query.scope import variables as read_by


@dataclass(slots=True)
class OuterJoinUnit:
    """A static right side of an OPTIONAL, MINUS or EXISTS that is joined within the block.

    ``on``: the variables that it shares with its left side, which binds them on every row. ``condition`` decides which of its rows match,
    and ``reads`` names the other variables of the left side in it.
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
    """Patterns with their sources, static relations, filters and outer-join units, which plans join in any legal order."""

    patterns: list[tuple[a.TriplePattern, a.Source]] = field(default_factory=list)
    statics: list[StaticPart] = field(default_factory=list)
    filters: list[a.Expression] = field(default_factory=list)
    units: list[OuterJoinUnit] = field(default_factory=list)

    @property
    def variables(self) -> set[str]:
        """The variables that the block can bind."""
        return self.certain.union(*(unit.adds for unit in self.units))

    @property
    def certain(self) -> set[str]:
        """The variables that the block binds on every row."""
        found = {v for pattern, source in self.patterns for v in pattern_variables(pattern, source)}
        return found | {v for part in self.statics for v in part.relation.variables}

    @property
    def moving(self) -> bool:
        """Whether the block reads a window."""
        return any(isinstance(source, a.InWindow | a.Merged) for _, source in self.patterns)


@dataclass(slots=True)
class LogicalOperator:
    """An operator above the blocks. The inputs of its ``node`` are placeholders, which ``with_inputs`` replaces."""

    node: p.Tree
    inputs: list[LogicalPlan]


LogicalPlan: TypeAlias = "LogicalBlock | LogicalOperator | p.Tree"
"""A block, an operator over logical plans, or a leaf that is final already: inline data or an evaluated static relation."""

HOLE = p.ValuesNode((), ())
"""The placeholder for the input of an operator."""


def join(left: LogicalPlan, right: LogicalPlan) -> LogicalOperator:
    """The join of two plans."""
    return LogicalOperator(p.JoinNode(HOLE, HOLE), [left, right])


def filtered(plan: LogicalPlan, condition: a.Expression) -> LogicalOperator:
    """A filter over a plan."""
    return LogicalOperator(p.FilterNode(HOLE, condition), [plan])


def union(parts: Iterable[LogicalPlan]) -> LogicalOperator:
    """The UNION of plans; branches that are UNIONs themselves are flattened."""
    return LogicalOperator(p.UnionNode(()), [branch for part in parts for branch in branches(part)])


def branches(plan: LogicalPlan) -> list[LogicalPlan]:
    """The branches of a UNION; any other plan is its own only branch."""
    return plan.inputs if isinstance(plan, LogicalOperator) and isinstance(plan.node, p.UnionNode) else [plan]


def pattern_variables(pattern: a.TriplePattern, source: a.Source) -> list[str]:
    """The variables of a pattern, the graph's included."""
    nodes: list[a.Node] = list(pattern.variables)
    if (graph := a.graph_in(source)) is not None:
        nodes.append(graph)
    if isinstance(source, a.InWindow) and source.time is not None:
        nodes.append(source.time)
    return list(dict.fromkeys(n.name for n in nodes if isinstance(n, a.Variable)))


def quotes(pattern: a.TriplePattern) -> bool:
    """Whether the pattern has a triple term with variables."""
    return isinstance(pattern.s, a.TripleTerm) or isinstance(pattern.o, a.TripleTerm)


def windows_of(source: a.InWindow | a.Merged) -> tuple[str, ...]:
    """The windows in which patterns of a source are matched."""
    return (source.window,) if isinstance(source, a.InWindow) else source.windows


def with_unit(
    left: LogicalBlock, kind: JoinKind, right: LogicalBlock, conditions: Iterable[a.Expression] = ()
) -> LogicalBlock | None:
    """The block with one more unit; None where the outer join has to stay above the block.

    The right side must be static and bind all its variables on every row, and the left side must bind the shared variables on every row.
    A moving right side stays above: its new rows change the matches of old rows of the left side, so its delta rule is not linear.
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


def without_units(block: LogicalBlock) -> LogicalPlan:
    """The block with its units as operators above it, and above those the filters that read what an OPTIONAL adds."""
    early = [condition for condition in block.filters if read_by(condition) <= block.certain]
    found: LogicalPlan = replace(block, filters=early, units=[])
    for number, unit in enumerate(block.units):
        if unit.kind == "optional":
            found = LogicalOperator(p.LeftJoinNode(HOLE, HOLE, unit.condition), [found, unit.right])
            continue
        flag = a.Variable(f"{HIDDEN}unit{number}")
        found = LogicalOperator(p.ExistsNode(HOLE, HOLE, unit.condition, flag.name), [found, unit.right])
        found = filtered(found, a.Call("!", (flag,)) if unit.kind == "anti" else flag)
    for condition in block.filters:
        if condition not in early:
            found = filtered(found, condition)
    return found
