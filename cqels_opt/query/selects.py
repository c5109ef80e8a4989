"""SELECT: from its clauses and solution modifiers to the algebra (SPARQL 1.1 §18.2.4 and §18.2.5)."""

from __future__ import annotations

from dataclasses import dataclass

from cqels_opt.query import algebra as a
from cqels_opt.query.formulas import read_expression, used
from cqels_opt.query.graphs import group_per_key, join, unit
from cqels_opt.query.groups import filtered, read_group, read_values
from cqels_opt.query.never_bound import meant
from cqels_opt.query.reading import Aggregates, Branch, Reading, Scope, branches, only, tokens
from cqels_opt.query.visible import nameable, visible


@dataclass(frozen=True, slots=True)
class _Item:
    """A column: a variable, and its expression if it is written ``(expression AS ?v)``."""

    tree: Branch
    variable: a.Variable
    expression: a.Expression | None


def read_select(reading: Reading, tree: Branch, source: a.Source) -> a.Algebra:
    """The algebra of a query or ``sub_select``; its outermost Project names the variables of an answer.

    For a query that is not a SELECT, these are all variables that its solutions can bind.
    """
    where, modifiers = only(tree, "where_clause", "where_template"), _child(tree, "modifiers")
    head = only(tree, "select_clause")
    output = tokens(branches(head)[0]) if head is not None else []
    if output and tree.data == "sub_select":
        reading.fail(output[0], f"{output[0]} belongs to the outermost SELECT only")
    body = read_group(reading, branches(where)[0], source) if where is not None else unit(source)

    aggregates = Aggregates(lambda: reading.fresh("agg"))
    scope = Scope(source, "in this place", aggregates)
    group_clause = only(modifiers, "group_clause")
    keys: list[a.Variable] = []
    if group_clause is not None:
        body, keys = _group_keys(reading, group_clause, body, source)
    items = _items(reading, head, scope) if head is not None else []
    having = _expressions(reading, only(modifiers, "having_clause"), scope)
    order = _order(reading, only(modifiers, "order_clause"), scope)

    star = head is None or bool(tokens(head))
    grouped = group_clause is not None or having is not None or bool(aggregates.found)
    in_scope = set(visible(body))
    values_clause = only(tree, "values_clause")
    values = read_values(reading, values_clause) if values_clause is not None else None
    inline = set(visible(values) if values is not None else ())
    _check_spelling(reading, items, in_scope | inline)
    # Within GRAPH ?g a sub-select is evaluated separately in each graph: the graph is part of its groups and rows.
    named = a.graph_in(source)
    graph = (named,) if isinstance(named, a.Variable) else ()
    if grouped:
        if star and head is not None:
            reading.fail(head, "SELECT * cannot be grouped: name the group keys and the aggregates")
        _check_keys(reading, items, set(keys) | set(aggregates.found.values()))
        in_scope = set(keys)
        made = tuple((variable, aggregate) for aggregate, variable in aggregates.found.items())
        if graph and group_clause is None:
            # one group per graph, also for a graph without matches
            body = group_per_key(a.Bgp((), source), graph, body, made, lambda: reading.fresh("agg"))
        else:
            body = a.Group(body, (*keys, *graph), made, implicit=group_clause is None)
    _check_names(reading, items, in_scope | inline)
    body = filtered(body, having or [])
    if values is not None:
        body = join(body, values)
    variables = nameable(visible(body)) if star else tuple(dict.fromkeys(item.variable for item in items))
    for item in items:
        if item.expression is not None:
            body = a.Extend(body, item.variable, item.expression)
    if order:
        body = a.OrderBy(body, tuple(order))
    body = a.Project(body, (*variables, *graph))
    if head is not None and only(head, "set_mode") is not None:
        body = a.Distinct(body)
    return _sliced(reading, body, only(modifiers, "slice_clause"), graph)


def _child(tree: Branch, rule: str) -> Branch:
    found = only(tree, rule)
    assert found is not None, rule
    return found


