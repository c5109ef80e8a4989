"""SELECT and its solution modifiers as text: the nodes from a projection down to the group pattern."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cqels_opt.query.algebra import (
    Algebra,
    Bgp,
    Call,
    Distinct,
    Expression,
    Extend,
    Filter,
    Group,
    Join,
    LeftJoin,
    OrderBy,
    Project,
    Slice,
    Values,
    Variable,
    graph_in,
)
from cqels_opt.query.printing.formulas import constraint, expression
from cqels_opt.query.printing.writing import Writing


@dataclass
class Parts:
    """A query's algebra taken apart. ``made`` are the expressions of SELECT over groups; without groups they are BINDs of the body."""

    body: Algebra
    variables: tuple[Variable, ...] = ()
    distinct: bool = False
    slice: Slice | None = None
    order: tuple[tuple[Expression, bool], ...] = ()
    made: dict[Variable, Expression] = field(default_factory=dict)
    group: Group | None = None
    having: Expression | None = None
    values: Values | None = None


def parts_of(node: Algebra) -> Parts:
    """The parts of a node that is a whole query or sub-select."""
    found = Parts(node)
    if isinstance(found.body, Slice):
        found.slice, found.body = found.body, found.body.input
    if isinstance(found.body, Distinct):
        found.distinct, found.body = True, found.body.input
    assert isinstance(found.body, Project)
    found.variables, found.body = found.body.variables, found.body.input
    if isinstance(found.body, OrderBy):
        found.order, found.body = found.body.keys, found.body.input
    below, made = found.body, dict[Variable, Expression]()
    while isinstance(below, Extend) and one_group(below) is None:
        made[below.variable] = below.expression
        below = below.input
    values = below.right if isinstance(below, Join) and isinstance(below.right, Values) else None
    grouped = below.left if isinstance(below, Join) and values is not None else below
    having = grouped.condition if isinstance(grouped, Filter) else None
    grouped = grouped.input if isinstance(grouped, Filter) else grouped
    one = one_group(grouped)
    group = one[0] if one is not None else grouped
    if isinstance(group, Group):
        return replace(found, body=group.input, made=made, group=group, having=having, values=values)
    return found


def one_group(node: Algebra) -> tuple[Group, Variable] | None:
    """The group of all, and its graph, that ``query.graphs.group_per_graph`` has read within GRAPH ?g as one of each graph."""
    named: list[tuple[Variable, Variable]] = []
    while isinstance(node, Extend) and isinstance(node.expression, Call) and node.expression.function == "IF":
        inner = node.expression.arguments[1]
        if not isinstance(inner, Variable):
            return None
        named.append((node.variable, inner))
        node = node.input
    match node:
        case LeftJoin(Bgp((), source), Group(body, (graph,), made)) if named and graph == graph_in(source):
            of = dict(made)
            if any(inner not in of for _, inner in named):  # the outermost is one that the query itself has written
                return None
            return Group(body, (), tuple((name, of[inner]) for name, inner in reversed(named)), implicit=True), graph
    return None


def graph_of(node: Algebra) -> Variable | None:
    """The variable of the GRAPH in each of whose graphs a sub-select is evaluated by itself; None if there is no such variable."""
    while not isinstance(node, Project):
        if isinstance(node, Slice) and node.each:
            return node.each[0]
        if not isinstance(node, Slice | Distinct):
            return None
        node = node.input
    below = node.input
    while isinstance(below, OrderBy | Extend | Filter) or (isinstance(below, Join) and isinstance(below.right, Values)):
        if (one := one_group(below)) is not None:
            return one[1]
        below = below.left if isinstance(below, Join) else below.input
    return None


def select(writing: Writing, node: Algebra, head: str | None = None, clauses: str = "", operator: str = "") -> str:
    """The text of a query or sub-select. ``head`` stands instead of ``SELECT …``, ``clauses`` before WHERE, ``operator`` behind SELECT."""
    parts = parts_of(node)
    named = [variable for variable in parts.variables if variable != writing.graph]  # which the graph adds by itself
    aggregates = {v.name: spec for v, spec in parts.group.aggregates} if parts.group is not None else {}
    within = replace(writing, aggregates=aggregates)
    items = " ".join(_item(within, variable, parts.made) for variable in named) or "*"
    text = [head if head is not None else f"SELECT{operator} {'DISTINCT ' * parts.distinct}{items}", clauses]
    body = replace(writing, aggregates={})
    text.append(f"WHERE {{ {writing.pattern(body, parts.body)} }}")
    if parts.group is not None:
        if keys := [key for key in parts.group.keys if key != writing.graph]:
            text.append(f"GROUP BY {' '.join(map(writing.node, keys))}")
        if parts.having is not None:
            text.append(f"HAVING {constraint(within, parts.having)}")
    if parts.order:
        text.append(f"ORDER BY {' '.join(_key(within, key, descending) for key, descending in parts.order)}")
    if parts.slice is not None:
        text += [f"LIMIT {parts.slice.limit}"] * (parts.slice.limit is not None)
        text += [f"OFFSET {parts.slice.offset}"] * (parts.slice.offset > 0 or parts.slice.limit is None)
    if parts.values is not None:
        text.append(writing.pattern(body, parts.values))
    return " ".join(filter(None, text))


def _item(writing: Writing, variable: Variable, made: dict[Variable, Expression]) -> str:
    if variable not in made:
        return writing.node(variable)
    return f"({expression(writing, made[variable])} AS {writing.node(variable)})"


def _key(writing: Writing, key: Expression, descending: bool) -> str:
    text = expression(writing, key)
    return (
        text
        if isinstance(key, Variable) and not descending and text.startswith("?")
        else f"{'DESC' if descending else 'ASC'}({text})"
    )
