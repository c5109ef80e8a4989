"""A sub-select over a block is part of the block around it; its hidden variables get names that no other pattern has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cqels_opt.compiler.logical_blocks import LogicalBlock, LogicalOperator, LogicalPlan, OuterJoinUnit
from cqels_opt.compiler.rules.context import Context
from cqels_opt.compiler.rules.late_binds import Bind, strip_binds, with_binds
from cqels_opt.compiler.static_subpatterns import StaticPart
from cqels_opt.compiler.variable_usage import substituted
from cqels_opt.operators import compiled_query as p
from cqels_opt.query import algebra as a
from cqels_opt.query.scope import seeded
from cqels_opt.query.scope import variables as read_by


def inline_projection(plan: LogicalOperator, context: Context) -> LogicalPlan | None:
    """Replaces a projection of a block, or of BINDs over one, by the block with its hidden variables renamed.

    ::

        before: (project (?a ?k) (extend ?k (* ?b 2) (block (window w (?a :p ?b)))))
        after:  (extend ?k (* ?b~0 2) (block (window w (?a :p ?b~0))))
    """
    match plan:
        case LogicalOperator(p.ProjectNode(_, variables), [inner]):
            block, binds = strip_binds(inner)
            if isinstance(block, LogicalBlock) and not any(seeded(expression) for _, expression in binds):
                return _inlined(block, binds, set(variables), f"~{context.fresh_number()}")
    return None


def _inlined(block: LogicalBlock, binds: Sequence[Bind], wanted: set[str], suffix: str) -> LogicalPlan:
    """The block below those BINDs that give a wanted variable, or that such a BIND reads; names of hidden variables get the suffix."""
    kept: list[Bind] = []
    for variable, expression in reversed(binds):
        if variable in wanted or any(variable in read_by(e) for _, e in kept):
            kept.insert(0, (variable, expression))
    made = block.variables | {v for v, _ in kept}
    read = {v for _, e in kept for v in read_by(e)}
    hidden = {v: a.Variable(f"{v}{suffix}") for v in sorted((made - wanted) | (read - made))}
    return with_binds(_renamed(block, hidden), [(_name(v, hidden), substituted(e, hidden)) for v, e in kept])


def _renamed(block: LogicalBlock, names: Mapping[str, a.Variable]) -> LogicalBlock:
    def name(n: a.Name) -> a.Name:
        return names.get(n.name, n) if isinstance(n, a.Variable) else n

    def node(n: a.Node) -> a.Node:
        return a.TripleTerm(node(n.s), node(n.p), node(n.o)) if isinstance(n, a.TripleTerm) else name(n)

    def source(s: a.Source) -> a.Source:
        if isinstance(s, a.InWindow) and s.graph is not None:
            return replace(s, graph=name(s.graph))
        return a.NamedGraph(name(s.name)) if isinstance(s, a.NamedGraph) else s

    def static(part: StaticPart) -> StaticPart:
        return replace(part, relation=part.relation.rename({v: _name(v, names) for v in part.relation.variables}))

    def unit(u: OuterJoinUnit) -> OuterJoinUnit:
        on, reads = (frozenset(_name(v, names) for v in variables) for variables in (u.on, u.reads))
        condition = None if u.condition is None else substituted(u.condition, names)
        return OuterJoinUnit(u.kind, _renamed(u.right, names), on, reads, condition)

    return LogicalBlock(
        [(a.TriplePattern(node(t.s), node(t.p), node(t.o)), source(s)) for t, s in block.patterns],
        list(map(static, block.statics)),
        [substituted(condition, names) for condition in block.filters],
        list(map(unit, block.units)),
    )


def _name(variable: str, names: Mapping[str, a.Variable]) -> str:
    return names[variable].name if variable in names else variable
