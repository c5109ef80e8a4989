"""Errors of queries: each names the object, its line and column, and the remedy; the caret is below the position."""

from __future__ import annotations

import pytest

from cqels_opt.errors import QueryError
from cqels_opt.query.dialects import names
from cqels_opt.query.dialects.registry import find
from cqels_opt.query.parser import parse
from cqels_opt.query.texts import Reader

PREFIXES = "PREFIX foaf: <http://xmlns.com/foaf/0.1/>\nPREFIX loc: <http://ex.org/loc#>\n"


def test_a_report_shows_the_line_with_a_caret() -> None:
    with pytest.raises(QueryError) as error:
        parse(PREFIXES + "SELECT ?name\nWHERE {\n\t?p foaf:name ?name\n  FILTR(?name > 1) }", file="q.rq")
    assert error.value.report() == "q.rq:6:3: unexpected FILTR; did you mean FILTER?\n  FILTR(?name > 1) }\n  ^"


def marked(text: str) -> tuple[str, int, int]:
    """The text without its marker ``^``, and the line and column of the marker."""
    at = text.index("^")
    return text[:at] + text[at + 1 :], text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # misspelt words
        ("^SELCT ?x { ?x ?y ?z }", "unexpected SELCT; did you mean SELECT?"),
        ("SELECT ?x ^WHRE { ?x ?y ?z }", "unexpected WHRE; did you mean WHERE?"),
        ("SELECT ?x ^FORM <http://g> { ?x ?y ?z }", "unexpected FORM; did you mean FROM?"),
        ("SELECT ?x { ^OPTINAL { ?x ?y ?z } }", "unexpected OPTINAL; did you mean OPTIONAL?"),
        ("SELECT ?x { ?x ?y ?z } ^ORDR BY ?x", "unexpected ORDR; did you mean ORDER?"),
        ("SELECT ?x { ?x ?y ?z FILTER(^STRLNE(?z) > 1) }", "unexpected STRLNE; did you mean STRLEN?"),
        ("SELECT (^CONUT(?x) AS ?n) { ?x ?y ?z }", "unexpected CONUT; did you mean COUNT?"),
        ("SELECT ?x { ?x ?y ?z FILTER(?x = 1 ^AND ?y = 2) }", "unexpected AND: write &&"),
        # prefixes
        ("SELECT ?x { ?x ^foa:name ?z }", "the prefix 'foa:' is not declared; did you mean 'foaf:'?"),
        (
            "SELECT ?x { ?x ^dcterms:title ?z }",
            "the prefix 'dcterms:' is not declared; add PREFIX dcterms: <http://purl.org/dc/terms/>",
        ),
        ("SELECT ?x { ?x ^:name ?z }", "the prefix ':' is not declared; add PREFIX : <…> before SELECT"),
        ("SELECT ?x { ?x ?y ^'1'^^nix:int }", "the prefix 'nix:' is not declared; add PREFIX nix: <…> before SELECT"),
        # unexpected tokens
        ("SELECT ?x { ?x foaf:name ^}", "unexpected '}'; expected a variable, an IRI, '(', '[', '|' or a blank node …"),
        ("SELECT ?x { ?x foaf:name ?z .^  ", "the query ends too early; expected a variable, an IRI, '(', '[', '{' or '}' …"),
        ("SELECT ?x { ?x ?y ?z } ^}", "unexpected '}'; expected the end of the query, GROUP, HAVING, LIMIT, OFFSET or ORDER …"),
        ("SELECT ?x^, ?y { ?x ?y ?z }", "unexpected ','; expected a variable, an IRI, '(', '{', a function or an aggregate …"),
        ("SELECT ?x { ?x ?y ?z } LIMIT ^?x", "unexpected ?x; expected a number"),
        ("SELECT ?x { ?x ?y ?z FILTER ^?x > 2 }", "unexpected ?x; expected '(', a function, an IRI, an aggregate, EXISTS or NOT"),
        ("SELECT ?x { ?x ?y ^'abc }", "a string is not closed"),
        ("SELECT ?x { ?x ?y ^'''abc' }", "a string is not closed"),
        (r"SELECT ?x { ?x ?y ^'a\qb' }", r"unknown escape \q in a string"),
        ("SELECT ?x { ?x ?y ^<http://a b> }", "an IRI cannot contain ' '"),
        ("SELECT ?x { ?x ?y ^<http://a }", "an IRI is not closed with '>'"),
        (r"SELECT ?x { ?x ?y ^<http://a\u0020b> }", "an IRI cannot contain this character, escaped or not: "),
        (r"SELECT ?x { ?x ?y ^'\ud800' }", r"\ud800 is not a character"),
        # not supported
        ("SELECT ?x { ^SERVICE <http://a> { ?x ?y ?z } }", "SERVICE is not supported: load the data with"),
        # other forms than SELECT
        (
            "^CONSTRUCT WHERE { VALUES ?x { 1 } } VALUES ?x { 2 }",
            "CONSTRUCT WHERE holds triples alone: write those that it makes as",
        ),
        ("^CONSTRUCT WHERE { ?x ?y ?z FILTER(?z > 1) }", "CONSTRUCT WHERE holds triples alone: write those that it makes as"),
        ("^CONSTRUCT WHERE { GRAPH <http://g> { ?x ?y ?z } }", "CONSTRUCT WHERE cannot hold GRAPH: write the triples that it"),
        (
            "CONSTRUCT { ?x ^foaf:knows/foaf:name ?z } WHERE { ?x ?y ?z }",
            "a property path cannot be made: write a predicate IRI",
        ),
        ("CONSTRUCT WHERE { ?x ^foaf:knows? ?z }", "a property path cannot be made: write a predicate IRI"),
        ("CONSTRUCT { ?x ?y ?z }^", "the query ends too early; expected '{', FROM or WHERE"),
        ("CONSTRUCT { ?x ^foa:name ?z } WHERE { ?x ?y ?z }", "the prefix 'foa:' is not declared; did you mean 'foaf:'?"),
        ("CONSTRUCT { ?x ?y ?z ^FILTER(?x) } WHERE { ?x ?y ?z }", "unexpected FILTER; expected"),
        ("^CONSTUCT { ?x ?y ?z } WHERE { ?x ?y ?z }", "unexpected CONSTUCT; did you mean CONSTRUCT?"),
        ("ASK ^?x { ?x ?y ?z }", "unexpected ?x; expected '{', FROM or WHERE"),
        ("DESCRIBE ^{ ?x ?y ?z }", "unexpected '{'; expected a variable, an IRI or '*'"),
        # syntax of other languages
        ("SELECT ^x { ?x ?y ?z }", "unexpected x: a variable is written ?x"),
        ("SELECT ?x { ?x ?y ?z FILTER(?z =^= 1) }", "unexpected ==: write ="),
        ("SELECT ?x { ?x ?y ?z FILTER(?z ^<> 1) }", "unexpected <>: write !="),
        ("SELECT ?x { ?x http:/^/e/a ?z }", "an IRI stands in angle brackets: write <http://…>"),
        ("SELECT ?x FROM NAMED <http://s> [^TRIPLE 5] AS ?w { }", "unexpected TRIPLE; did you mean TRIPLES?"),
        ("SELECT ?x { VALUES (?x ?y) { ^(1) } }", "a row of VALUES has 1 value for 2 variables"),
        ("SELECT ?x { BIND (^<< ?x ?y ?z >> AS ?a) }", "a quoted triple cannot stand here: in expressions and VALUES write"),
        ("SELECT ?x { ?x ^foaf:name* ?z {| ?a ?b |} }", "a property path cannot be annotated"),
        ("^INSERT DATA { <a> <b> <c> }", "INSERT changes data, and is not supported"),
        ("SELECT ?x { ?x ?y ?z FILTER(^<http://a/f>(?x)) }", "the function <http://a/f> is not supported"),
        # functions
        ("SELECT ?x { ?x ?y ?z FILTER(<http://a/f>(^DISTINCT ?x) > 1) }", "DISTINCT in a call of a function: it belongs to"),
        ("SELECT ?x { ?x ?y ?z FILTER(^STRLEN(?x, 2) > 1) }", "STRLEN takes 1 argument, not 2"),
        ("SELECT ?x { ?x ?y ?z FILTER(^BOUND(1)) }", "BOUND takes a variable"),
        # aggregates without a name
        ("SELECT ^max(?x) { ?x ?y ?z }", "max(?x) in SELECT needs a name: write (MAX(?x) AS ?max)"),
        ("SELECT ^(COUNT(*)) { ?x ?y ?z }", "COUNT(*) in SELECT needs a name: write (COUNT(*) AS ?count)"),
        ("SELECT ^(?x + 1) { ?x ?y ?z }", "?x + 1 in SELECT needs a name: write (?x + 1 AS ?value)"),
        ("SELECT ^max(count(?x)) { ?x ?y ?z }", "max(count(?x)): aggregates do not nest"),
        # ... and without brackets
        ("SELECT AVG(?v) ^AS ?m { ?x ?y ?v }", "AVG(?v) AS ?m in SELECT needs brackets around it: write (AVG(?v) AS ?m)"),
        ("SELECT ?x (COUNT(*) AS ?n) sum( ?v )  ^as ?m { ?x ?y ?v }", "sum( ?v ) AS ?m in SELECT needs brackets around it"),
        ("SELECT STR(CONCAT(STR(?v), 'a')) ^AS ?m { ?x ?y ?v }", "STR(CONCAT(STR(?v), 'a')) AS ?m in SELECT needs brackets"),
        ("SELECT ?x { { SELECT ?v ^AS ?m { ?x ?y ?v } } }", "?v AS ?m in SELECT needs brackets around it: write (?v AS ?m)"),
        # relative IRIs
        (
            "SELECT ?x { ?x ^<a/b> ?z }",
            "<a/b> is a relative IRI, and the query has no BASE: write the whole IRI, or BASE <http://…/>",
        ),
        ("SELECT ?x { ?x ?y ^'1'^^<b> }", "<b> is a relative IRI"),
        ("SELECT ?x FROM NAMED ^<red> [NOW] AS ?w { GRAPH ?w { ?x ?y ?z } }", "<red> is a relative IRI"),
        ("PREFIX p: ^<#> SELECT ?x { ?x ?y p:z }", "<#> is a relative IRI"),
        ("BASE ^<b/> SELECT ?x { ?x ?y <z> }", "<b/> is a relative IRI"),
        ("SELECT ?x { ?x ?y ^<//host/z> }", "<//host/z> is a relative IRI"),
    ],
)
def test_messages_and_places(text: str, message: str) -> None:
    query, line, column = marked(PREFIXES + text)
    with pytest.raises(QueryError) as error:
        parse(query)
    assert error.value.message.startswith(message)
    assert (error.value.line, error.value.column) == (line, column)


