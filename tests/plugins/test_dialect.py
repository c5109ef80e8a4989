"""A dialect of another package: a query in it is recognised, run, verified independently, and printed in it and in ours."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from added_parts import install
from local_runs import Cut, Settings, World, register

from cqels_opt.cli.grammar import parse as parse_command
from cqels_opt.compiler.dialect_profile import query_semantics
from cqels_opt.errors import InputError, QueryError
from cqels_opt.query.algebra import Window
from cqels_opt.query.dialects import names
from cqels_opt.query.dialects.registry import find
from cqels_opt.query.parser import parse
from cqels_opt.query.printing import to_text
from cqels_opt.verify import Element
from cqels_opt.windows.instants import Policy

GROUP = "cqels_opt.dialects"
QUERY = """PREFIX : <http://ex.org/>
SELECT ?name (COUNT(*) AS ?visits)
FROM STREAM :visits LATEST 10s EVERY 5s
WHERE { ?person :enters ?room . ?person :name ?name }
GROUP BY ?name
"""
X = "http://ex.org/"
VISITS = [("a", "r1", 1), ("b", "r1", 2), ("a", "r2", 4), ("a", "r1", 12), ("b", "r2", 31)]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, EntryPoint("latest", "dialect:DIALECT", GROUP), EntryPoint("cqels", "dialect:DIALECT", GROUP))


WORLD = World(
    {"http://ex.org/visits": [[Element(1000 * t, ((f"<{X}{p}>", f"<{X}enters>", f"<{X}{room}>"),)) for p, room, t in VISITS]]},
    [(f"<{X}{p}>", f"<{X}name>", f'"{p.upper()}"') for p in "ab"],
)


@pytest.mark.parametrize("batch", ["1", "2", "5"])
def test_a_query_runs_and_the_independent_evaluation_agrees(batch: str, tmp_path: Path) -> None:
    meant = query_semantics(parse(QUERY))
    assert (meant.report.default, meant.operator, meant.duplicates) == (
        Policy(window_close=True, non_empty=True),
        "rstream",
        "set",
    )
    query = register(QUERY, WORLD, tmp_path, Settings("rstream", {"": "wc,nc"}, duplicates="set"))
    done = query.run(Cut(batch))
    found = [json.loads(line) for line in done.lines]
    answers = {(a["time"], a["bindings"]["name"]["value"], int(a["bindings"]["visits"]["value"])) for a in found}
    expected = set()
    for end in range(
        10, 31, 5
    ):  # a window [end - 10 s, end) reports when it closes; the first opens at 0, the last element comes at 31 s
        for person in "ab":
            visits = sum(p == person and end - 10 <= t < end for p, _, t in VISITS)
            expected |= {(1000 * end, person.upper(), visits)} if visits else set()
    assert answers == expected
    verdict = query.judged(done.answers)
    assert verdict.equal, verdict.text()


def test_it_prints_back_and_into_other_dialects() -> None:
    query = parse(QUERY)
    assert query.dialect == "latest"
    assert query.windows == (Window("visits", "<http://ex.org/visits>", "closed-open", 10_000, 5000),)
    text = to_text(query, "latest")
    assert "FROM STREAM <http://ex.org/visits> LATEST 10s EVERY 5s" in text
    assert parse(text, "latest").windows == query.windows
    assert to_text(parse(text), "latest") == text
    assert parse(to_text(query, "csparql"), "csparql").windows == query.windows
    with pytest.raises(
        QueryError, match="latest cannot express this query: it has no clause for the window S, the last n elements"
    ):
        to_text(parse("SELECT * FROM STREAM <http://ex.org/S> [RANGE TRIPLES 9] { ?x ?y ?z }", "csparql"), "latest")


def test_it_is_an_option_like_ours() -> None:
    _, words = parse_command(["run", __file__, "--dialect", "latest", "--profile", "latest"])
    assert (words.dialect, words.profile) == ("latest", "latest")
    with pytest.raises(QueryError, match=r"unknown dialect 'last'; did you mean latest\?; there are auto, cqels, .*, latest"):
        parse(QUERY, "last")


def test_mistakes_in_it_are_query_errors() -> None:
    with pytest.raises(QueryError, match="a duration of zero") as error:
        parse(QUERY.replace("10s", "0s"))
    assert (error.value.line, error.value.column) == (3, 28)


def test_ours_cannot_be_replaced() -> None:
    assert names().count("cqels") == 1
    assert find("cqels").name == "cqels"


def test_an_entry_point_that_is_no_dialect_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, EntryPoint("wrong", "collections:Counter", GROUP))
    with pytest.raises(
        InputError, match=r"the entry point 'wrong' of cqels_opt.dialects must be a Dialect with the name 'wrong'"
    ):
        find("wrong")
