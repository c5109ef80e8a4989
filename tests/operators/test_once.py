"""Queries over static data alone: answered once, at t0."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_run import Cut, Settings, World, register

from cqels_opt.operators.local import LocalSink

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