def test_too_deep_a_query_is_an_error_of_ours() -> None:
    with pytest.raises(QueryError, match="nested too deeply"):
        parse("SELECT * " + "{ " * 3000 + "}" * 3000)


def test_words_of_output() -> None:
    with pytest.raises(QueryError, match=r"unexpected ISTREM; did you mean ISTREAM\?"):
        parse("SELECT ISTREM ?x FROM STREAM <http://s> [NOW - 5s] { }", "sparqlstream")
    with pytest.raises(QueryError, match="unexpected TABLE; expected ISTREAM, DSTREAM or RSTREAM"):
        parse("REGISTER TABLE <o> AS SELECT ?x { }", "rspql")


def test_another_dialect_is_named_where_it_reads_further() -> None:
    with pytest.raises(QueryError) as error:
        parse("SELECT ?x FROM STREAM <http://s> [RANGE 5s STEP 1s] { ?x ?y ?z }", "streaming-sparql")
    assert 'looks like csparql: try dialect="csparql"' in error.value.message
    with pytest.raises(QueryError) as error:
        parse("REGISTER QUERY q SELECT ?x { }", "cqels")
    assert error.value.message == "unexpected SELECT; expected AS"


@pytest.mark.parametrize("dialect", ["auto", "cqels", "csparql", "sparqlstream", "streaming-sparql"])
@pytest.mark.parametrize("window", ["RANGE 5s", "TRIPLES 4"])
def test_a_window_clause_of_another_dialect(window: str, dialect: str) -> None:
    """The message names the dialect that parses most of it, with its syntax and that of the requested dialect."""
    with pytest.raises(QueryError) as error:
        parse(f"SELECT ?x FROM NAMED STREAM <http://s> [{window}] {{ ?x ?y ?z }}", dialect)
    own = find("cqels" if dialect == "auto" else dialect)
    assert f"it was read as {own.name}, which writes {own.window}" in error.value.message
    if window.startswith("RANGE") and own.name != "sparqlstream":
        assert "sparqlstream, which reads further, writes FROM STREAM <stream> [NOW" in error.value.message
        assert error.value.message.endswith('try dialect="sparqlstream")')


