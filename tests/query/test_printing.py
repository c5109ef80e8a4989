"""Queries printed and parsed again: equal algebra and windows, except for generated names; and inexpressible queries."""

from __future__ import annotations

import doctest
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from by_definition import answers
from full_algebra_cases import KINDS, Formed
from random_cases import make

from cqels_opt.bench.w3c.manifest import W3CTest
from cqels_opt.errors import QueryError
from cqels_opt.query.algebra import Project, Query
from cqels_opt.query.dialects import names
from cqels_opt.query.parser import parse
from cqels_opt.query.printing import layout, to_text
from cqels_opt.query.printing.writing import Whole
from cqels_opt.query.visible import nameable, visible

from .test_w3c import cases

__all__ = ["cases"]
QUERIES = sorted((Path(__file__).parents[2] / "bench" / "report_queries").glob("*.rq"))
P = "PREFIX : <http://ex.org/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"


def shape(query: Query) -> tuple[str, ...]:
    """A query with its variables and windows numbered in order of appearance."""
    windows = [window.name for window in query.windows]
    text = repr((query.variables, query.body, query.form))
    text = re.sub(r"(window=|windows=\()('[^)]*')", lambda found: found[1] + _numbered(found[2], windows), text)
    names: dict[str, int] = {}
    text = re.sub(r"Variable\(name=('(?:[^'\\]|\\.)*')\)", lambda found: f"?{names.setdefault(found[1], len(names))}", text)
    return text, repr([replace(window, name="") for window in query.windows]), repr(query.operator), repr(query.base)


def _numbered(text: str, windows: list[str]) -> str:
    return re.sub(r"'([^']*)'", lambda found: str(windows.index(found[1])) if found[1] in windows else found[0], text)


def round_trip(query: Query, dialect: str) -> str:
    printed = to_text(query, dialect)
    again = parse(printed, dialect)
    named = any(name.startswith("_:") and text.startswith("?") for name, text in Whole(query).names.items())
    if named or "Closure(" in repr(query.body):
        query = again  # paths of fixed length have been expanded, and sub-selects hide the names of their blank nodes
        printed = to_text(query, dialect)
        again = parse(printed, dialect)
    assert shape(again) == shape(query), printed
    assert [v.name for v in again.variables if v.name[0].isalpha()] == [v.name for v in query.variables if v.name[0].isalpha()]
    return printed


