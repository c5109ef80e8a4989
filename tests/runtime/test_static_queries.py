"""Queries over static data alone: answered once, at t0."""

from __future__ import annotations

from pathlib import Path

import pytest
from by_definition import answers_in_time
from conformance.conftest import short
from local_runs import Cut, Settings, World, register

from cqels_opt.query.printing import to_text
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.verify import Element, compare

EX = "http://ex.org/"
STATIC = [(f"<{EX}{s}>", f"<{EX}{p}>", f"<{EX}{o}>") for s, p, o in (("a", "at", "x"), ("b", "at", "x"), ("x", "near", "y"))]
BODIES = {
    "join": ("?p ?m", "{ ?p :at ?l . ?l :near ?m }", 2),
    "group": ("?l (COUNT(*) AS ?n)", "{ ?p :at ?l } GROUP BY ?l", 1),
    "optional": ("?p ?m", "{ ?p :at ?l OPTIONAL { ?p :near ?m } }", 2),
    "union": ("?p", "{ { ?p :at ?l } UNION { ?p :near ?l } }", 3),
    "distinct": ("DISTINCT ?l", "{ ?p :at ?l }", 1),
    "limit": ("?p", "{ ?p :at ?l } ORDER BY DESC(?p) LIMIT 1", 1),
    "values": ("?p", "{ VALUES ?p { :a :z } }", 2),
    "nothing": ("?p", "{ ?p :far ?l }", 0),
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize(("operator", "sign"), [("istream", "+"), ("rstream", "="), ("dstream", "-")])
@pytest.mark.parametrize("t0", [0, 1_500_000])
def test_once(name: str, operator: str, sign: str, t0: int, tmp_path: Path) -> None:
    select, where, rows = BODIES[name]
    text = f"PREFIX : <{EX}> SELECT {select} {where}"
    query = register(text, World({}, STATIC), tmp_path, Settings(operator, t0={"": t0}))
    sink = LocalSink()
    driver = query.driver(Cut("1"), sink=sink)
    driver.batch(0, None)
    answers = query.answers(sink.lines)
    assert sum(answers.values()) == (0 if operator == "dstream" else rows)
    assert {(time, op) for time, op, _ in answers} <= {(t0, sign)}
    verdict = query.judged(answers)
    assert verdict.equal, verdict.text()
    driver.batch(1, None)
    assert query.answers(sink.lines) == answers


GRAPHS = {f"{EX}g": [(f"<{EX}a>", f"<{EX}at>", f"<{EX}x>")], f"{EX}h": [(f"<{EX}b>", f"<{EX}at>", f"<{EX}x>")]}
EACH = "{ GRAPH ?g { ?p :at ?l } }"
DATASETS = {
    "named": ("FROM NAMED :g", EACH, ["g a"]),
    "a path": ("FROM NAMED :g", "{ GRAPH ?g { ?p :at* :x } }", ["g a", "g x"]),
    "the default graph is empty": ("FROM NAMED :g", "{ ?p :at ?l BIND(1 AS ?g) }", []),
    "a graph that is not seen": ("FROM NAMED :g", "{ GRAPH :h { ?p :at ?l BIND(1 AS ?g) } }", []),
    "no named graph": ("FROM :g", EACH, []),
    "the default graph": ("FROM :g FROM NAMED :h", "{ ?p :at ?l OPTIONAL { GRAPH ?g { ?q :at ?l } } }", ["h a"]),
    "in EXISTS": (
        "FROM :g FROM NAMED :h",
        "{ ?p :at ?l FILTER EXISTS { GRAPH ?k { ?q :at ?l } FILTER(?k = :h) } BIND(1 AS ?g) }",
        ["1 a"],
    ),
    "all that is loaded": ("", EACH, ["g a", "h b"]),
}


@pytest.mark.parametrize("name", DATASETS)
def test_from_says_the_dataset(name: str, tmp_path: Path) -> None:
    clauses, where, rows = DATASETS[name]
    text = f"PREFIX : <{EX}> SELECT ?g ?p {clauses} WHERE {where}"
    query, sink = register(text, World({}, STATIC, GRAPHS), tmp_path, Settings("rstream")), LocalSink()
    query.driver(Cut("1"), sink=sink).batch(0, None)
    answers = query.answers(sink.lines)
    assert [row.partition(" = ")[2] for row in short(answers)] == rows
    assert query.judged(answers).equal
    assert not compare(answers_in_time(query.query, query.world.inputs(), query.settings.options), answers)
    again = register(to_text(query.query, "rspql"), query.world, tmp_path / "again", Settings("rstream"))
    again.driver(Cut("1"), sink=(other := LocalSink())).batch(0, None)
    assert again.answers(other.lines) == answers


def test_beside_a_stream_all_named_graphs_are_seen(tmp_path: Path) -> None:
    text = f"PREFIX : <{EX}> SELECT ?g ?p FROM NAMED :g {{ GRAPH ?g {{ ?p :at ?l }} STREAM :S [NOW] {{ ?l :open :now }} }}"
    elements = [Element(1000, ((f"<{EX}x>", f"<{EX}open>", f"<{EX}now>"),))]
    query = register(text, World({f"{EX}S": [elements]}, STATIC, GRAPHS), tmp_path)
    found = query.run().answers
    assert short(found) == ["1 + g a", "1 + h b"]
    assert query.judged(found).equal


CLOCKED = {
    "in order": "SELECT ?p ... { ?p :at ?l } ORDER BY ?p LIMIT 1",
    "a bag": "SELECT ?p ... { ?p :at ?l }",
    "counted": "SELECT (COUNT(*) AS ?n) ... { ?p :at ?l } OFFSET 0",
    "a sum of the clock": "SELECT (SUM(?s) AS ?n) ... { ?p :at ?l BIND(SECONDS(NOW()) AS ?s) }",
    "groups of the clock": "SELECT ?l (SUM(?s) AS ?n) ... { ?p :at ?l BIND(SECONDS(NOW()) AS ?s) } GROUP BY ?l",
    "the clock as a group": "SELECT ?s (COUNT(*) AS ?n) ... { BIND(NOW() AS ?s) } GROUP BY ?s",
    "beside a window": "SELECT ?n ... { { SELECT (SUM(?s) AS ?n) { ?p :at ?l BIND(SECONDS(NOW()) AS ?s) } } GRAPH ?w { ?e :in ?l } }",
}


@pytest.mark.parametrize("name", CLOCKED)
@pytest.mark.parametrize("operator", ["istream", "rstream", "dstream"])
def test_with_a_window_that_is_not_read_shares_do_not_count_it_twice(name: str, operator: str, tmp_path: Path) -> None:
    """The answers follow the clock of the stream, and each task has all of the static data."""
    elements = [Element(1000 + 300 * i, ((f"<{EX}e{i}>", f"<{EX}in>", f"<{EX}x>"),)) for i in range(8)]
    text = f"PREFIX : <{EX}> {CLOCKED[name].replace('...', 'FROM NAMED :S [RANGE 2s] AS ?w WHERE')}"
    query = register(text, World({f"{EX}S": [elements]}, STATIC), tmp_path, Settings(operator, drain=True))
    whole = query.run(Cut("100")).answers
    assert query.judged(whole).equal
    for cut in (Cut("100", parts=3), Cut("1", parts=3), Cut("3", split=2, parts=2)):
        assert query.run(cut).answers == whole


def test_groups_keep_the_numbers_of_their_files(tmp_path: Path) -> None:
    """A group that is not kept has a number too: checkpoints of earlier versions have sums for it."""
    text = (
        f"PREFIX : <{EX}> SELECT ?n FROM NAMED :S [RANGE 2s] AS ?w WHERE {{"
        "{ SELECT (SUM(?s) AS ?n) { ?p :at ?l BIND(SECONDS(NOW()) AS ?s) } } UNION { SELECT (COUNT(*) AS ?n) { GRAPH ?w { ?e :in ?l } } } }"
    )
    query = register(text, World({f"{EX}S": [[]]}, STATIC), tmp_path, Settings("rstream"))
    assert [(number, group.moves) for number, group in query.program.pushdown.additive.items()] == [(1, True)]