@pytest.mark.parametrize("dialect", ["cqels", "csparql", "streaming-sparql"])
def test_a_window_clause_by_which_another_dialect_is_recognised(dialect: str) -> None:
    with pytest.raises(QueryError) as error:
        parse("SELECT ?x FROM NAMED STREAM <http://s> [RANGE 5s STEP 1s] { ?x ?y ?z }", dialect)
    assert 'looks like sparqlstream: try dialect="sparqlstream"' in error.value.message


def test_each_dialect_reads_the_window_that_messages_show_of_it() -> None:
    for name in names():
        query = parse(f"BASE <http://e/> SELECT * {find(name).window} {{ ?x ?y ?z }}", name)
        assert [window.stream for window in query.windows] == ["<http://e/stream>"]


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    text = "SELECT ?x { ?x ?y ?z }"
    assert parse("\ufeff" + text) == parse(text)
    assert Reader().read("\ufeff" + text)[0] == parse(text)
    with pytest.raises(QueryError) as error:
        parse("\ufeffSELECT ?x { ?x }")
    assert (error.value.line, error.value.column) == (1, 16)


def test_an_empty_query() -> None:
    with pytest.raises(QueryError, match="the query ends too early; expected ASK, BASE, CONSTRUCT, DESCRIBE, PREFIX or REGISTER"):
        parse("  # nothing\n")
