"""Algebra as text for goldens: one node per line, its inputs indented."""

from __future__ import annotations

from cqels_opt.query import algebra as a


def show_query(query: a.Query) -> str:
    lines = [f"dialect {query.dialect}, operator {query.operator}, columns {' '.join(map(str, query.variables))}"]
    for window, clause in zip(query.windows, query.clauses):
        numbers = [f"{name} {value}" for name in ("width", "slide", "count", "every", "step") if (value := getattr(window, name))]
        text = query.text[clause.start : clause.end].replace("\n", " ")
        lines.append(f"window {window.name} = {window.kind} {' '.join(numbers)} of {window.stream} from '{text}'")
    return "\n".join([*lines, *show(query.body)]) + "\n"


def show(node: a.Algebra, depth: int = 0) -> list[str]:
    head, inputs = _head(node)
    return ["  " * depth + head] + [line for child in inputs for line in show(child, depth + 1)]


def _head(node: a.Algebra) -> tuple[str, list[a.Algebra]]:
    match node:
        case a.Bgp(patterns, source):
            return f"bgp in {_source(source)}: " + " . ".join(f"{p.s} {p.p} {p.o}" for p in patterns), []
        case a.Join(left, right) | a.Union(left, right) | a.Minus(left, right):
            return type(node).__name__.lower(), [left, right]
        case a.LeftJoin(left, right, condition):
            return "left join" + (f" if {expression(condition)}" if condition is not None else ""), [left, right]
        case a.Filter(inner, condition):
            return f"filter {expression(condition)}", [inner]
        case a.Extend(inner, variable, value):
            return f"extend {variable} := {expression(value)}", [inner]
        case a.Values(variables, rows):
            return f"values {' '.join(map(str, variables))} {rows}", []
        case a.Group(inner, keys, aggregates, implicit):
            made = ", ".join(f"{variable} := {_aggregate(aggregate)}" for variable, aggregate in aggregates)
            return f"group by {' '.join(map(str, keys)) or ('all' if implicit else 'nothing')}: {made}", [inner]
        case a.Project(inner, variables):
            return f"project {' '.join(map(str, variables))}", [inner]
        case a.Distinct(inner):
            return "distinct", [inner]
        case a.OrderBy(inner, keys):
            return "order by " + ", ".join(expression(key) + " desc" * descending for key, descending in keys), [inner]
        case a.Slice(inner, offset, limit):
            return f"slice {offset} {limit}", [inner]


def _source(source: a.Source) -> str:
    match source:
        case a.DefaultGraph():
            return "default"
        case a.NamedGraph(name):
            return f"graph {name}"
        case a.InWindow(window, graph):
            return f"window {window}" + (f" graph {graph}" if graph is not None else "")
        case a.Merged(windows):
            return f"merge of default and {' '.join(windows)}"


def expression(node: a.Expression) -> str:
    match node:
        case a.Variable():
            return str(node)
        case a.Constant(term):
            return term
        case a.Call(function, arguments):
            return f"({' '.join([function, *map(expression, arguments)])})"
        case a.Exists(pattern, negated):
            return f"{'not ' * negated}exists {{{' / '.join(show(pattern))}}}"


def _aggregate(aggregate: a.Aggregate) -> str:
    argument = "*" if aggregate.argument is None else expression(aggregate.argument)
    separator = f" separator {aggregate.separator!r}" if aggregate.function == "GROUP_CONCAT" else ""
    return f"{aggregate.function}({'distinct ' * aggregate.distinct}{argument}{separator})"
