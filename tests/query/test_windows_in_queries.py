"""The report's language and CQELS-QL: windows, their names and positions, durations, and the sources of patterns."""

from __future__ import annotations

import pytest

from cqels_opt.errors import QueryError
from cqels_opt.query import durations
from cqels_opt.query.algebra import (
    Bgp,
    DefaultGraph,
    GraphsMerged,
    InWindow,
    Join,
    NamedGraph,
    Project,
    TriplePattern,
    Variable,
    Window,
)
from cqels_opt.query.parser import parse

S = "<http://ex.org/S>"
PATTERN = TriplePattern(Variable("p"), "<http://ex.org/at>", Variable("l"))


def window(brackets: str) -> Window:
    (found,) = parse(f"SELECT * FROM NAMED {S} [{brackets}] AS ?w {{ GRAPH ?w {{ ?p <http://ex.org/at> ?l }} }}").windows
    return found


@pytest.mark.parametrize(
    ("brackets", "expected"),
    [
        ("NOW", Window("w", S, "now")),
        ("ALL", Window("w", S, "all")),
        ("TRIPLES 12", Window("w", S, "last", count=12)),
        ("RANGE 30 seconds", Window("w", S, "range", 30_000)),
        ("range 30S", Window("w", S, "range", 30_000)),
        ("RANGE 5s SLIDE 2s", Window("w", S, "grid", 5000, 2000)),
        ("RANGE 1h30m TUMBLING", Window("w", S, "grid", 5_400_000, 5_400_000)),
    ],
)
def test_windows(brackets: str, expected: Window) -> None:
    assert window(brackets) == expected


def test_a_window_and_its_place_in_the_text() -> None:
    text = f"""# a comment with ] and {{
    SELECT ?p FROM NAMED <http://ex.org/plain>
    FROM  NAMED {S}
      [ RANGE 5 s ]  as ?w   WHERE {{
      graph $w {{ ?p <http://ex.org/at> ?l }} ?p <http://ex.org/at> "FROM NAMED <x> [NOW] AS ?w" }}"""
    query = parse(text)
    assert query.windows == (Window("w", S, "range", 5000),)
    (clause,) = query.clauses
    assert text[clause.start : clause.end] == f"FROM  NAMED {S}\n      [ RANGE 5 s ]  as ?w"
    assert isinstance(query.body, Project)
    assert isinstance(query.body.input, Join)
    assert query.body.input.left == Bgp((PATTERN,), InWindow("w"))


def test_an_inline_stream_is_a_window_named_after_it() -> None:
    text = f"SELECT * {{ STREAM {S} [NOW] {{ ?p <http://ex.org/at> ?l }} stream {S} [RANGE 3s]{{ ?p <http://ex.org/at> ?l }} }}"
    query = parse(text)
    assert query.windows == (Window("S", S, "now"), Window("S2", S, "range", 3000))
    assert [text[c.start : c.end] for c in query.clauses] == [f"STREAM {S} [NOW]", f"stream {S} [RANGE 3s]"]
    assert query.body == Project(
        Join(Bgp((PATTERN,), InWindow("S")), Bgp((PATTERN,), InWindow("S2"))), (Variable("p"), Variable("l"))
    )


def test_inline_windows_without_a_local_name_are_numbered() -> None:
    query = parse("SELECT * { STREAM <http://ex.org/7/> [NOW] { ?a ?b ?c } STREAM <http://ex.org/8/> [NOW] { ?a ?b ?c } }")
    assert [w.name for w in query.windows] == ["s1", "s2"]


def test_graph_is_a_window_only_where_it_is_declared() -> None:
    query = parse(f"SELECT * FROM NAMED {S} [NOW] AS ?w {{ GRAPH ?v {{ ?p <http://ex.org/at> ?l }} ?p <http://ex.org/at> ?l }}")
    assert isinstance(query.body, Project)
    join = query.body.input
    assert join == Join(Bgp((PATTERN,), NamedGraph(Variable("v"))), Bgp((PATTERN,), DefaultGraph()))
    assert query.variables == (Variable("v"), Variable("p"), Variable("l"))


