"""SELECT and its solution modifiers as text: the nodes from a projection down to the group pattern."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cqels_opt.query import algebra as a
from cqels_opt.query.printing.formulas import constraint, expression
from cqels_opt.query.printing.writing import Writing
from cqels_opt.query.visible import visible


@dataclass
class Parts:
    """A query's algebra taken apart. ``made`` are the expressions of SELECT over groups; without groups they are BINDs of the body."""

    body: a.Algebra
    variables: tuple[a.Variable, ...] = ()
    distinct: bool = False
    slice: a.Slice | None = None
    order: tuple[tuple[a.Expression, bool], ...] = ()
    made: dict[a.Variable, a.Expression] = field(default_factory=dict)
    group: a.Group | None = None
    having: a.Expression | None = None
    values: a.Values | None = None


def parts_of(node: a.Algebra) -> Parts:
    """The parts of a node that is a whole query or sub-select."""
    found = Parts(node)
    if isinstance(found.body, a.Slice):
        found.slice, found.body = found.body, found.body.input
    if isinstance(found.body, a.Distinct):
        found.distinct, found.body = True, found.body.input
    assert isinstance(found.body, a.Project)
    found.variables, found.body = found.body.variables, found.body.input
    if isinstance(found.body, a.OrderBy):
        found.order, found.body = found.body.keys, found.body.input
    below, made = found.body, dict[a.Variable, a.Expression]()
    while isinstance(below, a.Extend) and one_group(below) is None:
        made[below.variable] = below.expression
        below = below.input
    values = below.right if isinstance(below, a.Join) and isinstance(below.right, a.Values) else None
    grouped = below.left if isinstance(below, a.Join) and values is not None else below
    having = grouped.condition if isinstance(grouped, a.Filter) else None
    grouped = grouped.input if isinstance(grouped, a.Filter) else grouped
    one = one_group(grouped)
    group = one[0] if one is not None else grouped
    if isinstance(group, a.Group):
        return replace(found, body=group.input, made=made, group=group, having=having, values=values)
    return found


def one_group(node: a.Algebra) -> tuple[a.Group, a.Variable] | None:
    """The group of all, and its graph, that ``query.graphs.group_per_key`` has read within GRAPH ?g as one of each graph."""
    named: list[tuple[a.Variable, a.Variable]] = []
    while isinstance(node, a.Extend) and isinstance(node.expression, a.Call) and node.expression.function == "IF":
        inner = node.expression.arguments[1]
        if not isinstance(inner, a.Variable):
            return None
        named.append((node.variable, inner))
        node = node.input
    match node:
        case a.LeftJoin(a.Bgp((), source), a.Group(body, (graph,), made)) if named and graph == a.graph_in(source):
            of = dict(made)
            if any(inner not in of for _, inner in named):  # the outermost is one that the query itself has written
                return None
            return a.Group(body, (), tuple((name, of[inner]) for name, inner in reversed(named)), implicit=True), graph
    return None


def graph_of(node: a.Algebra) -> a.Variable | None:
    """The variable of the GRAPH in each of whose graphs a sub-select is evaluated by itself; None if there is no such variable."""
    while not isinstance(node, a.Project):
        if isinstance(node, a.Slice) and node.each:
            return node.each[0]
        if not isinstance(node, a.Slice | a.Distinct):
            return None
        node = node.input
    below = node.input
    while isinstance(below, a.OrderBy | a.Extend | a.Filter) or (isinstance(below, a.Join) and isinstance(below.right, a.Values)):
        if (one := one_group(below)) is not None:
            return one[1]
        below = below.left if isinstance(below, a.Join) else below.input
    return None


def select(writing: Writing, node: a.Algebra, head: str | None = None, clauses: str = "", operator: str = "") -> str:
    """The text of a query or sub-select. ``head`` stands instead of ``SELECT …``, ``clauses`` before WHERE, ``operator`` behind SELECT."""
    parts, form = parts_of(node), writing.query.form if node is writing.query.body else None
    named = [variable for variable in parts.variables if variable != writing.graph]  # which the graph adds by itself
    aggregates = {v.name: spec for v, spec in parts.group.aggregates} if parts.group is not None else {}
    within = replace(writing, aggregates=aggregates)
    items = " ".join(_item(within, variable, parts.made) for variable in named) or "*"
    text = [head if head is not None else f"SELECT{operator} {'DISTINCT ' * parts.distinct}{items}", clauses]
    body = replace(writing, aggregates={})
    text.append(f"WHERE {{ {writing.pattern(body, _with_names_hidden(writing, parts, form))} }}")
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


def _with_names_hidden(writing: Writing, parts: Parts, form: a.Form | None) -> a.Algebra:
    """The pattern of a query. Where something reads all variables of its rows, a sub-select hides blank nodes that only the text names.

    ``form`` is that of the query, unless the parts are those of a sub-select. Blank nodes of a template are made of whole rows.
    """
    if parts.group is not None:
        reads_all = any(spec.distinct and spec.argument is None for _, spec in parts.group.aggregates)
    else:
        stars = not parts.variables and not isinstance(form, a.Ask)
        reads_all = stars or isinstance(form, a.Construct) or bool(parts.order) or parts.slice is not None
    found = visible(parts.body) if reads_all else ()
    blank = {variable for variable in found if variable.name.startswith("_:")}
    if not any(writing.node(variable).startswith("?") for variable in blank):
        return parts.body
    if blank == {*found}:
        writing.fail("it reads all variables, and a blank node between the steps of a path would become one of them")
    return a.Project(parts.body, tuple(variable for variable in found if variable not in blank))


def _item(writing: Writing, variable: a.Variable, made: dict[a.Variable, a.Expression]) -> str:
    if variable not in made:
        return writing.node(variable)
    return f"({expression(writing, made[variable])} AS {writing.node(variable)})"


def _key(writing: Writing, key: a.Expression, descending: bool) -> str:
    text = expression(writing, key)
    return (
        text
        if isinstance(key, a.Variable) and not descending and text.startswith("?")
        else f"{'DESC' if descending else 'ASC'}({text})"
    )
