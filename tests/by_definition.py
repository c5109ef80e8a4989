"""The algebra by definition (SPARQL 1.1 §18.5): bags of mappings over small datasets, for comparison with other engines.

A dataset is a set of triples of terms for each graph; "" is the default graph. Windows hold elements (SEMANTICS §1). What verify asks
pyoxigraph for is asked here of the algebra itself: slower, from the same parser, but to the letter, also where pyoxigraph departs from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cmp_to_key
from itertools import chain
from typing import TYPE_CHECKING

from cqels_opt.errors import QueryError, RunError
from cqels_opt.query import algebra as a
from cqels_opt.query.aggregates import aggregate
from cqels_opt.query.evaluate import compile_condition, compile_expression
from cqels_opt.query.functions import Context
from cqels_opt.query.numeric import ExpressionError
from cqels_opt.query.values import order_key, sort_key
from cqels_opt.query.visible import nameable, visible
from cqels_opt.rdf.terms import XSD_INTEGER, literal
from cqels_opt.verify import compare, report
from cqels_opt.verify.contents import content
from cqels_opt.verify.forms import BOOLEAN, TRIPLE
from cqels_opt.verify.instants import instants, t0_of
from cqels_opt.verify.model import Answers, Element, Inputs, Options, bare

if TYPE_CHECKING:
    from local_runs import Registered

Triple = tuple[str, str, str]
Dataset = Mapping[str, frozenset[Triple]]
Row = dict[str, str]
Bag = Counter[frozenset[tuple[str, str]]]


def answers(query: a.Query, data: Dataset) -> list[Row]:
    """The bag of answers over static data, in order."""
    return Evaluation(data, query.base, named=query.dataset and query.dataset.named).bag(query.body)


def difference(query: Registered, got: Answers, whole: bool = False) -> str | None:
    """How answers differ from those of the independent evaluation, or in the whole language from those of the definitions."""
    if not whole:
        try:
            verdict = query.judged(got)
            return None if verdict.equal else verdict.text()
        except (QueryError, RunError) as error:
            if "cannot evaluate the rewritten query" not in str(error) and "verify cannot" not in str(error):
                raise
    expected = answers_in_time(query.query, query.world.inputs(query.settings.lateness), query.settings.options)
    return report(compare(expected, got)) or None


def answers_in_time(query: a.Query, inputs: Inputs, options: Options) -> Answers:
    """All answers of a continuous query: its bag at each instant, and what the output operator makes of neighbouring ones."""
    streams = {bare(name): sorted(elements, key=lambda e: e.t) for name, elements in inputs.streams.items()}
    read = {w.name: streams[bare(w.stream)] for w in query.windows}
    times = {name: [e.t for e in elements] for name, elements in read.items()}
    named = {f"<{bare(g)}>": frozenset(triples) for g, triples in inputs.graphs.items()}
    data = {"": frozenset(inputs.default), **named}
    operator = options.operator or query.operator or "istream"
    found: Answers = Counter()
    before: Bag = Counter()
    for at in instants(query, times, options):
        places = {w.name: content(w, times[w.name], at, t0_of(w, options)) for w in query.windows}
        held = {name: [read[name][place] for place in span] for name, span in places.items()}
        windows = Windows(held, options.duplicates == "bag", at)
        now = made(query, Evaluation(data, query.base, windows=windows, named=query.dataset and query.dataset.named))
        sign, rows = {"rstream": ("=", now), "istream": ("+", now - before), "dstream": ("-", before - now)}[operator]
        found.update({(at, sign, row): count for row, count in rows.items()})
        before = now
    return found


def made(query: a.Query, evaluation: Evaluation) -> Bag:
    """The answer at an instant: solutions, a truth value, or the triples of a graph."""
    solutions = evaluation.bag(query.body)
    match query.form:
        case None:
            shown = {v.name for v in query.variables}
            return Counter(frozenset((v, t) for v, t in row.items() if v in shown) for row in solutions)
        case a.Ask():
            truth = literal(str(bool(solutions)).lower(), "http://www.w3.org/2001/XMLSchema#boolean")
            return Counter([frozenset([(BOOLEAN, truth)])])
        case a.Construct(template):
            triples = {t for row in solutions for pattern in template if (t := instance(pattern, row)) is not None}
        case a.Describe(nodes):
            wanted = {row.get(n.name, "") if isinstance(n, a.Variable) else n for n in nodes for row in [*solutions, {}]}
            triples = described(wanted, set(evaluation.data[""]).union(*map(evaluation.windows.triples, evaluation.windows.held)))
    return Counter(frozenset(zip(TRIPLE, triple)) for triple in triples)


def instance(pattern: a.TriplePattern, row: Row) -> Triple | None:
    """A triple of a template, with a blank node for each solution; None where it would be no triple."""

    def value(node: a.Node) -> str:
        if not isinstance(node, a.Variable):
            return node
        if node.name.startswith("_:"):
            return f"_:{node.name}{sorted((v, t) for v, t in row.items() if v[0].isalpha())}"
        return row.get(node.name, "")

    s, p, o = value(pattern.s), value(pattern.p), value(pattern.o)
    return (s, p, o) if s and o and not s.startswith('"') and p.startswith("<") else None


def described(wanted: set[str], graph: set[Triple]) -> set[Triple]:
    """The triples about resources, and about the blank nodes that they lead to."""
    found: set[Triple] = set()
    while fresh := {t for t in graph if t[0] in wanted} - found:
        found |= fresh
        wanted = wanted | {t[2] for t in fresh if t[2].startswith("_:")}
    return found


@dataclass(frozen=True)
class Windows:
    """The elements that each window holds at an instant. ``bag``: a triple counts as often as it came."""

    held: Mapping[str, Sequence[Element]] = field(default_factory=dict)
    bag: bool = True
    at: int = 0

    def triples(self, window: str, graph: str | None = None) -> list[Triple]:
        """Its triples, or those of its elements whose graph has a name."""
        elements = [e for e in self.held[window] if graph is None or e.graph == graph]
        return self.counted(t for e in elements for t in dict.fromkeys(e.triples))

    def counted(self, triples: Iterable[Triple]) -> list[Triple]:
        return list(triples) if self.bag else list(dict.fromkeys(triples))

    def graphs(self, window: str) -> list[str]:
        """The names of its elements' graphs."""
        return list(dict.fromkeys(e.graph for e in self.held[window] if e.graph is not None))

    def time(self, triple: Triple) -> int | None:
        """When the latest element came by which a triple is in some window."""
        return max((e.t for elements in self.held.values() for e in elements if triple in e.triples), default=None)