def test_everything_in_the_group_of_a_window_is_matched_in_it() -> None:
    query = parse(
        f"SELECT * FROM NAMED {S} [NOW] AS ?w {{ GRAPH ?w {{ ?p <http://ex.org/at> ?l OPTIONAL {{ ?a ?b ?c }} "
        "FILTER NOT EXISTS { ?d ?e ?f } GRAPH <http://g> { ?g ?h ?i } } }"
    )
    assert str(query.body).count("InWindow(window='w'") == 3
    assert str(query.body).count("NamedGraph(name='<http://g>')") == 1


def test_one_default_graph_of_from() -> None:
    query = parse("SELECT * FROM <http://g> { ?p <http://ex.org/at> ?l }")
    assert query.body == Project(Bgp((PATTERN,), GraphsMerged(("<http://g>",))), (Variable("p"), Variable("l")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30 seconds", 30_000),
        ("1second", 1000),
        ("500ms", 500),
        ("1h30m", 5_400_000),
        ("1 h 30 min", 5_400_000),
        ("2 min", 120_000),
        ("1.5 s", 1500),
        ("2000us", 2),
        ("3000000ns", 3),
        ("1 Day", 86_400_000),
        ("2 weeks", 1_209_600_000),
        ("PT5S", 5000),
        ("pt0.25s", 250),
        ("P1DT12H", 129_600_000),
        ("P2W", 1_209_600_000),
        ("0s", 0),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert durations.milliseconds(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("30", "no unit"),
        ("", "missing"),
        ("3 fortnights", "unknown unit of time 'fortnights'"),
        ("500us", "whole number of milliseconds"),
        ("PT0.0001S", "whole number of milliseconds"),
        ("P1M", "years and months have no fixed length"),
        ("PT", "not a duration"),
        ("1h30", "no unit"),
        ("soon", "not a duration"),
        ("99999999999999 weeks", "longer than any time"),
    ],
)
def test_bad_durations(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        durations.milliseconds(text)


@pytest.mark.parametrize(
    ("brackets", "message"),
    [
        ("RANGE 0s", "a duration of zero"),
        ("RANGE 5s SLIDE 0 ms", "a duration of zero"),
        ("TRIPLES 0", "at least one element"),
        ("RANGE 30", "has no unit"),
        ("RANGE 1 us", "whole number of milliseconds"),
        ("RNGE 30s", "did you mean RANGE"),
        ("RANGE 30s STEP 3s", "unexpected STEP"),
        ("TRIPLES 3s", "unexpected s; expected '\\]'"),
        ("", "expected ALL, NOW, RANGE or TRIPLES"),
    ],
)
def test_bad_windows(brackets: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        window(brackets)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"SELECT * FROM NAMED {S} [NOW] AS ?w FROM NAMED {S} [ALL] AS ?w {{ }}", "the window w is declared twice"),
        (f"SELECT ?w FROM NAMED {S} [NOW] AS ?w {{ ?a ?b ?c }}", r"\?w names a window and has no value"),
        (f"SELECT * FROM NAMED {S} [NOW] AS ?w {{ GRAPH ?w {{ ?w ?b ?c }} }}", r"\?w names a window and has no value"),
        (f"SELECT * FROM NAMED {S} [NOW] {{ ?a ?b ?c }}", "expected AS"),
        (f"SELECT * FROM NAMED WINDOW <urn:w> ON {S} [RANGE PT5S STEP PT5S] {{ ?a ?b ?c }}", "undetected"),
    ],
)
def test_bad_declarations(text: str, message: str) -> None:
    dialect = "cqels"
    if message == "undetected":
        message = r"unexpected WINDOW.*read as cqels, but looks like rspql: try dialect=\"rspql\""
    with pytest.raises(QueryError, match=message):
        parse(text, dialect)


def test_an_unknown_dialect() -> None:
    with pytest.raises(QueryError, match=r"unknown dialect 'rsp-ql'; did you mean rspql\?; there are auto, cqels"):
        parse("SELECT * { }", "rsp-ql")
