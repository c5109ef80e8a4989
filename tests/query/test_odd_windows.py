"""Window clauses that published queries have and their languages do not define: how they are read, and what the warning says."""

from __future__ import annotations

import pytest

from cqels_opt.errors import QueryError
from cqels_opt.query.algebra import Window
from cqels_opt.query.never_bound import likely_mistakes
from cqels_opt.query.parser import parse
from cqels_opt.query.printing import to_text
from cqels_opt.query.texts import Reader
from cqels_opt.verify.dialects import rewritten

S = "<http://ex.org/S>"
RSPQL = f"SELECT ?p\nFROM NAMED WINDOW <urn:w> ON {S} %s\nWHERE {{ WINDOW <urn:w> {{ ?p <urn:at> ?place }} }}"
MERGED = "SELECT ?p\nFROM %s\nWHERE { ?p <urn:at> ?place }"
ODD = [
    (
        RSPQL % "[RANGE 10 STEP 2]",
        "rspql",
        Window("w", S, "open-closed", 10, 2),
        "line 2, column 1: 10 has no unit: it is read as 10 ms; 2 has no unit: it is read as 2 ms",
    ),
    (
        RSPQL % "[RANGE 1 m STEP 30000]",
        "rspql",
        Window("w", S, "open-closed", 60_000, 30_000),
        "line 2, column 1: 30000 has no unit: it is read as 30000 ms",
    ),
    (
        RSPQL.replace(f"ON {S} %s", f"[RANGE 4 s , SLIDE 2 s] ON STREAM {S}"),
        "rspql",
        Window("w", S, "open-closed", 4000, 2000),
        "line 2, column 1: the comma in the window is ignored",
    ),
    (
        MERGED % f"NAMED STREAM {S} [RANGE 1h STEP]",
        "sparqlstream",
        Window("S", S, "open-closed", 3_600_000, 3_600_000),
        "line 2, column 1: RANGE 1h STEP is read as NOW - 1h SLIDE 1h: a step without a value is one unit of the range",
    ),
    (
        MERGED % f"NAMED STREAM {S} [RANGE 90 minutes STEP]",
        "sparqlstream",
        Window("S", S, "open-closed", 5_400_000, 60_000),
        "line 2, column 1: RANGE 90 minutes STEP is read as NOW - 90min SLIDE 1min: a step without a value is one unit of the range",
    ),
    (
        MERGED % f"NAMED STREAM {S} [RANGE 1h STEP 10m]",
        "sparqlstream",
        Window("S", S, "open-closed", 3_600_000, 600_000),
        "line 2, column 1: RANGE 1h STEP 10m is read as NOW - 1h SLIDE 10min",
    ),
    (
        MERGED % f"NAMED STREAM {S} [RANGE  10 m TUMBLING]",
        "sparqlstream",
        Window("S", S, "open-closed", 600_000, 600_000),
        "line 2, column 1: RANGE 10 m TUMBLING is read as NOW - 10min SLIDE 10min",
    ),
    (
        MERGED % f"NAMED STREAM {S} [NOW]",
        "sparqlstream",
        Window("S", S, "now"),
        "line 2, column 1: [NOW] holds the elements of the instant itself",
    ),
    (
        MERGED % f"STREAM {S} [NOW]",
        "sparqlstream",
        Window("S", S, "now"),
        "line 2, column 1: [NOW] holds the elements of the instant itself",
    ),
    (
        MERGED % f"STREAM {S} [RANGE 5m SLIDE 30s]",
        "csparql",
        Window("S", S, "closed-open", 300_000, 30_000),
        "line 2, column 1: SLIDE is read as STEP, the word of C-SPARQL",
    ),
]


@pytest.mark.parametrize(("text", "dialect", "window", "sentence"), ODD)
def test_an_odd_window_is_recognised_and_read_with_a_warning(text: str, dialect: str, window: Window, sentence: str) -> None:
    query = parse(text)
    assert (query.dialect, query.windows) == (dialect, (window,))
    assert likely_mistakes(query) == (sentence,)


@pytest.mark.parametrize(("text", "dialect", "window", "sentence"), ODD)
def test_it_prints_in_the_form_of_its_language_and_reads_again_alike(
    text: str, dialect: str, window: Window, sentence: str
) -> None:
    printed = to_text(parse(text), dialect)
    again = parse(printed, dialect)
    assert again.windows == (window,)
    assert again.body == parse(text).body or window.name not in repr(again.body)
    assert to_text(again, dialect) == printed
    if window.kind != "now":
        assert not likely_mistakes(again)