BODIES = [
    "SELECT ?x { %s }",
    "SELECT DISTINCT ?x (?k + 1 AS ?zz) { %s BIND(-?x AS ?k) } ORDER BY DESC(?zz) ?x LIMIT 3 OFFSET 1",
    "SELECT ?x (COUNT(DISTINCT *) AS ?n) (SUM(?v * 2) / COUNT(?v) AS ?m) { %s OPTIONAL { ?x :v ?v FILTER(?v > 1 && !BOUND(?q)) } }"
    " GROUP BY ?x (STR(?v)) (?v + 1 AS ?key) HAVING (MAX(?v) < 3) ORDER BY COUNT(?v)",
    "SELECT (GROUP_CONCAT(?x; SEPARATOR = ', ') AS ?g) { %s }",
    "SELECT * { { %s } UNION { ?x :b 'a\\n\"b'@en } UNION { ?x a true } MINUS { ?x :c 1.50 } }",
    "SELECT ?x { %s { ?x :p [ :q _:l ; :r (1 2) ] } ?x :s ?t FILTER(?t IN (1, -2, 3e5) || ?t NOT IN (:a)) }",
    "SELECT ?x { %s FILTER NOT EXISTS { ?x :p ?y FILTER(?y = ?x) } FILTER EXISTS { { ?x :q ?y } UNION { } } }",
    "SELECT ?x { { SELECT ?x (MIN(?z) AS ?m) { %s ?x :z ?z } GROUP BY ?x } { ?x :t ?m FILTER(?m > 1) } "
    "VALUES (?x ?m) { (:a UNDEF) (1 2) } }",
    "SELECT ?x { %s OPTIONAL { { ?x :p ?y FILTER(?y > 1) } FILTER(?x != ?y) } "
    "OPTIONAL { SELECT ?x { ?x :a ?w } LIMIT 2 } } VALUES ?x { :a }",
    "SELECT (COUNT(*) AS ?n) { %s } HAVING (COUNT(*) > 1) VALUES ?m { 1 2 }",
    "SELECT ?g ?x { %s GRAPH ?g { ?x :p ?g OPTIONAL { ?g :q ?y } } GRAPH :h { } GRAPH ?h { ?x ?y ?z } }",
    "CONSTRUCT { ?x :of [ :in _:b ] . _:b a ?x } { %s _:b :k ?x } ORDER BY ?x LIMIT 5",
    "CONSTRUCT { } { %s }",
    "ASK { %s FILTER(IF(?x = 1, COALESCE(?x, ?y), xsd:integer(?x)) = REGEX(STR(?x), '^a', 'i')) }",
    "DESCRIBE ?x :a { %s }",
    "SELECT ?x { %s FILTER(" + " || ".join(f"?x = {i}" for i in range(40)) + ") }",
]
WINDOWS = {
    "cqels": (
        "FROM NAMED :S [RANGE 90s] AS ?w0 FROM NAMED :S [NOW] AS ?wn FROM NAMED :T [TRIPLES 3] AS ?wl FROM NAMED :T [ALL] AS ?we "
        "FROM NAMED :T [RANGE 1h30m SLIDE 20s] AS ?wg",
        "GRAPH ?w0 { ?x :at ?y } GRAPH ?wn { ?x :n 'b' } STREAM :U [RANGE 1d TUMBLING] { ?x :u _:u }",
    ),
    "rspql": (
        "FROM NAMED WINDOW :w ON :S [RANGE PT5S STEP PT2S] FROM NAMED WINDOW :l ON STREAM :S [ELEMENTS 5 STEP 2]",
        "WINDOW :w { ?x :at ?y GRAPH ?e { ?x :in ?e } GRAPH :f { ?x :c ?f } } WINDOW ?any { ?x :b ?z }",
    ),
    "csparql": (
        "FROM STREAM :S [RANGE 5s STEP 2s] FROM STREAM :T [RANGE TRIPLES 4] FROM STREAM :U [RANGE 1h TUMBLING]",
        "?x :at ?y .",
    ),
    "sparqlstream": (
        "FROM STREAM :S [NOW - 5 s SLIDE 2 s] FROM NAMED STREAM :T [NOW - 5 s TO NOW - 1 s SLIDE 2 s] FROM STREAM :U [NOW - 500 ms]",
        "?x :at ?y . GRAPH :T { ?x :k ?z }",
    ),
    "streaming-sparql": (
        "FROM STREAM :S WINDOW RANGE 30 MINUTE SLIDE FROM NAMED STREAM :T WINDOW ELEMS 4 FROM STREAM :U WINDOW RANGE 5 FIXED",
        "?x :at ?y . GRAPH :T { ?x :k ?z }",
    ),
}
PATHS = [
    ":a+",
    ":a*",
    ":a?",
    "^:a*",
    "(:a/:b)+",
    "(:a|:b/:c)*",
    "(:a/^:b|!(:c|^:d))?",
    "^(:a/:b)+/:c",
    "(!:a)+",
    "((:a*/:b)+|^:c?)*",
    "a*",
]
HEADERS = {
    "rspql": "REGISTER ISTREAM :out AS ",
    "cqels": "REGISTER QUERY q AS ",
    "csparql": "REGISTER QUERY :q COMPUTED EVERY 1s AS ",
}


@pytest.mark.parametrize("dialect", names())
@pytest.mark.parametrize("number", range(len(BODIES)))
def test_in_its_own_dialect(number: int, dialect: str) -> None:
    clauses, pattern = WINDOWS[dialect]
    text = BODIES[number].replace("%s", pattern)
    at = text.index("{", text.index("}") if text.startswith("CONSTRUCT") else 0)
    if text.startswith("CONSTRUCT { ?x"):
        at = text.index("{", text.index("?x }"))
    for header in ("", HEADERS.get(dialect, "")):
        query = parse(f"{P}{header}{text[:at]} {clauses} WHERE {text[at:]}", dialect)
        printed = round_trip(query, dialect)
        assert to_text(parse(printed, dialect), dialect) == to_text(parse(to_text(query, dialect), dialect), dialect)
        assert parse(printed, dialect).output == query.output


def test_the_reports_queries() -> None:
    assert len(QUERIES) >= 8
    for path in QUERIES:
        query = parse(path.read_text(encoding="utf-8"))
        round_trip(query, query.dialect)


