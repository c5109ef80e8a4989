"""Errors that random queries found, each reduced: the engine's answers equal the independent evaluation's."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_runs import Cut, Settings, World, register

from cqels_opt.storage.compaction_policy import CompactionPolicy
from cqels_opt.verify import Element

from .conftest import EX, STREAM

CUTS = [Cut("100"), Cut("1", "first"), Cut("2", "worst", 3, 3), Cut("500ms", "random", 1, 3)]


def element(t: int, *triples: str) -> Element:
    """``a at x`` is a triple of IRIs; a token that begins with a quotation mark, or is a number, is a literal."""
    return Element(t, tuple(_triple(triple) for triple in triples))


def _triple(text: str) -> tuple[str, str, str]:
    s, p, o = (_term(part) for part in text.split())
    return s, p, o


def _term(text: str) -> str:
    if text.lstrip("-").isdigit():
        return f'"{text}"^^<http://www.w3.org/2001/XMLSchema#integer>'
    return text if text.startswith('"') else f"<{EX}{text}>"


STREAM_S = [
    element(1000, "a at x"),
    element(1000, "b at x", "b val 2"),
    element(2000, "a at y", "a val 7", "a knows b"),
    element(2500, "c at y"),
    element(4000, "b at x", "b knows c"),
    element(6000, "c val 0", "c knows a"),
]
STATIC = [_triple(t) for t in ("x near y", "y near x", "x cap 3", 'a name "Ann"', 'b name "Bob"')]
GRAPHS = {f"{EX}g": [_triple("x in r"), _triple("y in r")], f"{EX}h": [_triple("x in q")]}

FOUND = {
    "COUNT(DISTINCT *) looks at variables that nothing else reads": (
        "SELECT ?x (COUNT(DISTINCT *) AS ?k) { GRAPH ?w { ?a :at ?x . ?a :val ?v } } GROUP BY ?x",
        Settings(),
    ),
    "LIMIT goes by all variables of the group where ORDER BY leaves ties": (
        "SELECT ?x { GRAPH ?w { ?a :at ?x } } ORDER BY DESC(?x) LIMIT 1 OFFSET 1",
        Settings("rstream"),
    ),
    "a second key decides where the first are equal in value": (
        "SELECT ?x { GRAPH ?w { ?a :at ?x } BIND(IF(?x = :x, 1, 1.0) AS ?k) } ORDER BY ?k DESC(?x) LIMIT 1",
        Settings("rstream"),
    ),
    "NOW below ORDER BY and LIMIT changes although no row begins or ends": (
        "SELECT ?a (NOW() AS ?now) { GRAPH ?w { ?a :val ?v } } ORDER BY ?a LIMIT 10",
        Settings(),
    ),
    "a sort key with NOW changes although no row begins or ends": (
        "SELECT ?a { GRAPH ?w { ?a :val ?v } } ORDER BY IF(SECONDS(NOW()) > 2, ?v, -?v) LIMIT 1",
        Settings(),
    ),
    "DISTINCT after ORDER BY goes by the first of equal rows that are there": (
        "SELECT DISTINCT ?x { GRAPH ?w { ?a :at ?x } } ORDER BY ?a LIMIT 1",
        Settings("rstream"),
    ),
    "the order of a sub-select ends with it": (
        "SELECT ?a { { SELECT ?a ?x { GRAPH ?w { ?a :at ?x } } ORDER BY DESC(?a) LIMIT 2 } } LIMIT 1",
        Settings("rstream"),
    ),
    "a DISTINCT sub-select is distinct by what is not read outside it": (
        "SELECT (COUNT(*) AS ?k) { { SELECT DISTINCT ?a { GRAPH ?w { ?a :at ?x } } } }",
        Settings(),
    ),
    "so it is in each graph": (
        "SELECT ?g ?a { GRAPH ?w { ?a :at ?x } GRAPH ?g { SELECT DISTINCT ?x { ?x :in ?r } } }",
        Settings(),
    ),
    "LIMIT in a sub-select goes by what is not read outside it": (
        "SELECT ?x { { SELECT ?a ?x { GRAPH ?w { ?a :at ?x } } LIMIT 1 } }",
        Settings("rstream"),
    ),
    "NOW() in a part that is static otherwise": (
        "SELECT ?a ?t { GRAPH ?w { ?a :at ?x } { ?x :cap ?c BIND(NOW() AS ?t) } }",
        Settings(),
    ),
    "NOW() makes new answers of rows that stay": (
        "SELECT ?a ?t { GRAPH ?w { ?a :at ?x } BIND(SECONDS(NOW()) AS ?t) }",
        Settings("dstream"),
    ),
    "a filter with NOW() is no filter of a block": (
        "SELECT ?a { GRAPH ?w { ?a :at ?x } FILTER(SECONDS(NOW()) > 2) }",
        Settings(),
    ),
    "NOW() in an aggregate": ("SELECT (MAX(SECONDS(NOW())) AS ?t) { GRAPH ?w { ?a :at ?x } }", Settings()),
    "a static part that leaves a shared variable unbound": (
        "SELECT ?a ?c { GRAPH ?w { ?a :at ?x } { { } UNION { ?x :cap ?c } } }",
        Settings("dstream"),
    ),
    "an element that tasks share is one of the last n": ("SELECT ?a ?v { GRAPH ?l { ?a :val ?v } }", Settings()),
    "elements of one time fall out of the last n one by one": ("SELECT ?a ?x { GRAPH ?l { ?a :at ?x } }", Settings("dstream")),
    "a grid closes at its points": ("SELECT ?a { GRAPH ?z { ?a :at ?x } }", Settings("rstream", {"": "wc"})),
    "a union of static parts is joined by plan": (
        "SELECT ?a ?y { GRAPH ?w { ?a :at ?x } { { ?x :near ?y } UNION { ?x :cap ?d . ?y :cap ?d } } }",
        Settings(),
    ),
    "a named graph that has to be there": ("SELECT ?a ?g { GRAPH ?w { ?a :at ?x } GRAPH ?g { } GRAPH :h { } }", Settings()),
    "an optional part within GRAPH ?g": (
        "SELECT ?a ?g ?r { GRAPH ?w { ?a :at ?y } GRAPH ?g { ?x :in ?q OPTIONAL { ?y :in ?r } } }",
        Settings(),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_found_by_chance(name: str, tmp_path: Path) -> None:
    text, settings = FOUND[name]
    select, body = text.split(" { ", 1)
    windows = {"w": "RANGE 2 s", "l": "TRIPLES 3", "z": "RANGE 3 s SLIDE 1 s"}
    clauses = " ".join(f"FROM NAMED :S [{clause}] AS ?{w}" for w, clause in windows.items() if f"GRAPH ?{w}" in body)
    query = register(
        f"PREFIX : <{EX}> {select} {clauses} {{ {body}", World({STREAM: [STREAM_S]}, STATIC, GRAPHS), tmp_path, settings
    )
    outcomes = [query.run(how) for how in CUTS]
    assert sum(outcomes[0].answers.values()) > 0
    verdict = query.judged(outcomes[0].answers)
    assert verdict.equal, verdict.text()
    assert all(outcome.answers == outcomes[0].answers for outcome in outcomes)


def test_drain_goes_to_an_instant_at_which_all_is_empty(tmp_path: Path) -> None:
    """The last window reports every 700 ms: the drain advances to the first report after the content has ended."""
    text = f"PREFIX : <{EX}> SELECT (COUNT(*) AS ?k) FROM NAMED :S [RANGE 2 s] AS ?w {{ GRAPH ?w {{ ?a :at ?x }} }}"
    settings = Settings("rstream", {"": "p:700"}, drain=True)
    query = register(text, World({STREAM: [STREAM_S]}), tmp_path, settings)
    outcome = query.run(Cut("2"))
    assert query.judged(outcome.answers).equal
    assert max(time for time, _, _ in outcome.answers) == 8400


def test_drain_waits_for_an_element_that_is_seen_after_the_last_one_has_gone(tmp_path: Path) -> None:
    """An element of 9 s is in the window from 10 s to 20 s; an element of 11 s never is."""
    text = f"PREFIX : <{EX}> SELECT ?a FROM NAMED :S [RANGE 2 s SLIDE 10 s] AS ?w {{ GRAPH ?w {{ ?a :at ?x }} }}"
    stream = [element(9000, "a at x"), element(11000, "b at x")]
    query = register(text, World({STREAM: [stream]}), tmp_path, Settings("dstream", drain=True))
    for how in CUTS:
        outcome = query.run(how)
        assert query.judged(outcome.answers).equal
        assert [time for time, _, _ in outcome.answers] == [20000]


def test_elements_out_of_order_in_slots_on_both_sides_of_a_step(tmp_path: Path) -> None:
    """The tasks of the first batch have the times 20 and 30, 5 and 100, and 15. A later step reads what is behind 5 and up to 50."""
    many = [
        *(element(1000 * t, f"{person} at y{i}") for t, person in ((141, "f"), (209, "g")) for i in range(5)),
        element(125_000, "h at x"),
        *(element(300_000, f"i at y{i}") for i in range(4)),
    ]
    first = [
        element(1000 * t, row) for t, row in ((20, "a at k"), (30, "b at x"), (5, "c at k"), (100, "d at k"), (15, "e at k"))
    ]
    body = "GRAPH ?w { ?p :at ?l . ?q :at ?l } FILTER(?l = :x)"
    text = f"PREFIX : <{EX}> SELECT ?p ?q FROM NAMED :S [RANGE 100s] AS ?w {{ {body} }}"
    query = register(text, World({STREAM: [first + many]}), tmp_path, Settings(lateness=90_000))
    whole = query.run(Cut("100"))
    verdict = query.judged(whole.answers)
    assert verdict.equal, verdict.text()
    assert len(whole.lines) == 4
    assert query.run(Cut("5", split=3, parts=1, tiers=CompactionPolicy())).answers == whole.answers
