"""Fixed queries, one per feature, over random streams: equal to the independent evaluation for any batches, plans and shares.

``CQELS_OPT_EXAMPLES`` is the number of examples per query.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_runs import Cut, Registered, Settings, World, register

from cqels_opt.verify import Element

from .conftest import EX

EXAMPLES = int(os.environ.get("CQELS_OPT_EXAMPLES", "8"))
STATIC = [(f"<{EX}x>", f"<{EX}near>", f"<{EX}y>"), (f"<{EX}y>", f"<{EX}near>", f"<{EX}y>"), (f"<{EX}a>", f"<{EX}name>", '"Ann"')]
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
OBJECTS = {
    "at": [f"<{EX}x>", f"<{EX}y>"],
    "val": [f'"1"^^<{INTEGER}>', f'"2"^^<{INTEGER}>', '"two"'],
    "knows": [f"<{EX}a>", f"<{EX}b>"],
}

triples = st.sampled_from(sorted(OBJECTS)).flatmap(
    lambda p: st.tuples(st.sampled_from([f"<{EX}a>", f"<{EX}b>", f"<{EX}c>"]), st.just(f"<{EX}{p}>"), st.sampled_from(OBJECTS[p]))
)
elements = st.builds(
    lambda step, ts: (step, tuple(dict.fromkeys(ts))),
    st.sampled_from([0, 0, 250, 500, 500, 1000, 2500, -100, -3000]),
    st.lists(triples, min_size=1, max_size=2),
)
# the SELECT clause and the body; a bar separates the modifiers
FEATURES = {
    "now and range": ("?a ?b ?x", "GRAPH ?n { ?a :at ?x } GRAPH ?w { ?b :at ?x }"),
    "two streams and static": ("?a ?b ?y", "GRAPH ?w { ?a :at ?x } ?x :near ?y . GRAPH ?t { ?b :at ?y . ?b :knows ?a }"),
    "grid": ("?a ?x", "GRAPH ?g { ?a :at ?x }"),
    "last n": ("?a ?b", "GRAPH ?l { ?a :knows ?b } GRAPH ?w { ?b :at ?x }"),
    "all": ("?a ?x ?v", "GRAPH ?e { ?a :at ?x } GRAPH ?n { ?a :val ?v }"),
    "optional": ("?a ?x ?v", "GRAPH ?w { ?a :at ?x } OPTIONAL { GRAPH ?t { ?a :val ?v } FILTER(?v > 1) }"),
    "union": ("?a ?b", "{ GRAPH ?w { ?a :knows ?b } } UNION { GRAPH ?t { ?b :knows ?a } ?a :name ?m }"),
    "minus": ("?a ?x", "GRAPH ?w { ?a :at ?x } MINUS { GRAPH ?t { ?a :knows ?b } }"),
    "not exists": ("?a ?x", "GRAPH ?w { ?a :at ?x } FILTER NOT EXISTS { GRAPH ?t { ?a :val ?v } }"),
    "bind and filter": ("?a ?d", "GRAPH ?w { ?a :val ?v } BIND(?v * 2 AS ?d) FILTER(?d != 2 || ?a = :a)"),
    "distinct": ("DISTINCT ?x", "GRAPH ?w { ?a :at ?x }"),
    "limit": ("?a ?x", "GRAPH ?w { ?a :at ?x } | ORDER BY DESC(?a) LIMIT 2"),
    "group": ("?x (COUNT(*) AS ?k) (SUM(?v) AS ?s) (MAX(?v) AS ?m)", "GRAPH ?w { ?a :at ?x . ?a :val ?v } | GROUP BY ?x"),
    "having": ("?a (AVG(?v) AS ?m)", "GRAPH ?w { ?a :val ?v } | GROUP BY ?a HAVING (COUNT(DISTINCT ?v) > 1)"),
    "sub-select": ("?x ?k", "GRAPH ?n { ?b :at ?x } { SELECT ?x (COUNT(?a) AS ?k) { GRAPH ?w { ?a :at ?x } } GROUP BY ?x }"),
}
WINDOWS = {
    "n": ":S [NOW]",
    "w": ":S [RANGE 2 s]",
    "g": ":S [RANGE 2 s SLIDE 500 ms]",
    "l": ":S [TRIPLES 2]",
    "e": ":S [ALL]",
    "t": ":T [RANGE 1500 ms]",
}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def query_of(name: str, operator: str, drain: bool, lateness: int, folder: Path) -> Registered:
    """The query of a feature, compiled once for each operator."""
    select, body = FEATURES[name]
    where, _, modifiers = body.partition(" | ")
    clauses = " ".join(f"FROM NAMED {clause} AS ?{w}" for w, clause in WINDOWS.items() if f"GRAPH ?{w} " in body)
    text = f"PREFIX : <{EX}> SELECT {select} {clauses} WHERE {{ {where} }} {modifiers}"
    path = folder / f"{name}-{operator}"
    endless = "GRAPH ?l" in body or "GRAPH ?e" in body
    found = register(text, World({}, STATIC), path, Settings(operator))
    return replace(found, settings=Settings(operator, drain=drain and not endless, lateness=lateness))


@pytest.mark.long
@pytest.mark.parametrize("name", FEATURES)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    files=st.lists(st.lists(elements, max_size=10), min_size=2, max_size=3),
    operator=st.sampled_from(["istream", "dstream", "rstream"]),
    drain=st.booleans(),
    lateness=st.sampled_from([0, 200, 4000]),
    how=st.builds(
        Cut,
        st.sampled_from(["1", "7", "100", "500ms"]),
        st.sampled_from(["adaptive", "first", "static", "worst", "random"]),
        st.sampled_from([1, 3]),
        st.sampled_from([None, 3]),
    ),
)
def test_random_streams(
    name: str,
    files: list[list[tuple[int, tuple[tuple[str, str, str], ...]]]],
    operator: str,
    drain: bool,
    lateness: int,
    how: Cut,
    folder: Path,
) -> None:
    made: list[list[Element]] = []
    for file in files:
        t, found = 10_000, []
        for step, ts in file:
            found.append(Element(t + step, ts))
            t = max(t, t + step)
        made.append(found)
    query = query_of(name, operator, drain, lateness, folder)
    with tempfile.TemporaryDirectory() as state:
        whole = query.over({f"{EX}S": [made[0], *made[2:]], f"{EX}T": [made[1]]}, Path(state))
        outcome = whole.run(how)
        verdict = whole.judged(outcome.answers)
        assert verdict.equal, verdict.text()
        assert whole.run(Cut("100")).answers == outcome.answers
