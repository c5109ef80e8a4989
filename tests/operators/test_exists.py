"""EXISTS wherever SPARQL 1.1 allows it, at every instant; and what is evaluated in each graph of GRAPH ?g by itself."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from local_runs import Cut, Settings, World, register

from cqels_opt.bench.w3c.running import Quads, run
from cqels_opt.query.parser import parse
from cqels_opt.verify import Element

EX = "http://ex.org/"
HEAD = f"PREFIX : <{EX}> SELECT * FROM NAMED :S [RANGE 3s] AS ?w FROM NAMED :S [TRIPLES 4] AS ?u"

BODIES = {
    "in a filter of OPTIONAL": "OPTIONAL { ?b :q ?c FILTER EXISTS { ?c :p ?d } }",
    "in a filter of OPTIONAL, over a window": "OPTIONAL { ?b :q ?c FILTER NOT EXISTS { GRAPH ?u { ?a ?k ?c } } }",
    "in a filter of EXISTS": "FILTER EXISTS { ?b :p ?c FILTER EXISTS { ?c :q ?a } }",
    "in a filter of NOT EXISTS, over a window": (
        "FILTER NOT EXISTS { GRAPH ?u { ?b :p ?c } FILTER NOT EXISTS { GRAPH ?u { ?c :q ?a } } }"
    ),
    "a variable of the outside in a nested filter": (
        "FILTER EXISTS { ?b :p ?c OPTIONAL { ?c :q ?d FILTER(?d = ?a) } FILTER(!BOUND(?d)) }"
    ),
    "an OPTIONAL is there without a match": "FILTER EXISTS { OPTIONAL { GRAPH ?u { ?b :q ?c } } FILTER(!BOUND(?c)) }",
    "a group of a sub-select": (
        "FILTER EXISTS { { SELECT ?b (COUNT(*) AS ?n) { GRAPH ?u { ?b ?k ?c } FILTER EXISTS { ?c :p ?d } } "
        "GROUP BY ?b HAVING(COUNT(*) > 1) } }"
    ),
    "branches of UNION": (
        "FILTER EXISTS { ?b :p ?c { ?c :q ?d FILTER(?d = ?a) } UNION { ?c :p ?d FILTER EXISTS { ?d :p ?a } } }"
    ),
    "in BIND": "BIND(EXISTS { ?b :q ?c FILTER(?c != ?a) FILTER EXISTS { ?c :p ?d } } AS ?e)",
    "with LIMIT in a sub-select": "FILTER EXISTS { { SELECT ?c { ?b :q ?c } ORDER BY ?c LIMIT 1 } ?c :p ?e }",
    "with DISTINCT and LIMIT in a sub-select": (
        "FILTER EXISTS { { SELECT DISTINCT ?b ?c { GRAPH ?u { ?b :q ?c } } ORDER BY DESC(?c) LIMIT 1 } FILTER(?c = :n2) }"
    ),
    "of a path": "FILTER EXISTS { ?b (:p|:q)+ ?c FILTER NOT EXISTS { ?c :p ?a } }",
}


def world(seed: int) -> World:
    rng = random.Random(seed)
    nodes = [f"<{EX}n{i}>" for i in range(5)]

    def triple() -> tuple[str, str, str]:
        return rng.choice(nodes), f"<{EX}{rng.choice('pq')}>", rng.choice(nodes)

    elements, t = [], 10_000
    for _ in range(25):
        t += rng.choice([0, 200, 500, 1300])
        elements.append(Element(t, tuple(dict.fromkeys(triple() for _ in range(rng.choice([1, 1, 2]))))))
    return World({f"{EX}S": [elements]}, list(dict.fromkeys(triple() for _ in range(8))))


@pytest.mark.parametrize("name", BODIES)
def test_exists_over_windows(name: str, tmp_path: Path) -> None:
    for seed in range(2):
        query = register(f"{HEAD} WHERE {{ GRAPH ?w {{ ?a :p ?b }} {BODIES[name]} }}", world(seed), tmp_path / str(seed))
        whole = query.run(Cut("100"))
        verdict = query.judged(whole.answers)
        assert verdict.equal, verdict.text()
        assert query.run(Cut("3", "random", 3, None, seed)).answers == whole.answers


@pytest.mark.parametrize(
    ("select", "modifiers"),
    [
        ("?a (SUM(IF(EXISTS { ?b :q ?c }, 1, 0)) AS ?n)", "GROUP BY ?a"),
        ("?a (COUNT(*) AS ?n)", "GROUP BY ?a HAVING (NOT EXISTS { ?a :q ?c FILTER EXISTS { ?c :p ?d } })"),
        ("?a ?b (EXISTS { GRAPH ?u { ?b :q ?c } } AS ?e)", ""),
        ("?a ?b", "ORDER BY DESC(EXISTS { ?b :q ?c }) ?a ?b LIMIT 2"),
    ],
)
def test_exists_in_a_select(select: str, modifiers: str, tmp_path: Path) -> None:
    text = f"{HEAD.replace('*', select)} WHERE {{ GRAPH ?w {{ ?a :p ?b }} }} {modifiers}"
    query = register(text, world(3), tmp_path, Settings("rstream"))
    whole = query.run(Cut("100"))
    verdict = query.judged(whole.answers)
    assert verdict.equal, verdict.text()
    assert sum(whole.answers.values()) > 0
    assert query.run(Cut("4")).answers == whole.answers


# ------------------------------------------------------------------ over static data
G1 = [("a", "p", "b"), ("a", "p", "c"), ("b", "q", "c")]
G2 = [("a", "p", "b"), ("c", "p", "a"), ("c", "q", "a")]
QUADS: Quads = [
    (f"<{EX}{s}>", f"<{EX}{p}>", f"<{EX}{o}>", f"<{EX}{g}>") for g, triples in (("g1", G1), ("g2", G2)) for s, p, o in triples
]


def rows(text: str) -> Counter[str]:
    with tempfile.TemporaryDirectory() as folder:
        found = run(parse(f"PREFIX : <{EX}> {text}", "cqels"), QUADS, "static", Path(folder))
    names = [" ".join(row[v].strip("<>").removeprefix(EX) for v in sorted(row)) for row in found.solutions or ()]
    return Counter(names)


STATIC = {
    "several FROM clauses make one graph, in which a triple is once": (
        "SELECT ?a ?b FROM :g1 FROM :g2 { ?a :p ?b }",
        ["a b", "a c", "c a"],
    ),
    "and paths go through all of it": ("SELECT ?x FROM :g1 FROM :g2 { :b :q/:p/:p ?x }", ["b", "c"]),
    "of repeated steps as well": ("SELECT ?x FROM :g1 FROM :g2 { :b :q/:p* ?x }", ["a", "b", "c"]),
    "LIMIT is of each graph": (
        "SELECT * { GRAPH ?g { { SELECT ?b { ?a :p ?b } ORDER BY DESC(?b) LIMIT 1 } } }",
        ["c g1", "b g2"],
    ),
    "OFFSET too": ("SELECT * { GRAPH ?g { { SELECT DISTINCT ?b { ?a :p ?b } ORDER BY ?b OFFSET 1 } } }", ["c g1", "b g2"]),
    "MINUS of what only some rows share, in each graph": (
        "SELECT ?a ?g { GRAPH ?g { ?a :p ?b OPTIONAL { ?b :q ?c } MINUS { ?a :q ?c } } }",
        ["a g1", "a g1", "a g2"],
    ),
    "a path stays in its graph": ("SELECT ?g ?x { GRAPH ?g { :a (:p|:q)+ ?x } }", ["g1 b", "g1 c", "g2 b"]),
    "and has each node of its graph": ("SELECT ?g ?x { GRAPH ?g { ?x :q* ?y FILTER(?x = :b) } }", ["g1 b", "g1 b", "g2 b"]),
    "a constant is there, if it is a node or not": ("SELECT ?x { GRAPH :g1 { :nobody :p* ?x } }", ["nobody"]),
    "in each graph": ("SELECT ?g ?x { GRAPH ?g { :nobody :p? ?x } }", ["g1 nobody", "g2 nobody"]),
}


@pytest.mark.parametrize("name", STATIC)
def test_static_patterns(name: str) -> None:
    text, expected = STATIC[name]
    assert rows(text) == Counter(expected)
