"""From an algebra operator to the operator of the logical plan, one function per class of the algebra. No function rewrites anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from cqels_opt.compiler.block_builder import BlockBuilder
from cqels_opt.compiler.extension_operator import extension_operator
from cqels_opt.compiler.logical_blocks import (
    HOLE,
    LogicalBlock,
    LogicalOperator,
    LogicalPlan,
    join,
    pattern_variables,
    union,
    windows_of,
)
from cqels_opt.compiler.variable_usage import counts_whole_rows, written_in
from cqels_opt.operators import compiled_query as p
from cqels_opt.query import algebra as a
from cqels_opt.query.templates import INSTANCE
from cqels_opt.query.visible import visible
from cqels_opt.windows.kinds import kind_of

Inputs: TypeAlias = Callable[[a.Algebra], LogicalPlan]
"""Gives the plan of an input of an operator."""

Translation: TypeAlias = Callable[[Any, Inputs, BlockBuilder], LogicalPlan]
"""Gives the plan of an operator of one class."""


# ------------------------------------------------------------------ patterns
def _bgp(node: a.Bgp, inputs: Inputs, builder: BlockBuilder) -> LogicalPlan:
    match node:
        case a.Bgp((), a.NamedGraph(name)):
            return LogicalBlock(statics=[builder.statics.named_graphs(name)])
        case a.Bgp((), a.InWindow(_, name) as source) if name is not None:
            return _element_graphs(name, source, builder)
        case a.Bgp(patterns, (a.InWindow() | a.Merged()) as source):
            if not builder.distinct:
                return LogicalBlock([(pattern, source) for pattern in patterns])
            return _matched_as_set(patterns, source, builder)
    return LogicalBlock(
        [part for pattern in node.patterns for part in builder.statics.without_triple_terms(pattern, node.source)]
    )


def _matched_as_set(patterns: tuple[a.TriplePattern, ...], source: a.InWindow | a.Merged, builder: BlockBuilder) -> LogicalPlan:
    """Patterns that match each triple once. In windows of the last n elements, whose ends depend on later elements, the bag is joined and
    each match counts once."""
    block = LogicalBlock([(pattern, _static_if_present(pattern, source, builder)) for pattern in patterns])
    if block.moving and any(kind_of(builder.windows[name]).counts_elements for name in windows_of(source)):
        return LogicalOperator(p.DistinctNode(HOLE, tuple(sorted(block.variables))), [block])
    return block


def _static_if_present(pattern: a.TriplePattern, source: a.InWindow | a.Merged, builder: BlockBuilder) -> a.Source:
    """The source of a pattern. A static triple without variables is always present: in a set the windows add nothing to it."""
    if isinstance(source, a.Merged) and not pattern_variables(pattern, source) and builder.statics.rows(pattern, source.default):
        builder.set_aside(pattern, source)
        return source.default
    return source


def _element_graphs(name: a.Node, source: a.InWindow, builder: BlockBuilder) -> LogicalPlan:
    """``GRAPH name {}`` in a window: the names of its elements' graphs, each once at a time, or whether this graph occurs."""
    number = builder.fresh_number()
    anything = a.TriplePattern(*(a.Variable(f"_:{place}~{number}") for place in "spo"))
    names = (name.name,) if isinstance(name, a.Variable) else ()
    return LogicalOperator(p.DistinctNode(HOLE, names), [LogicalBlock([(anything, source)])])


def _closure(node: a.Closure, inputs: Inputs, builder: BlockBuilder) -> LogicalPlan:
    graph = a.graph_in(node.source)
    start, end = (n.name if isinstance(n, a.Variable) else int(builder.terms.ids([n])[0]) for n in (node.start, node.end))
    graph_name = graph.name if isinstance(graph, a.Variable) else None
    above = p.ClosureNode(HOLE, None, node.here.name, node.there.name, start, end, graph_name, node.many)
    return LogicalOperator(above, [inputs(part) for part in (node.step, node.nodes) if part is not None])


def _values(node: a.Values, inputs: Inputs, builder: BlockBuilder) -> LogicalPlan:
    names = _names(node.variables)
    if node.variables[:1] == (INSTANCE,):
        return LogicalBlock(statics=[builder.statics.inline("instances", names, node.rows)])
    ids = builder.terms.ids([term for row in node.rows for term in row]).reshape(len(node.rows), len(names))
    return p.ValuesNode(names, tuple(map(tuple, ids.tolist())))


# ------------------------------------------------------------------ operators
def _join(node: a.Join, inputs: Inputs, builder: BlockBuilder) -> LogicalPlan:
    return join(inputs(node.left), inputs(node.right))


def _union(node: a.Union, inputs: Inputs, builder: BlockBuilder) -> LogicalPlan:
    return union([inputs(node.left), inputs(node.right)])


def _left_join(node: a.LeftJoin, inputs: Inputs, builder: BlockBuilder) -> LogicalPlan:
    return LogicalOperator(p.LeftJoinNode(HOLE, HOLE, node.condition), [inputs(node.left), inputs(node.right)])


def _minus(node: a.Minus, inputs: Inputs, builder: BlockBuilder) -> LogicalPlan:
    return LogicalOperator(p.MinusNode(HOLE, HOLE, _names(node.apart)), [inputs(node.left), inputs(node.right)])


def _unary(operator: Callable[[Any], p.Tree]) -> Translation:
    """The translation to an operator with one input; ``operator`` makes it from a node of the algebra."""
    return lambda node, inputs, builder: LogicalOperator(operator(node), [inputs(node.input)])


def _group(node: a.Group, inputs: Inputs, builder: BlockBuilder) -> LogicalPlan:
    aggregates = tuple((variable.name, spec) for variable, spec in node.aggregates)
    whole = written_in(node.input) if counts_whole_rows(node) else ()
    return LogicalOperator(p.GroupNode(HOLE, _names(node.keys), aggregates, node.implicit, whole), [inputs(node.input)])


def _service(node: a.Service, inputs: Inputs, builder: BlockBuilder) -> LogicalPlan:
    names = written_in(node.input)
    projected = LogicalOperator(p.ProjectNode(HOLE, names), [inputs(node.input)])
    return LogicalOperator(extension_operator(node, HOLE, names), [projected])


def _names(variables: tuple[a.Variable, ...]) -> tuple[str, ...]:
    return tuple(variable.name for variable in variables)


TRANSLATIONS: Final[Mapping[type[a.Algebra], Translation]] = {
    a.Bgp: _bgp,
    a.Closure: _closure,
    a.Values: _values,
    a.Join: _join,
    a.Union: _union,
    a.LeftJoin: _left_join,
    a.Minus: _minus,
    a.Filter: _unary(lambda node: p.FilterNode(HOLE, node.condition)),
    a.Extend: _unary(lambda node: p.ExtendNode(HOLE, node.variable.name, node.expression)),
    a.Project: _unary(lambda node: p.ProjectNode(HOLE, _names(node.variables))),
    a.Distinct: _unary(lambda node: p.DistinctNode(HOLE, _names(visible(node.input)))),
    a.Group: _group,
    a.OrderBy: _unary(lambda node: p.OrderNode(HOLE, node.keys, 0, None, written_in(node.input))),
    a.Slice: _unary(lambda node: p.OrderNode(HOLE, (), node.offset, node.limit, written_in(node.input), _names(node.each))),
    a.Service: _service,
}
"""The translation of each class of the algebra."""
