"""CONSTRUCT, ASK and DESCRIBE by definition: from the solutions of a query (heads.py rewrites it to return them) to its answer.

A row of an answer has the columns ``.s``, ``.p`` and ``.o`` of a triple, or ``.boolean``: names that no variable can have.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from cqels_opt.query.algebra import Query
from cqels_opt.verify.bags import parts_of, written_out
from cqels_opt.verify.heads import Form, hidden
from cqels_opt.verify.model import Row, Triple
from cqels_opt.verify.sparql_engine import SparqlEngine
from cqels_opt.verify.tokens import solid, tokens

Made: TypeAlias = Callable[[Counter[Row], Iterable[Triple]], Counter[Row]]
"""Maps the bag of solutions and the matched graph to the rows of the answer."""

TRIPLE = (".s", ".p", ".o")
BOOLEAN = ".boolean"
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_TRUTH = '"{}"^^<http://www.w3.org/2001/XMLSchema#boolean>'


def maker(form: Form, engine: SparqlEngine, prologue: str, query: Query) -> Made:
    """The function that builds the rows of an answer."""
    match form.word:
        case "CONSTRUCT":
            template = [tuple(_node(engine, prologue, node) for node in triple) for triple in written_out(form.text)]
            return lambda solutions, graph: _instances(template, solutions)
        case "ASK":
            return lambda solutions, graph: Counter([frozenset([(BOOLEAN, _TRUTH.format(str(bool(solutions)).lower()))])])
        case "DESCRIBE":
            items = [t.text for t in solid(tokens(form.text))]
            names = {v.name for v in query.variables} if "*" in items else {i[1:] for i in items if i[0] in "?$"}
            named = [str(_node(engine, prologue, item)) for item in items if item[0] not in "?$*"]
            return lambda solutions, graph: _descriptions(names, named, solutions, graph)
    return lambda solutions, graph: solutions


Node: TypeAlias = "str | tuple[Node, Node, Node]"


def _node(engine: SparqlEngine, prologue: str, text: str) -> Node:
    """A node of a template: ``?name``, a term resolved with the query's prologue, or the components of a triple term."""
    if text.startswith("<<("):
        s, p, o = (_node(engine, prologue, part) for part in parts_of(text))
        return s, p, o
    if text[0] in "?$":
        return f"?{text[1:]}"
    text = f"<{_TYPE}>" if text == "a" else text
    ((_, term),) = next(iter(engine.select(f"{prologue} SELECT ?x {{ BIND({text} AS ?x) }}")))
    return term


def _instances(template: Sequence[tuple[Node, ...]], solutions: Counter[Row]) -> Counter[Row]:
    """The set of the template's triples over all solutions; equal solutions have the same blank nodes."""
    found: set[Row] = set()
    for solution in solutions:
        values = dict(solution)
        for triple in template:
            s, p, o = (_value(node, values, solution) for node in triple)
            if s and p and o and _is_triple(s, p):
                found.add(_row((s, p, o)))
    return Counter(found)


def _is_triple(s: str, p: str) -> bool:
    return not s.startswith('"') and p.startswith("<") and not p.startswith("<<")


def _value(node: Node, values: dict[str, str], solution: Row) -> str | None:
    if isinstance(node, tuple):
        s, p, o = (_value(part, values, solution) for part in node)
        return f"<<( {s} {p} {o} )>>" if s and p and o and _is_triple(s, p) else None
    if not node.startswith("?"):
        return node
    if hidden(node[1:]):
        return f"_:{node[1:]}-{' '.join(sorted(n + t for n, t in solution)).encode().hex()}"
    return values.get(node[1:])


def _row(triple: Triple) -> Row:
    return frozenset(zip(TRIPLE, triple))


def _descriptions(names: set[str], named: Sequence[str], solutions: Counter[Row], graph: Iterable[Triple]) -> Counter[Row]:
    """All triples about the resources and, recursively, about the blank nodes that are their objects."""
    about: defaultdict[str, list[Triple]] = defaultdict(list)
    for triple in graph:
        about[triple[0]].append(triple)
    waiting = [*named, *(term for solution in solutions for name, term in solution if name in names)]
    reached: set[str] = set()
    found: set[Row] = set()
    while waiting:
        resource = waiting.pop()
        if resource in reached:
            continue
        reached.add(resource)
        for triple in about[resource]:
            found.add(_row(triple))
            if triple[2].startswith("_:"):
                waiting.append(triple[2])
    return Counter(found)