@pytest.mark.parametrize("kind", KINDS)
def test_random_queries(kind: str) -> None:
    for seed in range(40):
        case = make(seed, Formed(kind))
        text = replace(case, replaced={}).query()
        round_trip(text, text.dialect)


@pytest.mark.long
@pytest.mark.needs_shared_data
def test_the_queries_of_the_w3c(cases: list[W3CTest]) -> None:
    printed = 0
    for case in cases:
        try:
            query = parse(case.query.read_text(encoding="utf-8"), "cqels")
        except (QueryError, UnicodeDecodeError):
            continue
        for dialect in names():  # without windows all of them are SPARQL
            round_trip(query, dialect)
        printed += 1
    assert printed >= 600


def test_from_one_dialect_to_another() -> None:
    text = f"{P} SELECT ?x (COUNT(*) AS ?n) FROM STREAM :S [NOW - 5s SLIDE 2s] WHERE {{ ?x :at ?y }} GROUP BY ?x"
    query = parse(text, "sparqlstream")
    with pytest.raises(
        QueryError, match="csparql cannot express this query: it has no clause for the window S, a range with a step"
    ):
        to_text(query, "csparql")
    past = parse(f"{P} SELECT ?x FROM NAMED WINDOW :w ON :S [RANGE 5s STEP 5s] WHERE {{ WINDOW :w {{ ?x :at ?y }} }}", "rspql")
    stream = to_text(past, "sparqlstream")
    assert "FROM NAMED STREAM <http://ex.org/S> [NOW - 5s SLIDE 5s]" in stream and "GRAPH <http://ex.org/S> {" in stream
    assert shape(parse(stream, "sparqlstream")) == shape(past)
    chosen = parse(text.replace("FROM", "FROM :map FROM"), "sparqlstream")
    assert "FROM <http://ex.org/map>" in round_trip(chosen, "sparqlstream")
    latest = parse(f"{P} SELECT ?x FROM NAMED STREAM :x [NOW - 5s] WHERE {{ GRAPH :x {{ ?x :at ?y }} }}", "sparqlstream")
    assert "[RANGE 5s] AS ?w_x" in to_text(latest, "cqels")  # ?x is a variable of the query
    assert shape(parse(to_text(latest, "cqels"), "cqels")) == shape(latest)


@pytest.mark.parametrize(
    ("text", "dialect", "why"),
    [
        ("SELECT ?x { STREAM :S [NOW] { ?x :a ?y } }", "rspql", "it has no clause for the window S, [NOW]"),
        ("SELECT ?x { STREAM :S [RANGE 5s] { ?x :a ?y } }", "rspql", "it has no clause for the window S, a range without a step"),
        ("SELECT ?x { STREAM :S [TRIPLES 5] { ?x :a ?y } }", "csparql", "it has no name for the window S, in which a pattern is"),
        ("SELECT ?x { STREAM :S [TRIPLES 5] { ?x :a ?y } ?x :b ?z }", "streaming-sparql", ""),
        (
            "SELECT ?x { STREAM :S [TRIPLES 5] { ?x :a ?y } STREAM :S [TRIPLES 6] { ?x :a ?z } }",
            "streaming-sparql",
            "two of the windows",
        ),
        (
            "SELECT ?x { STREAM :S [RANGE 5s] { ?x :a ?y } ?x :b ?z }",
            "sparqlstream",
            "it matches no pattern in the static default",
        ),
        (
            "REGISTER ISTREAM :o AS SELECT ?x { ?x :a ?y }",
            "cqels",
            "it has no keyword for ISTREAM: its profile or output_operator=",
        ),
        (
            "REGISTER QUERY :o AS CONSTRUCT WHERE { ?x :a ?y }",
            "sparqlstream",
            "it has no name for a stream of answers, <http://ex.org/o>",
        ),
        (
            "SELECT ?x FROM STREAM :S [RANGE 5s STEP 2s] { ?x :a ?y }",
            "cqels",
            "it has no clause for the window S, a range with a step",
        ),
        (
            "SELECT * FROM NAMED :S [NOW] AS ?w { GRAPH ?w { :a :p+/:q+ :b } }",
            "cqels",
            "it reads all variables, and a blank node between the steps of a path would become one of them",
        ),
        ("ASK FROM NAMED :S [NOW] AS ?w { GRAPH ?w { :a :p+/:q+ :b } }", "cqels", ""),
        ("SELECT ?x { ?x :a ?y }", "cqles", "unknown dialect 'cqles'; did you mean cqels?"),
    ],
)
def test_what_cannot_be_said(text: str, dialect: str, why: str) -> None:
    query = parse(P + text)
    if not why:
        round_trip(query, dialect)
        return
    with pytest.raises(QueryError) as error:
        to_text(query, dialect)
    assert why in str(error.value)