def test_a_relative_name_of_the_answers_is_a_word_where_no_base_resolves_it() -> None:
    body = RSPQL % "[RANGE 1s STEP 1s]"
    assert parse(f"REGISTER RStream <out-1> AS {body}").output == parse(f"REGISTER RStream out-1 AS {body}").output == "out-1"
    assert parse(f"BASE <http://b/> REGISTER RStream <out-1> AS {body}").output == "<http://b/out-1>"
    again = parse(to_text(parse(f"REGISTER RStream <out-1> AS {body}"), "rspql"))
    assert (again.output, again.operator) == ("out-1", "rstream")
    with pytest.raises(QueryError, match=r"<\.\./out> is a relative IRI"):
        parse(f"REGISTER RStream <../out> AS {body}")


LOCAL = (
    f"SELECT * FROM NAMED WINDOW {{0}} ON {S} [RANGE 1s STEP 1s] FROM NAMED WINDOW <urn:v> ON {S} [RANGE 2s STEP 1s] {{{{ WINDOW {{1}} "
    "{{ ?s ?p ?o }} }}"
)


@pytest.mark.parametrize("name", [":w", "w:w", "<w>"])
def test_the_name_of_a_window_that_nothing_resolves_is_local_to_the_query(name: str) -> None:
    query = parse(LOCAL.format(name, name))
    assert query.windows[0] == Window("w", S, "open-closed", 1000, 1000)
    assert likely_mistakes(query) == (f"line 1, column 10: {name} is local to the query: no PREFIX or BASE resolves it",)
    again = parse(to_text(query, "rspql"))
    assert (again.windows, again.body) == (query.windows, query.body)
    over = parse(LOCAL.format(name, "?w"))
    assert "'<urn:window:w>'" in repr(over.body)
    assert "{ <urn:window:w> }" in rewritten(over).text and "{ <urn:v> }" in rewritten(over).text
    assert rewritten(query).text.count("GRAPH <urn:cqels-opt:window:w>") == 1
    with pytest.raises(QueryError, match=r"the window :x is not declared"):
        parse(LOCAL.format(name, ":x"))
    with pytest.raises(QueryError, match="<a/b> is a relative IRI"):
        parse(LOCAL.format("<a/b>", "<a/b>"))


def test_other_names_need_their_prefix() -> None:
    with pytest.raises(QueryError, match="the prefix ':' is not declared"):
        parse(LOCAL.format(":w", ":w").replace("?p", ":p"))
    with pytest.raises(QueryError, match="the prefix ':' is not declared"):
        parse(LOCAL.format(":w", ":w").replace(S, ":s"))


def test_the_place_is_that_of_each_text_of_an_outline() -> None:
    """A reader that knows the outline of a text moves the place of the warning with the constants before the clause."""
    reader, place = Reader(), RSPQL.replace("?place", "<urn:%s>") % ("[RANGE 10 STEP 2]", "hall")
    longer = place.replace("SELECT", "# a comment, <urn:of> some length\nSELECT")
    for text, line in ((place, 2), (place.replace("hall", "a-much-longer-name"), 2), (longer, 3)):
        query, _ = reader.read(text, "rspql")
        assert likely_mistakes(query)[0].startswith(f"line {line}, column 1: 10 has no unit")


@pytest.mark.parametrize(
    ("text", "message", "caret"),
    [
        (RSPQL.replace(S, "?stream") % "[RANGE 10s STEP 2s]", "a variable cannot name the stream of a window", "?stream"),
        (RSPQL.replace(S, "STREAM ?s") % "[RANGE 10s STEP 2s]", "a variable cannot name the stream of a window", "?s "),
        ("SELECT ?p { STREAM ?s [NOW] { ?p ?q ?r } }", "a variable cannot name the stream of a window", "?s "),
        (MERGED % "NAMED STREAM ?s [NOW - 5s]", "a variable cannot name the stream of a window", "?s "),
        ("PREFIX m: <mqtt://h/>" + RSPQL.replace(S, "m:a/b") % "[RANGE 1s STEP 1s]", r"write m:a\\/…, or the whole IRI", "/b"),
        (RSPQL % "[RANGE 0 STEP 2]", "a duration of zero", "0 STEP"),
        (RSPQL % "[RANGE 1.5 STEP 2]", "1.5 has no unit", "1.5"),
        ("REGISTER RSTREAM ?out AS " + RSPQL % "[RANGE 1s STEP 1s]", "unexpected .out; expected a name or an IRI", "?out"),
    ],
)
def test_what_has_no_clear_meaning_is_refused_at_its_place(text: str, message: str, caret: str) -> None:
    with pytest.raises(QueryError, match=message) as error:
        parse(text)
    before = text[: text.index(caret)]
    assert (error.value.line, error.value.column) == (before.count("\n") + 1, len(before) - before.rfind("\n"))
