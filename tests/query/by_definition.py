"""The algebra by definition (SPARQL 1.1 §18.5): bags of mappings over small static datasets, for comparison with other engines.

A dataset is a set of triples of terms for each graph; "" is the default graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cmp_to_key

from cqels_opt.query import algebra as a
from cqels_opt.query.aggregates import aggregate
from cqels_opt.query.evaluate import compile_condition, compile_expression
from cqels_opt.query.numeric import ExpressionError
from cqels_opt.query.values import order_key

Triple = tuple[str, str, str]
Dataset = Mapping[str, frozenset[Triple]]
Row = dict[str, str]


def answers(query: a.Query, data: Dataset) -> list[Row]:
    """The bag of answers, in order."""
    return Evaluation(data, query.base).bag(query.body)


class Evaluation:
    def __init__(self, data: Dataset, base: str | None, outer: Row | None = None) -> None:
        self.data, self.base, self.outer = data, base, outer or {}

    def bag(self, node: a.Algebra) -> list[Row]:
        match node:
            case a.Bgp(patterns, source):
                return self.agreeing(self.match(patterns, source))
            case a.Closure():
                return self.agreeing(self.paths(node))
            case a.Join(left, right):
                rights = self.bag(right)
                return [{**x, **y} for x in self.bag(left) for y in rights if compatible(x, y)]
            case a.LeftJoin(left, right, condition):
                return self.left_join(self.bag(left), self.bag(right), condition)
            case a.Union(left, right):
                return self.bag(left) + self.bag(right)
            case a.Minus(left, right, apart):
                rights, names = self.bag(right), {v.name for v in apart}
                return [x for x in self.bag(left) if not any(compatible(x, y) and x.keys() & y.keys() - names for y in rights)]
            case a.Filter(inner, condition):
                return [row for row in self.bag(inner) if self.holds(condition, row)]
            case a.Extend(inner, variable, expression):
                return [self.extended(row, variable, expression) for row in self.bag(inner)]
            case a.Values(variables, rows):
                return self.agreeing({v.name: term for v, term in zip(variables, row) if term is not None} for row in rows)
            case a.Group():
                return self.group(node)
            case a.Project(inner, variables):
                names = {v.name for v in variables}
                inside = Evaluation(self.data, self.base, {v: term for v, term in self.outer.items() if v in names})
                return [{v: term for v, term in row.items() if v in names} for row in inside.bag(inner)]
            case a.Distinct(inner):
                return [dict(row) for row in dict.fromkeys(tuple(sorted(row.items())) for row in self.bag(inner))]
            case a.OrderBy(inner, keys):
                return self.ordered(self.bag(inner), keys)
            case a.Slice(inner, offset, limit, each):
                parts: dict[tuple[str | None, ...], list[Row]] = {}
                for row in self.bag(inner):
                    parts.setdefault(tuple(row.get(v.name) for v in each), []).append(row)
                return [row for part in parts.values() for row in part[offset : None if limit is None else offset + limit]]

    def agreeing(self, rows: Iterable[Row]) -> list[Row]:
        """The rows of a leaf that agree with the row outside, inside EXISTS."""
        return [row for row in rows if compatible(self.outer, row)]

    def match(self, patterns: tuple[a.TriplePattern, ...], source: a.Source) -> Iterable[Row]:
        if isinstance(source, a.NamedGraph):
            name = source.name
            known = self.outer.get(name.name) if isinstance(name, a.Variable) else name
            for graph in self.data:
                if graph and known in (None, graph):
                    start = {name.name: graph} if isinstance(name, a.Variable) else {}
                    yield from matches(patterns, self.data[graph], start)
        elif isinstance(source, a.GraphsMerged):
            yield from matches(patterns, self.merged(source), {})
        else:
            yield from matches(patterns, self.data[""], {})

    def paths(self, node: a.Closure) -> Iterable[Row]:
        """ALP and ZeroOrOnePath: from each start, whatever is reached, once."""
        name = node.source.name if isinstance(node.source, a.NamedGraph) else ""
        graphs = [name]
        if isinstance(name, a.Variable):
            graphs = [g for g in self.data if g and self.outer.get(name.name, g) == g]
        for graph in graphs:
            if graph not in self.data:
                continue
            inside = {name.name: graph} if isinstance(name, a.Variable) else {}
            steps = Evaluation(self.data, self.base, {**self.outer, **inside}).bag(node.step)
            edges = {(row[node.here.name], row[node.there.name]) for row in steps}
            ends = (node.start, node.end)
            triples = self.data[graph] if not isinstance(node.source, a.GraphsMerged) else self.merged(node.source)
            nodes = {term for s, _, o in triples for term in (s, o)} | {n for n in ends if isinstance(n, str)}
            for start in nodes if isinstance(ends[0], a.Variable) else {ends[0]}:
                found = {start} if node.nodes is not None else set()
                new = {start}
                while new:
                    new = {there for here, there in edges if here in new} - found
                    found |= new
                    if not node.many:
                        break
                for end in found:
                    row = dict(inside)
                    if all(
                        row.setdefault(n.name, t) == t
                        for n, t in ((node.start, start), (node.end, end))
                        if isinstance(n, a.Variable)
                    ) and (isinstance(node.end, a.Variable) or node.end == end):
                        yield row

    def merged(self, source: a.GraphsMerged) -> frozenset[Triple]:
        return frozenset().union(*(self.data.get(name, frozenset()) for name in source.names))

    def left_join(self, lefts: list[Row], rights: list[Row], condition: a.Expression | None) -> list[Row]:
        found = []
        for x in lefts:
            pairs = [{**x, **y} for y in rights if compatible(x, y)]
            found += [row for row in pairs if condition is None or self.holds(condition, row)] or [x]
        return found

    def holds(self, condition: a.Expression, row: Row) -> bool:
        return compile_condition(condition, self.exists, base=self.base)({**self.outer, **row})

    def exists(self, expression: a.Exists):  # type: ignore[no-untyped-def]
        def check(row: Mapping[str, str]) -> bool:
            inner = Evaluation(self.data, self.base, dict(row))
            return any(compatible(dict(row), found) for found in inner.bag(expression.pattern))

        return check

    def extended(self, row: Row, variable: a.Variable, expression: a.Expression) -> Row:
        try:
            return {**row, variable.name: compile_expression(expression, self.exists, base=self.base)({**self.outer, **row})}
        except ExpressionError:
            return row

    def value(self, row: Row, expression: a.Expression) -> str | None:
        return self.extended(row, a.Variable(".value"), expression).get(".value")

    def group(self, node: a.Group) -> list[Row]:
        groups: dict[tuple[tuple[str, str], ...], list[Row]] = {(): []} if node.implicit else {}
        for row in self.bag(node.input):
            key = tuple((v.name, row[v.name]) for v in node.keys if v.name in row)
            groups.setdefault(key, []).append(row)
        found = []
        for key, rows in groups.items():
            made = dict(key)
            for variable, wanted in node.aggregates:
                members: list[tuple[str | None, int]]
                if wanted.argument is None:
                    chosen = {tuple(sorted(row.items())) for row in rows} if wanted.distinct else rows
                    members = [("<row>", 1) for _ in chosen]
                    term = aggregate("COUNT")(members)
                else:
                    members = [(self.value(row, wanted.argument), 1) for row in rows]
                    term = aggregate(wanted.function, wanted.distinct, wanted.separator)(members)
                if term is not None:
                    made[variable.name] = term
            found.append(made)
        return found

    def ordered(self, rows: list[Row], keys: tuple[tuple[a.Expression, bool], ...]) -> list[Row]:
        def before(x: Row, y: Row) -> int:
            for key, descending in keys:
                left, right = order_key(self.value(x, key)), order_key(self.value(y, key))
                if left != right:
                    return (1 if left > right else -1) * (-1 if descending else 1)
            return 0

        return sorted(rows, key=cmp_to_key(before))


def compatible(x: Row, y: Row) -> bool:
    return all(x.get(name, term) == term for name, term in y.items())


def matches(patterns: tuple[a.TriplePattern, ...], triples: frozenset[Triple], row: Row) -> Iterable[Row]:
    if not patterns:
        yield row
        return
    first = patterns[0]
    for triple in triples:
        found: Row | None = dict(row)
        for node, term in zip((first.s, first.p, first.o), triple):
            if found is not None and (found.setdefault(node.name, term) if isinstance(node, a.Variable) else node) != term:
                found = None
        if found is not None:
            yield from matches(patterns[1:], triples, found)
