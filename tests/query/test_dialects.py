"""The other dialects: their windows, the sources of patterns, their headers, and their recognition."""

from __future__ import annotations

import pytest

from cqels_opt.errors import QueryError
from cqels_opt.query.algebra import Algebra, Bgp, GraphsMerged, InWindow, Join, Merged, NamedGraph, Project, Source, Union, Window
from cqels_opt.query.dialects import BUILT_IN
from cqels_opt.query.dialects.registry import find, recognise
from cqels_opt.query.parser import parse

S, T = "<http://ex.org/S>", "<http://ex.org/T>"
BODY = "{ ?p <http://ex.org/at> ?l }"


def sources(node: Algebra) -> list[Source]:
    match node:
        case Bgp(_, source):
            return [source]
        case Join(left, right) | Union(left, right):
            return sources(left) + sources(right)
        case Project(inner, _):
            return sources(inner)
        case _:
            return []


# ---------------------------------------------------------------- RSP-QL
RSPQL = """PREFIX : <http://ex.org/>
REGISTER {header} AS
SELECT *
FROM NAMED WINDOW :u ON {stream} [RANGE PT5S STEP PT2S]
FROM NAMED :places
FROM NAMED WINDOW :v ON STREAM {stream} [ELEMENTS 10 STEP 3]
WHERE {{ WINDOW :u {body} WINDOW :v {body} GRAPH :places {body} ?p :name ?n }}"""


def test_rspql() -> None:
    query = parse(RSPQL.format(header="ISTREAM <urn:out>", stream=S, body=BODY))
    assert (query.dialect, query.operator) == ("rspql", "istream")
    assert query.windows == (Window("u", S, "open-closed", 5000, 2000), Window("v", S, "last", count=10, every=3))
    assert sources(query.body)[:3] == [InWindow("u"), InWindow("v"), NamedGraph("<http://ex.org/places>")]
    first = query.clauses[0]
    assert query.text[first.start : first.end] == f"FROM NAMED WINDOW :u ON {S} [RANGE PT5S STEP PT2S]"


def test_computed_every_makes_the_windows_of_rspql_star() -> None:
    query = parse(RSPQL.format(header="STREAM warnings COMPUTED EVERY PT4S", stream=S, body=BODY))
    assert query.operator is None
    assert query.windows == (
        Window("u", S, "star", 5000, 2000, step=4000),
        Window("v", S, "last", count=10, every=3, step=4000),
    )


def test_the_prefixes_may_stand_after_the_header() -> None:
    clause = f"FROM NAMED WINDOW :w ON {S} [RANGE 5s STEP 2s]"
    text = f"REGISTER RSTREAM <urn:out> AS PREFIX : <http://e/> SELECT * {clause} {{ WINDOW :w {BODY} }}"
    assert parse(text).operator == "rstream"


def test_the_old_drafts_name_windows_at_the_end() -> None:
    text = f"SELECT * FROM NAMED {S} [RANGE PT5S SLIDE PT2S] AS <http://ex.org/w> {{ GRAPH <http://ex.org/w> {BODY} }}"
    query = parse(text)
    assert (query.dialect, query.windows) == ("rspql", (Window("w", S, "open-closed", 5000, 2000),))
    assert sources(query.body) == [InWindow("w")]


@pytest.mark.parametrize(
    "text",
    [
        "REGISTER RSTREAM <http://o> AS {p} SELECT ?p {w} FROM NAMED :g WHERE {b}",
        "{p} REGISTER RSTREAM <http://o> AS SELECT ?p FROM NAMED :g {w} WHERE {b}",
        "{p} REGISTER RSTREAM <http://o> AS {w} FROM NAMED :g SELECT ?p WHERE {b}",
        "{p} REGISTER RSTREAM <http://o> AS SELECT ?p WHERE {b} {w}",
        "{p} REGISTER RSTREAM <http://o> AS {w} SELECT ?p WHERE {b} FROM NAMED :g",
    ],
)
def test_rspql_clauses_in_any_order(text: str) -> None:
    window = f"FROM NAMED WINDOW :w ON {S} [RANGE PT5S STEP PT2S]"
    query = parse(text.format(p="PREFIX : <http://ex.org/>", w=window, b=f"{{ WINDOW :w {BODY} }}"))
    assert (query.dialect, query.operator, query.windows) == ("rspql", "rstream", (Window("w", S, "open-closed", 5000, 2000),))
    assert sources(query.body) == [InWindow("w")]


