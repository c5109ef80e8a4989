"""A sub-select over a block is part of the block around it; its hidden variables get names that no other pattern has."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from cqels_opt.compiler.logical_blocks import LogicalBlock, LogicalOperator, LogicalPlan, OuterJoinUnit
from cqels_opt.compiler.rules.context import Context
from cqels_opt.compiler.rules.late_binds import Bind, strip_binds, with_binds
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
    hidden = {v: f"{v}{suffix}" for v in sorted((made - wanted) | (read - made))}
    return with_binds(_renamed(block, hidden), [(hidden.get(v, v), _expression_renamed(e, hidden)) for v, e in kept])


def _renamed(block: LogicalBlock, names: Mapping[str, str]) -> LogicalBlock:
    if not names:
        return block

    def name(n: a.Name) -> a.Name:
        return a.Variable(names[n.name]) if isinstance(n, a.Variable) and n.name in names else n

    def node(n: a.Node) -> a.Node:
        return a.TripleTerm(node(n.s), node(n.p), node(n.o)) if isinstance(n, a.TripleTerm) else name(n)

    def source(s: a.Source) -> a.Source:
        if isinstance(s, a.InWindow) and s.graph is not None:
            return replace(s, graph=name(s.graph))
        return a.NamedGraph(name(s.name)) if isinstance(s, a.NamedGraph) else s

    def names_of(variables: Collection[str]) -> frozenset[str]:
        return frozenset(names.get(v, v) for v in variables)

    return LogicalBlock(
        [(a.TriplePattern(node(t.s), node(t.p), node(t.o)), source(s)) for t, s in block.patterns],
        [
            replace(part, relation=part.relation.rename({v: names.get(v, v) for v in part.relation.variables}))
            for part in block.statics
        ],
        [_expression_renamed(f, names) for f in block.filters],
        [
            OuterJoinUnit(
                unit.kind,
                _renamed(unit.right, names),
                names_of(unit.on),
                names_of(unit.reads),
                None if unit.condition is None else _expression_renamed(unit.condition, names),
            )
            for unit in block.units
        ],
    )


def _expression_renamed(expression: a.Expression, names: Mapping[str, str]) -> a.Expression:
    if isinstance(expression, a.Variable):
        return a.Variable(names.get(expression.name, expression.name))
    if isinstance(expression, a.Call):
        return a.Call(expression.function, tuple(_expression_renamed(part, names) for part in expression.arguments))
    return expression
