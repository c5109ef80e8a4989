"""Group graph patterns: from ``{ … }`` to the algebra (SPARQL 1.1 §18.2.2), with the source of each basic graph pattern."""

from __future__ import annotations

from lark import Tree

from cqels_opt import plugins
from cqels_opt.errors import option
from cqels_opt.query import algebra as a
from cqels_opt.query.chains import LONG, chained
from cqels_opt.query.formulas import read_expression, read_iri, read_literal, read_triple_data
from cqels_opt.query.graphs import join, minus, over_graphs, unit
from cqels_opt.query.paths import together
from cqels_opt.query.reading import Branch, Reading, Scope, branches, tokens
from cqels_opt.query.scope import operands
from cqels_opt.query.triples import read_triples
from cqels_opt.query.visible import visible


def read_group(reading: Reading, tree: Branch, source: a.Source) -> a.Algebra:
    """The algebra of a group; its filters apply to the whole group."""
    pattern, filters = _parts(reading, tree, source)
    return filtered(pattern, filters)


def filtered(pattern: a.Algebra, filters: list[a.Expression]) -> a.Algebra:
    """The pattern under the conjunction of filters."""
    condition = conjunction(filters)
    return pattern if condition is None else a.Filter(pattern, condition)


def conjunction(filters: list[a.Expression]) -> a.Expression | None:
    """The conjunction of filters; None without filters."""
    if len(parts := [part for condition in filters for part in operands(condition, "&&")]) <= LONG:
        parts = filters
    return chained(parts, lambda left, right: a.Call("&&", (left, right))) if filters else None


def _parts(reading: Reading, tree: Branch, source: a.Source) -> tuple[a.Algebra, list[a.Expression]]:
    children = branches(tree)
    if children and children[0].data == "sub_select":
        return reading.read_select(reading, children[0], source), []
    if children and children[-1].data == "group_window" and reading.dialect.group_window is not None:
        source = reading.dialect.group_window(reading, children.pop(), source)
    return _Group(reading, source).read(children)


class _Group:
    """The state of reading a group: the pattern so far, the pending triple patterns, and the filters."""

    def __init__(self, reading: Reading, source: a.Source) -> None:
        self.reading, self.source = reading, source
        self.pattern: a.Algebra = unit(source)
        self.in_scope: set[a.Variable] = set(visible(self.pattern))
        self.run: list[a.TriplePattern | a.Algebra] = []
        self.number = reading.number("run")
        self.filters: list[a.Expression] = []

    def read(self, children: list[Branch]) -> tuple[a.Algebra, list[a.Expression]]:
        for child in children:
            if child.data == "triples_block":
                self.run += read_triples(self.reading, child, self.number, self.source)
            elif child.data == "filter":
                # A filter does not end a basic graph pattern (§18.2.2.5).
                scope = Scope(self.source, "in FILTER")
                self.filters.append(read_expression(self.reading, branches(child)[0], scope))
            else:
                self.end_run()
                self.add(child)
        self.end_run()
        return self.pattern, self.filters

    def end_run(self) -> None:
        if self.run:
            self.join(together(self.run, self.source))
        self.run, self.number = [], self.reading.number("run")

    def join(self, part: a.Algebra) -> None:
        self.pattern = join(self.pattern, part)
        self.in_scope.update(visible(part))

    def add(self, child: Branch) -> None:
        reading, source = self.reading, self.source
        match child.data:
            case "alternatives":
                groups = [read_group(reading, group, source) for group in branches(child)]
                self.join(chained(groups, a.Union))
            case "optional":
                right, filters = _parts(reading, branches(child)[0], source)
                self.pattern = a.LeftJoin(self.pattern, right, conjunction(filters))
                self.in_scope.update(visible(right))
            case "minus":
                self.pattern = self.minus(read_group(reading, branches(child)[0], source))
            case "graph":
                self.join(self.graph(*branches(child)))
            case "bind":
                self.bind(*branches(child))
            case "values_clause":
                self.join(read_values(reading, child))
            case "service":
                self.join(self.service(child))
            case other:
                self.join(reading.dialect.patterns[other](reading, child, source))

    def graph(self, name: Branch, group: Branch) -> a.Algebra:
        reading = self.reading
        node = graph_name(reading, name)
        window = self.source.window if reading.dialect.element_graphs and isinstance(self.source, a.InWindow) else None
        if not isinstance(node, a.Variable) or (window is None and node in reading.window_of):
            return read_group(reading, group, reading.graph(node) if window is None else a.InWindow(window, node))
        inner = reading.fresh("graph")
        source = a.NamedGraph(inner) if window is None else a.InWindow(window, inner)
        return over_graphs(read_group(reading, group, source), source, inner, node)

    def service(self, tree: Branch) -> a.Algebra:
        reading = self.reading
        name, group = branches(tree)
        iri = "" if name.data == "variable" else read_iri(reading, name)
        found = a.Service(read_group(reading, group, self.source), iri)
        if found.name not in plugins.names("operators"):
            places = option("static= or graphs=", "--static or --graph")
            reading.fail(tree, f"SERVICE is not supported: load the data with {places} instead")
        if isinstance(a.graph_in(self.source), a.Variable):
            reading.fail(tree, "SERVICE cannot stand within GRAPH with a variable: write GRAPH within SERVICE")
        return found

    def minus(self, right: a.Algebra) -> a.Algebra:
        graph = a.graph_in(self.source)
        if not isinstance(graph, a.Variable):
            return a.Minus(self.pattern, right)
        return minus(self.pattern, right, graph)

    def bind(self, value: Branch, name: Branch) -> None:
        variable = self.reading.variable(name)
        if variable in self.in_scope:
            self.reading.fail(name, f"BIND cannot assign {variable}: it already has a value in this group")
        expression = read_expression(self.reading, value, Scope(self.source, "in BIND"))
        self.pattern = a.Extend(self.pattern, variable, expression)
        self.in_scope.add(variable)


def graph_name(reading: Reading, tree: Branch) -> a.Name:
    """The name after GRAPH; here a variable may name a window."""
    return a.Variable(tokens(tree)[0][1:]) if tree.data == "variable" else read_iri(reading, tree)


def read_values(reading: Reading, tree: Branch) -> a.Values:
    """Inline data."""
    table = branches(tree)[0]
    if table.data == "value_column":
        variables = [reading.variable(branches(table)[0])]
        rows = [[cell] for cell in table.children[1:]]
    else:
        variables = [reading.variable(child) for child in branches(table) if child.data == "variable"]
        rows = [list(child.children) for child in branches(table) if child.data == "value_row"]
        for row, at in zip(rows, (child for child in branches(table) if child.data == "value_row")):
            if len(row) != len(variables):
                reading.fail(at, f"a row of VALUES has {_counted(len(row), 'value')} for {_counted(len(variables), 'variable')}")
    if len(set(variables)) < len(variables):
        reading.fail(table, "a variable stands twice in VALUES")
    return a.Values(tuple(variables), tuple(tuple(_cell(reading, cell) for cell in row) for row in rows))


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _cell(reading: Reading, cell: object) -> str | None:
    if not isinstance(cell, Tree):
        return None
    if cell.data == "triple_data":
        return read_triple_data(reading, cell)
    return read_iri(reading, cell) if cell.data == "iri" else read_literal(reading, cell)