NONE = Windows()


class Evaluation:
    def __init__(
        self,
        data: Dataset,
        base: str | None,
        outer: Row | None = None,
        windows: Windows = NONE,
        named: tuple[str, ...] | None = None,
    ) -> None:
        self.data, self.base, self.outer, self.windows, self.named = data, base, outer or {}, windows, named
        self.context = Context(windows.at)

    def inside(self, outer: Row) -> Evaluation:
        """The same, within EXISTS of a row."""
        return Evaluation(self.data, self.base, outer, self.windows, self.named)

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
                inside = self.inside({v: term for v, term in self.outer.items() if v in names})
                return [{v: term for v, term in row.items() if v in names} for row in inside.bag(inner)]
            case a.Distinct(inner):
                return [dict(row) for row in dict.fromkeys(tuple(sorted(row.items())) for row in self.bag(inner))]
            case a.OrderBy(inner, keys):
                return self.ordered(by_terms(self.bag(inner), inner), keys)
            case a.Slice(inner, offset, limit, each):
                parts: dict[tuple[str | None, ...], list[Row]] = {}
                for row in self.in_order(inner):
                    parts.setdefault(tuple(row.get(v.name) for v in each), []).append(row)
                return [row for part in parts.values() for row in part[offset : None if limit is None else offset + limit]]

    def agreeing(self, rows: Iterable[Row]) -> list[Row]:
        """The rows of a leaf that agree with the row outside, inside EXISTS."""
        return [row for row in rows if compatible(self.outer, row)]

    def match(self, patterns: tuple[a.TriplePattern, ...], source: a.Source) -> Iterable[Row]:
        name = a.graph_in(source)
        for graph in self.graphs(source):
            start = {name.name: graph} if isinstance(name, a.Variable) else {}
            yield from matches(patterns, self.triples(source, graph), start)

    def graphs(self, source: a.Source) -> list[str]:
        """The names of the graphs that a source ranges over; "" for one without a name."""
        name = a.graph_in(source)
        if name is None:
            return [""]
        static = [g for g in self.data if g and (self.named is None or g in self.named)]
        there = self.windows.graphs(source.window) if isinstance(source, a.InWindow) else static
        known = self.outer.get(name.name) if isinstance(name, a.Variable) else name
        return [graph for graph in there if known in (None, graph)]

    def triples(self, source: a.Source, graph: str) -> Sequence[Triple]:
        """The bag of triples of a source, in one of its graphs."""
        match source:
            case a.InWindow(window):
                return self.windows.triples(window, graph or None)
            case a.Merged(windows, default):
                return self.windows.counted(chain(self.triples(default, ""), *map(self.windows.triples, windows)))
            case a.GraphsMerged(names):
                return list(frozenset().union(*(self.data.get(name, frozenset()) for name in names)))
        return list(self.data[graph])

    def paths(self, node: a.Closure) -> Iterable[Row]:
        """ALP and ZeroOrOnePath: from each start, whatever is reached, once."""
        name, ends = a.graph_in(node.source), (node.start, node.end)
        for graph in self.graphs(node.source):
            inside = {name.name: graph} if isinstance(name, a.Variable) else {}
            steps = self.inside({**self.outer, **inside}).bag(node.step)
            edges = {(row[node.here.name], row[node.there.name]) for row in steps}
            triples = self.triples(node.source, graph)
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

    def left_join(self, lefts: list[Row], rights: list[Row], condition: a.Expression | None) -> list[Row]:
        found = []
        for x in lefts:
            pairs = [{**x, **y} for y in rights if compatible(x, y)]
            found += [row for row in pairs if condition is None or self.holds(condition, row)] or [x]
        return found

    def holds(self, condition: a.Expression, row: Row) -> bool:
        bound = {**self.outer, **row}
        return compile_condition(self.stamped(condition, bound), self.exists, base=self.base)(bound, self.context)

    def stamped(self, expression: a.Expression, row: Row) -> a.Expression:
        """The expression with the times in the place of C-SPARQL's timestamp() of triples; an error where there is none."""
        if not isinstance(expression, a.Call):
            return expression
        if expression.function != a.TIMESTAMP:
            return replace(expression, arguments=tuple(self.stamped(x, row) for x in expression.arguments))
        s, p, o = (row.get(x.name, "") if isinstance(x, a.Variable) else x.term for x in expression.arguments)  # type: ignore[union-attr]
        time = self.windows.time((s, p, o))
        return a.Call("COALESCE", ()) if time is None else a.Constant(literal(str(time), XSD_INTEGER))

    def exists(self, expression: a.Exists):  # type: ignore[no-untyped-def]
        def check(row: Mapping[str, str]) -> bool:
            inner = self.inside(dict(row))
            return any(compatible(dict(row), found) for found in inner.bag(expression.pattern))

        return check

    def extended(self, row: Row, variable: a.Variable, expression: a.Expression) -> Row:
        bound = {**self.outer, **row}
        try:
            compiled = compile_expression(self.stamped(expression, bound), self.exists, base=self.base)
            return {**row, variable.name: compiled(bound, self.context)}
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
                    whole = {v.name for v in nameable(visible(node.input))}
                    chosen = (
                        {tuple(sorted((v, t) for v, t in row.items() if v in whole)) for row in rows} if wanted.distinct else rows
                    )
                    members = [("<row>", 1) for _ in chosen]
                    term = aggregate("COUNT")(members)
                else:
                    members = [(self.value(row, wanted.argument), 1) for row in rows]
                    term = aggregate(wanted.function, wanted.distinct, wanted.separator)(members)
                if term is not None:
                    made[variable.name] = term
            found.append(made)
        return found

    def in_order(self, node: a.Algebra) -> list[Row]:
        """The rows that LIMIT and OFFSET cut: what ORDER BY leaves open is in the order of terms (SEMANTICS §6)."""
        below: a.Algebra = node
        while isinstance(below, a.Project | a.Distinct):
            below = below.input
        rows = self.bag(node)
        if isinstance(below, a.OrderBy):
            return rows
        return by_terms(rows, node)

    def ordered(self, rows: list[Row], keys: tuple[tuple[a.Expression, bool], ...]) -> list[Row]:
        def before(x: Row, y: Row) -> int:
            for key, descending in keys:
                left, right = sort_key(self.value(x, key)), sort_key(self.value(y, key))
                if left != right:
                    return (1 if left > right else -1) * (-1 if descending else 1)
            return 0

        return sorted(rows, key=cmp_to_key(before))


def by_terms(rows: list[Row], of: a.Algebra) -> list[Row]:
    """Rows in the order of their terms, variable by variable."""
    names = sorted(v.name for v in nameable(visible(of)))
    return sorted(rows, key=lambda row: [order_key(row.get(name)) for name in names])


def compatible(x: Row, y: Row) -> bool:
    return all(x.get(name, term) == term for name, term in y.items())


def matches(patterns: tuple[a.TriplePattern, ...], triples: Sequence[Triple], row: Row) -> Iterable[Row]:
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
