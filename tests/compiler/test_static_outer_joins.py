"""OPTIONAL, MINUS and EXISTS over static data in parts that are not evaluated whole: NOW() is in them, or a path that is too long."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_runs import Cut, World, register

from cqels_opt.compiler import block_builder
from cqels_opt.verify import Element

EX = "http://ex.org/"


def triple(text: str) -> tuple[str, str, str]:
    s, p, o = (f"<{EX}{name}>" for name in text.split())
    return s, p, o


STATIC = [triple(t) for t in ("a p v", "a q w", "b p v", "c p u", "c q w", "c r w", "a sub b", "b sub c")]
STREAM = [Element(1000, (triple("a at v"),)), Element(2000, (triple("c at u"),)), Element(3000, (triple("b at u"),))]
CUTS = [Cut("100"), Cut("1", "random", 1, 3)]

KINDS = {
    "OPTIONAL": "OPTIONAL { ?x :q ?w }",
    "OPTIONAL with a condition": "OPTIONAL { ?x :q ?w FILTER(?v = :u) }",
    "a filter over an OPTIONAL": "OPTIONAL { ?x :q ?w } FILTER(!BOUND(?w) || ?v = :u)",
    "MINUS": "MINUS { ?x :q ?w }",
    "NOT EXISTS": "FILTER NOT EXISTS { ?x :q ?w }",
    "NOT EXISTS with a condition": "FILTER NOT EXISTS { ?x :q ?w FILTER(?v = :v) }",
    "EXISTS": "FILTER EXISTS { ?x :q ?w }",
    "two of them": "OPTIONAL { ?x :q ?w } FILTER NOT EXISTS { ?x :r ?y }",
}
PLACES = {
    "the whole query": "?x :p ?v BIND(NOW() AS ?n) UNIT",
    "beside a stream": "GRAPH ?s { ?x :at ?t } { ?x :p ?v BIND(NOW() AS ?n) UNIT }",
    "in a branch of a UNION": "{ GRAPH ?s { ?x :at ?v } } UNION { ?x :p ?v BIND(NOW() AS ?n) UNIT }",
    "on the right of an OPTIONAL": "GRAPH ?s { ?z :at ?t } OPTIONAL { ?x :p ?v BIND(NOW() AS ?n) UNIT }",
    "under a filter with NOW()": "?x :p ?v UNIT FILTER(SECONDS(NOW()) > 1)",
}


def assert_as_defined(body: str, folder: Path) -> None:
    text = f"PREFIX : <{EX}> SELECT * FROM NAMED :S [RANGE 2 s] AS ?s {{ {body} }}"
    query = register(text, World({f"{EX}S": [STREAM]}, STATIC), folder)
    outcomes = [query.run(how) for how in CUTS]
    assert sum(outcomes[0].answers.values()) > 0
    verdict = query.judged(outcomes[0].answers)
    assert verdict.equal, verdict.text()
    assert all(outcome.answers == outcomes[0].answers for outcome in outcomes)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_beside_now(kind: str, place: str, tmp_path: Path) -> None:
    assert_as_defined(PLACES[place].replace("UNIT", KINDS[kind]), tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_next_to_a_path_that_is_too_long_to_precompute(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_builder, "PAIRS", 2)
    assert_as_defined(f"GRAPH ?s {{ ?z :at ?t }} {{ ?x :p ?v {KINDS[kind]} FILTER EXISTS {{ ?x :sub* ?y }} }}", tmp_path)