def _group_keys(reading: Reading, clause: Branch, body: a.Algebra, source: a.Source) -> tuple[a.Algebra, list[a.Variable]]:
    keys: list[a.Variable] = []
    for key in branches(clause):
        parts = branches(key)
        expression = read_expression(reading, parts[0], Scope(source, "in GROUP BY"))
        if len(parts) == 1 and isinstance(expression, a.Variable):
            keys.append(expression)
            continue
        variable = reading.variable(parts[1]) if len(parts) > 1 else reading.fresh("key")
        if variable in visible(body):
            reading.fail(parts[-1], f"GROUP BY cannot assign {variable}: it already has a value")
        body = a.Extend(body, variable, expression)
        keys.append(variable)
    return body, list(dict.fromkeys(keys))


def _items(reading: Reading, head: Branch, scope: Scope) -> list[_Item]:
    items: list[_Item] = []
    for tree in branches(head):
        if tree.data == "item_without_name":
            _without_name(reading, tree)
        if tree.data != "select_item":
            continue
        parts = branches(tree)
        variable = reading.variable(parts[-1])
        items.append(_Item(tree, variable, read_expression(reading, parts[0], scope) if len(parts) > 1 else None))
    return items


def _check_names(reading: Reading, items: list[_Item], in_scope: set[a.Variable]) -> None:
    for item in items:
        if item.expression is not None and item.variable in in_scope:
            reading.fail(branches(item.tree)[-1], f"AS {item.variable}: {item.variable} already has a value; choose another name")
        in_scope = in_scope | {item.variable}


def _check_spelling(reading: Reading, items: list[_Item], bound: set[a.Variable]) -> None:
    """Fails at a variable that nothing binds if its name resembles that of one that is bound and not selected."""
    made = {item.variable for item in items if item.expression is not None}
    names, selected = sorted(v.name for v in nameable(tuple(bound))), {item.variable.name for item in items}
    for item in items:
        unknown = item.expression is None and item.variable not in bound | made
        if unknown and (name := meant(item.variable.name, names, selected)) is not None:
            reading.fail(item.tree, f"{item.variable} is in SELECT, and nothing binds it; did you mean ?{name}?")


def _without_name(reading: Reading, tree: Branch) -> None:
    text = reading.source(tree)
    if sum(1 for _ in tree.find_data("aggregate")) > 1:
        reading.fail(tree, f"{text}: aggregates do not nest: compute the inner one in a sub-select, with a name")
    inside = text[1:-1].strip() if text.startswith("(") else text
    head = inside.split("(")[0]
    written = inside.replace(head, head.upper(), 1) if head.isidentifier() else inside
    name = head.lower() if head.isidentifier() else "value"
    reading.fail(tree, f"{inside} in SELECT needs a name: write ({written} AS ?{name})")


def _check_keys(reading: Reading, items: list[_Item], known: set[a.Variable]) -> None:
    for item in items:
        for variable in {item.variable} if item.expression is None else used(item.expression):
            if variable not in known:
                hint = f"add it to GROUP BY, or take SAMPLE({variable}) or another aggregate of it"
                reading.fail(item.tree, f"{variable} is not a group key: {hint}")
        if item.expression is not None:
            known = known | {item.variable}


def _expressions(reading: Reading, clause: Branch | None, scope: Scope) -> list[a.Expression] | None:
    return None if clause is None else [read_expression(reading, tree, scope) for tree in branches(clause)]


def _order(reading: Reading, clause: Branch | None, scope: Scope) -> list[tuple[a.Expression, bool]]:
    keys = []
    for key in branches(clause) if clause is not None else []:
        direction, *rest = branches(key)
        descending = direction.data == "direction" and tokens(direction)[0].type == "DESC"
        keys.append((read_expression(reading, rest[0] if rest else direction, scope), descending))
    return keys


def _sliced(reading: Reading, body: a.Algebra, clause: Branch | None, each: tuple[a.Variable, ...]) -> a.Algebra:
    if clause is None:
        return body
    numbers = {part.data: reading.whole(tokens(part)[0]) for part in branches(clause)}
    return a.Slice(body, numbers.get("offset", 0), numbers.get("limit"), each)