def test_a_window_variable_ranges_over_the_windows() -> None:
    text = f"""SELECT * FROM NAMED WINDOW <http://ex.org/u> ON {S} [RANGE PT5S STEP PT2S]
    FROM NAMED WINDOW <http://ex.org/v> ON {S} [RANGE PT5S STEP PT2S] {{ WINDOW ?w {{ _:a <http://ex.org/at> ?l }} }}"""
    query = parse(text)
    assert isinstance(query.body, Project)
    assert isinstance(query.body.input, Union)
    assert sources(query.body) == [InWindow("u"), InWindow("v")]
    assert [v.name for v in query.variables] == ["w", "l"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"SELECT * FROM NAMED WINDOW <http://e/w1> ON {S} [RANGE 5s STEP 2s] {{ WINDOW <http://e/w2> {BODY} }}",
            "did you mean <http://e/w1>",
        ),
        (
            f"SELECT * {{ WINDOW <http://e/w2> {BODY} }}",
            "the window <http://e/w2> is not declared; declare it with FROM NAMED WINDOW",
        ),
        (f"SELECT * {{ WINDOW ?w {BODY} }}", "WINDOW needs a window"),
        (
            f"SELECT * FROM NAMED WINDOW <urn:w> ON {S} [RANGE 5s STEP 2s] FROM NAMED WINDOW <urn:w> ON {S} [RANGE 5s STEP 2s] {{ }}",
            "the window <urn:w> is declared twice",
        ),
        (f"SELECT * FROM NAMED WINDOW <urn:w> ON {S} [RANGE 5s] {{ }}", r"unexpected '\]'; expected SLIDE or STEP"),
    ],
)
def test_rspql_mistakes(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        parse(text, "rspql")


# ---------------------------------------------------------------- C-SPARQL
def test_csparql_merges_windows_and_static_data() -> None:
    query = parse(
        f"""REGISTER QUERY HighTemperature COMPUTED EVERY 1s AS PREFIX : <http://ex.org/>
        SELECT * FROM STREAM {S} [RANGE 10s STEP 5s] FROM STREAM {T} [RANGE 1m TUMBLING] FROM STREAM {S} [RANGE TRIPLES 9]
        WHERE {{ ?p :at ?l . GRAPH :places {BODY} }}"""
    )
    assert query.dialect == "csparql"
    assert query.windows == (
        Window("S", S, "closed-open", 10_000, 5000),
        Window("T", T, "closed-open", 60_000, 60_000),
        Window("S2", S, "last", count=9),
    )
    assert sources(query.body) == [Merged(("S", "T", "S2")), NamedGraph("<http://ex.org/places>")]


@pytest.mark.parametrize(
    ("dialect", "clause"),
    [("csparql", "[RANGE 5s STEP 1s]"), ("sparqlstream", "[NOW - 5s]"), ("streaming-sparql", "WINDOW RANGE 5s FIXED")],
)
def test_graphs_of_from_are_merged_with_the_windows_in_any_order(dialect: str, clause: str) -> None:
    stream, one, other = f"FROM STREAM {S} {clause}", "FROM <http://g>", "FROM <http://h>"
    for order in ((one, stream), (stream, one)):
        query = parse(f"SELECT * {' '.join(order)} {BODY}", dialect)
        assert sources(query.body) == [Merged(("S",), GraphsMerged(("<http://g>",)))]
    for order in ((one, other, stream), (one, stream, other), (stream, one, other), (one, other, one, stream)):
        query = parse(f"SELECT * {' '.join(order)} {BODY}", dialect)
        assert sources(query.body) == [Merged(("S",), GraphsMerged(("<http://g>", "<http://h>")))]


# ---------------------------------------------------------------- SPARQLstream
@pytest.mark.parametrize(
    ("brackets", "expected"),
    [
        ("NOW - 10 S TO NOW SLIDE 5 S", Window("S", S, "open-closed", 10_000, 5000)),
        ("NOW-10 MS TO NOW STEP 5 MS", Window("S", S, "open-closed", 10, 5)),
        ("NOW - 10 S TO NOW", Window("S", S, "range", 10_000)),
        ("NOW - 10 S TO # a comment\n NOW", Window("S", S, "range", 10_000)),
        ("NOW - 10 S TO NOW - 0 S", Window("S", S, "range", 10_000)),
        ("NOW – 3 HOURS", Window("S", S, "range", 10_800_000)),
        ("FROM NOW - 5 S TO NOW - 2 S", Window("S", S, "past", 5000, 2000)),
        ("NOW - 5 S TO NOW - 2 S SLIDE 1 S", Window("S", S, "past", 5000, 2000, step=1000)),
    ],
)
def test_sparqlstream_windows(brackets: str, expected: Window) -> None:
    query = parse(f"SELECT DSTREAM DISTINCT ?p FROM NAMED STREAM {S} [{brackets}] {BODY}")
    assert (query.dialect, query.operator, query.windows) == ("sparqlstream", "dstream", (expected,))


def test_sparqlstream_matches_a_named_stream_by_graph_too() -> None:
    query = parse(
        f"SELECT * FROM NAMED STREAM {S} [NOW - 5 S TO NOW SLIDE 1 S] {{ GRAPH {S} {BODY} ?p <http://ex.org/name> ?n }}"
    )
    assert sources(query.body) == [InWindow("S"), Merged(("S",))]
    assert query.operator is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"SELECT * FROM STREAM {S} [NOW - 2 S TO NOW - 5 S] {BODY}", "the window is empty: it begins 2000 ms before now"),
        (f"SELECT * FROM STREAM {S} [NOW - 2 S TO NOW SLIDE 0 S] {BODY}", "a duration of zero"),
        (f"SELECT * {{ {{ SELECT ISTREAM * {BODY} }} }}", "ISTREAM belongs to the outermost SELECT only"),
    ],
)
def test_sparqlstream_mistakes(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        parse(text, "sparqlstream")


# ---------------------------------------------------------------- Streaming SPARQL
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("WINDOW RANGE 30 MINUTE SLIDE", Window("S", S, "delta", 1_800_000, 60_000)),
        ("WINDOW RANGE 1000 SLIDE", Window("S", S, "delta", 1000, 1)),
        ("WINDOW RANGE 1000 SLIDE 100", Window("S", S, "delta", 1000, 100)),
        ("WINDOW RANGE 10 S SLIDE 2 SECONDS", Window("S", S, "delta", 10_000, 2000)),
        ("WINDOW RANGE 1 HOUR FIXED", Window("S", S, "delta", 3_600_000, 3_600_000)),
        ("WINDOW ELEMS 1500", Window("S", S, "last", count=1500)),
    ],
)
def test_streaming_sparql_windows(written: str, expected: Window) -> None:
    query = parse(f"SELECT ?p FROM STREAM {S} {written} WHERE {BODY}")
    assert (query.dialect, query.windows) == ("streaming-sparql", (expected,))
    assert sources(query.body) == [Merged(("S",))]