@pytest.mark.parametrize("path", PATHS)
def test_paths(path: str) -> None:
    for text in (
        f"?x {path} ?y",
        f"GRAPH ?w {{ :x {path} [ :b ?z ] }} _:l {path} ?y ; :q ?x",
        f"?x :a/{path}/:b ?y . {{ ?y {path} 1 }}",
    ):
        query = parse(f"{P} SELECT ?x ?y FROM NAMED :S [NOW] AS ?w {{ {text} }}", "cqels")
        printed = round_trip(query, "cqels")
        assert "Closure" in repr(parse(printed, "cqels").body)


@pytest.mark.parametrize("path", PATHS)
def test_printed_paths_find_the_same(path: str) -> None:
    rng = random.Random(path)
    nodes, predicates = [f"<http://ex.org/{n}>" for n in "xyzu"], [f"<http://ex.org/{n}>" for n in "abcd"]
    patterns = (f"?x {path} ?y", f":x {path}/:a ?y", f"?x (:b|{path}) ?y . ?y {path} ?x", f"?x {path} :z")
    whole = ("SELECT (COUNT(DISTINCT *) AS ?n) { %s }", "SELECT ?x { %s } ORDER BY ?x LIMIT 3")
    through = f"?x {path}/{path} ?y"
    for text in (*(f"SELECT * {{ {pattern} }}" for pattern in patterns), *(select.replace("%s", through) for select in whole)):
        query = parse(f"{P} {text}", "cqels")
        again = parse(to_text(query, "rspql"), "rspql")
        for _ in range(5):
            graph = frozenset((rng.choice(nodes), rng.choice(predicates), rng.choice(nodes)) for _ in range(9))
            found, wanted = (
                Counter(tuple(row.get(v.name) for v in query.variables) for row in answers(q, {"": graph}))
                for q in (again, query)
            )
            assert found == wanted, to_text(query, "rspql")


def test_blank_nodes_of_a_template_do_not_depend_on_the_names_that_the_text_gives() -> None:
    query = parse(f"{P} CONSTRUCT {{ [] :of ?y }} {{ ?x :p+/:q+ ?y }}", "rspql")
    again = parse(to_text(query, "rspql"), "rspql")
    assert isinstance(query.body, Project) and isinstance(again.body, Project)
    for pattern in (query.body.input, again.body.input):
        assert {variable.name for variable in nameable(visible(pattern))} == {"x", "y"}


OF_EACH_GRAPH = [
    "GRAPH ?g { ?x :p ?y { SELECT ?x { ?x :q ?z } LIMIT 1 } }",
    "GRAPH ?g { SELECT ?x ?g { ?x :q ?z } ORDER BY DESC(?z) LIMIT 1 OFFSET 1 }",
    "GRAPH ?g { OPTIONAL { ?x :p ?y } MINUS { OPTIONAL { ?x :q ?z } } }",
    "GRAPH ?g { ?x :p ?g OPTIONAL { ?x :q ?y } MINUS { OPTIONAL { ?x :q ?z } ?z :p ?w } }",
    "GRAPH ?g { SELECT (COUNT(*) AS ?n) (MAX(?x) AS ?m) { ?x :p ?y } HAVING (COUNT(*) < 3) LIMIT 1 }",
    "GRAPH ?g { ?x :p ?y { SELECT (COUNT(*) AS ?n) { ?y :q ?z } } OPTIONAL { ?y :q ?w } }",
    "GRAPH ?g { ?x :p ?y { SELECT ?y (COUNT(*) AS ?n) { ?y :q ?z } GROUP BY ?y ORDER BY ?n LIMIT 2 } }",
    "GRAPH ?g { { SELECT DISTINCT ?y { ?y :q ?z { SELECT ?z { ?z :p ?w } LIMIT 1 } } LIMIT 1 } FILTER EXISTS { ?y :q ?y } }",
    "GRAPH ?g { SELECT (SUM(?n) AS ?k) { { SELECT ?x (COUNT(*) AS ?n) { ?x :p ?y } GROUP BY ?x } } }",
]


