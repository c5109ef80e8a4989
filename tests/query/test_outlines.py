"""Outlines of queries that differ only in constants, and how many queries share a template."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cqels_opt.query import algebra as a
from cqels_opt.query import texts
from cqels_opt.query.outlines import filled, outline
from cqels_opt.query.parser import parse
from cqels_opt.query.templates import INSTANCE, template_of
from cqels_opt.query.texts import Reader

HEAD = "PREFIX : <http://ex.org/> SELECT ?l FROM NAMED :S [RANGE 5s] AS ?w "
WHERE = HEAD + "{{ GRAPH ?w {{ {0} :at ?l }} ?l :name {1} FILTER(?l != {2}) }}"


def text(*constants: str) -> str:
    return WHERE.format(*constants)


def test_an_outline_has_holes_where_constants_were() -> None:
    query = parse(text(":ann", '"x"', ":b"))
    found = outline(query)
    assert found is not None
    assert found.values == ("<http://ex.org/ann>", '"x"', "<http://ex.org/b>")
    assert filled(found.query, found.values) == query.body
    other = outline(parse(text(":bob", '"y"', ":c")))
    assert other is not None and other.query == found.query


@pytest.mark.parametrize(
    "other",
    [
        HEAD.replace("5s", "6s") + "{ GRAPH ?w { :ann :at ?l } ?l :name 'x' FILTER(?l != :b) }",
        text(":ann", "'x'", ":b").replace(":at", ":in"),
        text(":ann", "'x'", ":b").replace("?l", "?m"),
        text(":ann", "'x'", ":b").replace(":S", ":T"),
    ],
)
def test_what_is_more_than_constants_makes_another_outline(other: str) -> None:
    one, two = outline(parse(text(":ann", '"x"', ":b"))), outline(parse(other))
    assert one is not None and two is not None and one.query != two.query


@pytest.mark.parametrize(
    "alone",
    [
        "PREFIX : <http://ex.org/> CONSTRUCT { :a :b ?l } FROM NAMED :S [NOW] AS ?w { GRAPH ?w { :ann :at ?l } }",
        "PREFIX : <http://ex.org/> ASK FROM NAMED :S [NOW] AS ?w { GRAPH ?w { :ann :at ?l } }",
        HEAD + "{ GRAPH ?w { :ann :at ?l } BIND(RAND() AS ?r) }",
    ],
)
def test_what_hangs_on_the_text_is_on_its_own(alone: str) -> None:
    assert outline(parse(alone)) is None


def test_constants_that_agree_are_one_parameter() -> None:
    outlines = [outline(parse(text(p, '"x"', p))) for p in (":ann", ":bob", ":cem")]
    found = template_of([one for one in outlines if one is not None])
    assert found.holes == (0, '"x"', 0) and found.parameters == 1
    for query, values in ((text(":dan", '"x"', ":dan"), ("<http://ex.org/dan>",)), (text(":dan", '"y"', ":dan"), None)):
        given = outline(parse(query))
        assert given is not None and found.values(given) == values
    apart = outline(parse(text(":dan", '"x"', ":eva")))
    assert apart is not None and found.values(apart) is None


def test_equality_with_a_constant_is_a_join() -> None:
    asked = [outline(parse(HEAD + f"{{ GRAPH ?w {{ ?p :at ?l }} FILTER(?p = {p} && ?l > 1) }}")) for p in (":a", ":b")]
    found = template_of([one for one in asked if one is not None])
    body = found.shared({1: ("<http://ex.org/a>",), 2: ("<http://ex.org/b>",)}).body
    assert isinstance(body, a.Project) and isinstance(body.input, a.Filter)
    joined = body.input.input
    assert isinstance(joined, a.Join) and isinstance(joined.right, a.Values)
    assert joined.right.variables == (INSTANCE, a.Variable("p"))
    numbers = [outline(parse(HEAD + f"{{ GRAPH ?w {{ ?p :at ?l }} FILTER(?l = {n}) }}")) for n in (1, 2)]
    body = template_of([one for one in numbers if one is not None]).shared({1: ("1",), 2: ("2",)}).body
    assert isinstance(body, a.Project) and isinstance(body.input, a.Filter)  # 1 and 1.0 are equal values but two terms


# ------------------------------------------------------------------ texts
def test_texts_of_an_outline_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    monkeypatch.setattr(texts, "parse", lambda *given: parsed.append(given[0]) or parse(*given))
    reader = Reader()
    long = WHERE.replace(":S", "<http://ex.org/S>")
    for name in ("ann", "b", "someone-else"):
        asked = long.format(f"<http://ex.org/{name}>", f'"{name * 3}"', ":b")
        query, found = reader.read(asked, "auto", f"{name}.rq")
        want = parse(asked, "auto", f"{name}.rq")
        assert query == want and query.file == want.file
        assert found == outline(want) and found is not None and found.values == outline(want).values  # type: ignore[union-attr]
        assert asked[query.clauses[0].start : query.clauses[0].end] == asked[want.clauses[0].start : want.clauses[0].end]
    assert len(parsed) == 3  # one text, parsed twice with markers
    other = long.replace("http://ex.org/S>", "http://ex.org/T>").format("<http://ex.org/ann>", '"x"', ":b")
    assert reader.read(other)[0] == parse(other)


@pytest.mark.parametrize(
    "asked",
    [
        HEAD + '{ GRAPH ?w { <http://ex.org/a> :at ?l } FILTER(REGEX(?l, "^a\\\\.b")) } # "not <http://x.org/this>',
        HEAD + '{ GRAPH ?w { <http://ex.org/a> :at "b"@en , "3"^^<http://www.w3.org/2001/XMLSchema#integer> , """c "d" """ } }',
        HEAD + '{ GRAPH ?w { <http://ex.org/a> <http://ex.org/at>/<http://ex.org/in> ?l } BIND("x" AS ?y) }',
        HEAD + "{ GRAPH ?w { ?p :at ?l } FILTER(?l <3&&?l >1) VALUES ?p { <http://ex.org/a> } }",
        HEAD + '{ GRAPH ?w { ?p :at ?l } { SELECT ?p (GROUP_CONCAT(?n ; SEPARATOR=", ") AS ?all) { ?p :name ?n } GROUP BY ?p } }',
    ],
)
def test_a_text_that_was_learnt_is_read_as_it_is_parsed(asked: str) -> None:
    reader = Reader()
    for shown in (asked, asked.replace("ex.org/a>", "ex.org/other>"), asked.replace('"x"', '"yy"'), asked):
        query, found = reader.read(shown)
        want = parse(shown)
        assert query == want and found == outline(want)
        assert (found is None) == (outline(want) is None)
        if found is not None:
            assert replace(found, values=()) == replace(outline(want), values=()) and found.values == outline(want).values  # type: ignore[type-var, union-attr]
