"""The W3C's SPARQL query tests: which queries are accepted or rejected, and the meaning of the algebra."""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from by_definition import answers
from pyoxigraph import QueryResultsFormat, RdfFormat, parse_query_results
from pyoxigraph import parse as parse_rdf
from rdflib import Graph, Namespace

from cqels_opt.bench.w3c.manifest import ARCHIVE, W3CTest, read_tests, unpacked
from cqels_opt.errors import QueryError
from cqels_opt.query.algebra import Ask, Construct, Form, Node, Variable
from cqels_opt.query.parser import parse
from cqels_opt.query.values import value
from cqels_opt.rdf.terms import canonical
from cqels_opt.verify.isomorphic import isomorphic

pytestmark = pytest.mark.needs_shared_data
FORMATS = {".ttl": RdfFormat.TURTLE, ".rdf": RdfFormat.RDF_XML, ".nt": RdfFormat.N_TRIPLES}
RESULT = Namespace("http://www.w3.org/2001/sw/DataAccess/tests/result-set#")
RESULT_FORMATS = {".srx": QueryResultsFormat.XML, ".srj": QueryResultsFormat.JSON}
NO_FUNCTION = re.compile(r"the function <http://example(\.org)?/\S+> is not supported")
UNEQUAL = {
    "open-world/date-1.rq": "SPARQL 1.1 compares dates with an implicit time zone, as XPath does; the test has XSD's partial order",
    "reduced/reduced-1.rq": "REDUCED may keep duplicates; here it is DISTINCT",
    "reduced/reduced-2.rq": "REDUCED may keep duplicates; here it is DISTINCT",
}


@pytest.fixture(scope="module")
def cases(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[W3CTest]:
    return read_tests(unpacked(shared_data / "w3c" / ARCHIVE, tmp_path_factory.mktemp("w3c")), "1.0", "1.1")


@pytest.mark.long
def test_good_queries_are_read(cases: list[W3CTest]) -> None:
    """But for calls of functions that nobody has registered."""
    refused, read_ = list[str](), 0
    for case in cases:
        if case.kind == "bad syntax":
            continue
        try:
            parse(case.text, "cqels", case.query.name)
            read_ += 1
        except QueryError as error:
            refused.append(error.message)
    assert [message for message in refused if not NO_FUNCTION.fullmatch(message)] == []
    assert read_ >= 720 and len(refused) <= 8


def test_bad_queries_are_refused(cases: list[W3CTest]) -> None:
    bad = [case for case in cases if case.kind == "bad syntax"]
    accepted = []
    for case in bad:
        try:
            parse(case.text, "cqels")
            accepted.append(case.query.name)
        except QueryError as error:
            assert error.line >= 1 and error.column >= 1
    assert not accepted
    assert len(bad) >= 85


@pytest.mark.long
def test_the_algebra_means_what_sparql_says(cases: list[W3CTest]) -> None:
    """Every SELECT over static graphs, evaluated by definition, has the W3C's expected answers."""
    compared, unequal = 0, {}
    for case in cases:
        if case.result is None or case.result.suffix not in (".ttl", ".rdf", *RESULT_FORMATS) or case.category == "dataset":
            continue
        try:
            query = parse(case.text, "cqels")
        except QueryError:
            continue
        rows = answers(query, load(case))
        compared += 1
        if query.form is not None:
            if not as_expected(query.form, rows, case.result):
                unequal[f"{case.query.parent.name}/{case.query.name}"] = (Counter(), Counter())
            continue
        got, want = comparable(rows), comparable(expected(case.result))
        if got != want:
            unequal[f"{case.query.parent.name}/{case.query.name}"] = (got - want, want - got)
    assert not {name: both for name, both in unequal.items() if name not in UNEQUAL}
    assert set(unequal) == set(UNEQUAL), "what is equal is not explained away"
    assert compared >= 400


def as_expected(form: Form, rows: list[dict[str, str]], file: Path) -> bool:
    """Whether the solutions give the boolean, or the graph, of a result file."""
    if isinstance(form, Ask):
        if file.suffix in (".ttl", ".rdf"):
            (truth,) = Graph().parse(file, publicID=file.as_uri()).objects(None, RESULT.boolean)
            return bool(rows) == bool(truth)
        return bool(rows) == bool(parse_query_results(path=str(file), format=RESULT_FORMATS[file.suffix]))
    assert isinstance(form, Construct)
    made = set()
    for number, row in enumerate(rows):
        for triple in form.template:
            found = [instance(node, row, number) for node in (triple.s, triple.p, triple.o)]
            if None not in found and not str(found[0]).startswith('"') and str(found[1]).startswith("<"):
                made.add((str(found[0]), str(found[1]), str(found[2])))
    return isomorphic(made, triples(file))


def instance(node: Node, row: dict[str, str], number: int) -> str | None:
    if not isinstance(node, Variable):
        return node
    return f"{node.name}x{number}" if node.name.startswith("_:") else row.get(node.name)


def load(case: W3CTest) -> dict[str, frozenset[tuple[str, str, str]]]:
    found = {"": [triple for file in case.data for triple in triples(file)]}
    found |= {f"<{name}>": triples(file) for name, file in case.graphs}
    return {name: frozenset(graph) for name, graph in found.items()}


def triples(file: Path) -> list[tuple[str, str, str]]:
    quads = parse_rdf(path=str(file), format=FORMATS[file.suffix], base_iri=file.as_uri(), rename_blank_nodes=True)
    return [(str(quad.subject), str(quad.predicate), canonical(str(quad.object))) for quad in quads]


def expected(file: Path) -> list[dict[str, str]]:
    """The bindings of a result file: SPARQL XML, JSON, CSV or TSV, or RDF."""
    if file.suffix in (".ttl", ".rdf"):
        graph = Graph().parse(file, publicID=file.as_uri())
        return [
            {
                str(graph.value(binding, RESULT.variable)): canonical(graph.value(binding, RESULT.value).n3())  # type: ignore[union-attr]
                for binding in graph.objects(solution, RESULT.binding)
            }
            for solution in graph.objects(None, RESULT.solution)
        ]
    solutions = parse_query_results(path=str(file), format=RESULT_FORMATS[file.suffix])
    names = [variable.value for variable in solutions.variables]
    return [{n: canonical(str(term)) for n in names if (term := solution[n]) is not None} for solution in solutions]


def comparable(rows: list[dict[str, str]]) -> Counter[tuple[tuple[str, object], ...]]:
    """Rows as a bag: a literal by its value, blank nodes without labels."""
    return Counter(tuple(sorted((name, shown(term)) for name, term in row.items())) for row in rows)


def shown(term: str) -> str:
    if not term.startswith('"'):
        return "_:" if term.startswith("_:") else term
    found = value(term)
    return str(found.normalize() if isinstance(found, Decimal) else Decimal(found) if type(found) is int else found)