@pytest.mark.parametrize("body", OF_EACH_GRAPH)
def test_what_is_evaluated_in_each_graph_by_itself(body: str) -> None:
    rng = random.Random(body)
    query = parse(f"{P} SELECT * {{ {body} }}", "cqels")
    printed = round_trip(query, "cqels")
    assert to_text(parse(printed, "cqels"), "cqels") == printed
    again, nodes, found_any = parse(printed, "cqels"), [f"<http://ex.org/{n}>" for n in "xyzgh"], 0
    for _ in range(8):
        data = {
            graph: frozenset((rng.choice(nodes), f"<http://ex.org/{rng.choice('pq')}>", rng.choice(nodes)) for _ in range(8))
            for graph in ("", "<http://ex.org/g>", "<http://ex.org/h>")
        }
        found, wanted = (
            Counter(tuple(row.get(v.name) for v in query.variables) for row in answers(q, data)) for q in (again, query)
        )
        assert found == wanted
        found_any += len(found)
    assert found_any


OWN_WINDOWS = [
    "FROM STREAM :S WINDOW RANGE 9 S SLIDE | ?x :p ?y { ?x :q ?z OPTIONAL { ?x :k ?u FILTER EXISTS { ?x :p ?m } } WINDOW ELEMS 5 }",
    "FROM STREAM :S WINDOW RANGE 9 S FIXED FROM STREAM :T WINDOW ELEMS 3 | ?x :p ?y MINUS { ?x :q ?y WINDOW RANGE 2 S FIXED }",
    "FROM STREAM :S WINDOW ELEMS 3 | { { ?x :p ?y WINDOW ELEMS 1 } UNION { ?x :q ?y WINDOW ELEMS 2 } } ?y :p ?z",
    "FROM STREAM :S WINDOW ELEMS 3 | { SELECT ?x (COUNT(*) AS ?n) { ?x :p ?y FILTER(?y > 1) WINDOW ELEMS 2 } GROUP BY ?x } ?x :q ?z",
    "FROM NAMED STREAM :S WINDOW RANGE 9 S SLIDE | GRAPH :S { ?x :p ?y OPTIONAL { ?x :q ?z } FILTER(?x != ?y) WINDOW ELEMS 3 } ?x :u ?v",
    "FROM NAMED STREAM :S WINDOW ELEMS 9 FROM STREAM :T WINDOW ELEMS 8 | GRAPH :S { ?x :p ?y } GRAPH :S { ?y :p ?z WINDOW ELEMS 7 }",
    "FROM STREAM :S WINDOW ELEMS 9 | ?x :p ?y OPTIONAL { { ?x :q ?z WINDOW ELEMS 2 } FILTER(?z > 1) }",
    "FROM :g FROM STREAM :S WINDOW ELEMS 9 | ?x :p ?y { ?y :p+ ?z WINDOW ELEMS 7 }",
    "FROM STREAM :S WINDOW ELEMS 9 | ?x :p ?y WINDOW ELEMS 7",
]


@pytest.mark.parametrize("text", OWN_WINDOWS)
def test_a_group_with_a_window_of_its_own(text: str) -> None:
    clauses, body = text.split(" | ")
    query = parse(f"{P} SELECT * {clauses} {{ {body} }}", "streaming-sparql")
    printed = round_trip(query, "streaming-sparql")
    assert printed.count("WINDOW") == text.count("WINDOW")
    with pytest.raises(QueryError, match="cannot express this query"):
        to_text(query, "csparql")


V, W = "FROM NAMED WINDOW :v ON :S [RANGE 5s STEP 5s]", "FROM NAMED WINDOW :w ON :S [RANGE 6s STEP 6s]"