def test_the_paper_s_listing() -> None:
    text = """PREFIX wtur: <http://iec.org/61400-25/root/ln/classes/WTUR#>
SELECT ?x ?y ?z
FROM STREAM <http://iec.org/61400-25/root/td.rdf>
  WINDOW RANGE 30 MINUTE SLIDE
WHERE { ?x wtur:StrCnt ?y .
  OPTIONAL { ?x wtur:StopCnt ?z .
    WINDOW ELEMS 1500 }}"""
    query = parse(text)
    stream = "<http://iec.org/61400-25/root/td.rdf>"
    assert query.windows == (Window("rdf", stream, "delta", 1_800_000, 60_000), Window("rdf2", stream, "last", count=1500))
    assert [text[c.start : c.end] for c in query.clauses][1] == "WINDOW ELEMS 1500"
    assert "Merged(windows=('rdf2',)" in str(query.body)


def test_a_named_stream_is_matched_by_graph_only() -> None:
    query = parse(
        f"""SELECT * FROM STREAM {S} WINDOW RANGE 5 S SLIDE FROM NAMED STREAM {T} WINDOW ELEMS 3
        {{ ?p <http://ex.org/at> ?l GRAPH {T} {{ ?p ?b ?c WINDOW ELEMS 7 }} }}"""
    )
    assert sources(query.body) == [Merged(("S",)), InWindow("T2")]
    assert query.windows[-1] == Window("T2", T, "last", count=7)


def test_a_window_of_a_group_without_a_stream() -> None:
    with pytest.raises(QueryError, match="this group is matched in no stream"):
        parse("SELECT * { { ?a ?b ?c WINDOW ELEMS 3 } }")


# ---------------------------------------------------------------- auto
@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        (f"SELECT * {BODY}", "cqels"),
        ('SELECT * { ?p <http://ex.org/at> "FROM STREAM x [RANGE 5s STEP 1s]" } # FROM NAMED WINDOW', "cqels"),
        (f"SELECT * FROM NAMED {S} [NOW] AS ?w {BODY}", "cqels"),
        (f"REGISTER QUERY q AS SELECT * {{ STREAM {S} [NOW] {BODY} }}", "cqels"),
        (f"SELECT * FROM STREAM {S} [RANGE 5s STEP 1s] {BODY}", "csparql"),
        (f"REGISTER STREAM q COMPUTED EVERY 5s AS SELECT * FROM STREAM {S} [RANGE 5s STEP 1s] {BODY}", "csparql"),
        (f"SELECT * FROM NAMED STREAM {S} [NOW - 5 S] {BODY}", "sparqlstream"),
        (f"SELECT RSTREAM * {BODY}", "sparqlstream"),
        (f"SELECT * FROM NAMED STREAM {S} WINDOW ELEMS 5 {BODY}", "streaming-sparql"),
        (f"SELECT * FROM NAMED WINDOW <urn:w> ON {S} [RANGE 5s STEP 1s] {BODY}", "rspql"),
        (f"REGISTER ISTREAM <urn:out> AS SELECT * {BODY}", "rspql"),
    ],
)
def test_auto_recognises(text: str, dialect: str) -> None:
    assert parse(text).dialect == dialect


# ---------------------------------------------------------------- the registry
@pytest.mark.parametrize("name", BUILT_IN)
def test_a_dialect_recognises_its_own_window(name: str) -> None:
    dialect = find(name)
    assert recognise(f"SELECT * {dialect.window} {{ ?x ?y ?z }}") is dialect


def test_a_text_that_nothing_distinguishes_is_cqels() -> None:
    assert recognise("SELECT * { ?x ?y ?z }").name == BUILT_IN[0] == "cqels"


def test_an_unknown_name_lists_those_there_are() -> None:
    with pytest.raises(
        QueryError, match=r"f\.rq: unknown dialect 'c-sparql'; did you mean csparql\?; there are cqels, rspql, csparql"
    ):
        find("c-sparql", "f.rq")