@pytest.mark.parametrize(
    ("dialect", "other", "lines", "line", "column"),
    [
        ("csparql", "cqels", ["FROM STREAM :S [RANGE 5s STEP 1s]", "WHERE { ?x :p ?y }"], 3, 1),
        ("rspql", "sparqlstream", [V, W, "WHERE { WINDOW :v { ?x :p ?y } WINDOW :w { ?x :q ?y } }"], 4, 1),
        ("rspql", "sparqlstream", [V, "WHERE {", "WINDOW :v { GRAPH ?g { ?x :p ?y } } }"], 5, 13),
        ("cqels", "csparql", ["FROM NAMED :S [RANGE 5s] AS ?w", "WHERE { GRAPH ?w { ?x :p ?y } }"], 3, 1),
    ],
)
def test_the_position_is_the_clause_that_a_dialect_cannot_say(
    dialect: str, other: str, lines: list[str], line: int, column: int
) -> None:
    query = parse("\n".join([P.strip(), "SELECT *", *lines]), dialect)
    with pytest.raises(QueryError, match="cannot express this query") as raised:
        to_text(query, other)
    assert (raised.value.line, raised.value.column) == (line, column)


def test_a_group_s_window_is_said_again_where_its_patterns_stand_apart() -> None:
    """Windows with equal declarations have equal contents."""
    clauses = "FROM STREAM :S WINDOW ELEMS 9"
    text = "{ ?x :p ?y { ?y :p ?z WINDOW ELEMS 2 } OPTIONAL { ?x :q ?w } WINDOW ELEMS 3 }"
    printed = to_text(parse(f"{P} SELECT * {clauses} {{ {text} }}", "streaming-sparql"), "streaming-sparql")
    assert re.findall("WINDOW ELEMS .", printed) == [f"WINDOW ELEMS {n}" for n in (9, 3, 2, 3)]
    assert to_text(parse(printed, "streaming-sparql"), "streaming-sparql") == printed


def test_long_chains_are_printed() -> None:
    text = f"{P} SELECT ?x {{ ?x :a ?y FILTER({' || '.join(f'?y = {i}' for i in range(3000))}) }}"
    printed = to_text(parse(text), "cqels")
    assert printed.count("||") == 2999 and to_text(parse(printed), "cqels") == printed


@pytest.mark.long
def test_a_seeded_order_of_parts() -> None:
    """Random nested groups: whatever ends a basic graph pattern must end it again."""
    rng = random.Random(1)

    def group(depth: int) -> str:
        kinds = [
            "?a :p ?b .",
            "{ %s }",
            "OPTIONAL { %s }",
            "{ %s } UNION { %s }",
            "MINUS { %s }",
            "FILTER(?a > 1)",
            "FILTER(?b < 2)",
        ]
        kinds += [
            "GRAPH :g { %s }",
            "GRAPH ?w { ?a :q ?c }",
            "VALUES ?a { 1 }",
            "FILTER EXISTS { %s }",
            "{ SELECT ?a { %s } LIMIT 1 }",
        ]
        parts = [rng.choice(kinds if depth else kinds[:1]) for _ in range(rng.randint(0, 4))]
        return " ".join(re.sub("%s", lambda _: group(depth - 1), part) for part in parts)

    for _ in range(300):
        round_trip(parse(f"{P} SELECT ?a ?b FROM NAMED :S [NOW] AS ?w {{ {group(3)} }}", "cqels"), "cqels")


def test_the_text_has_a_line_for_each_element() -> None:
    text = (
        "PREFIX : <urn:> SELECT ?x (COUNT(*) AS ?n) FROM NAMED :s [NOW] AS ?w"
        ' WHERE { GRAPH ?w { ?x :a ?y . ?y :b "{ 1 }. " } { ?x :c 1 } UNION { ?x :c 2 }'
        " FILTER(?y > 1 && NOT EXISTS { ?x :d ?z . GRAPH :g { ?z :e ?x } }) } GROUP BY ?x"
    )
    assert to_text(parse(text), "cqels").splitlines() == [
        "SELECT ?x (COUNT(*) AS ?n)",
        "FROM NAMED <urn:s> [NOW] AS ?w",
        "WHERE {",
        '  GRAPH ?w { ?x <urn:a> ?y . ?y <urn:b> "{ 1 }. " . }',
        "  { ?x <urn:c> 1 . } UNION { ?x <urn:c> 2 . }",
        "  FILTER ((?y > 1) && NOT EXISTS { ?x <urn:d> ?z . GRAPH <urn:g> { ?z <urn:e> ?x . } })",
        "}",
        "GROUP BY ?x",
    ]


def test_the_examples_of_the_layout() -> None:
    assert doctest.testmod(layout).failed == 0
