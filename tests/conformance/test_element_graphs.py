"""GRAPH inside WINDOW (RSP-QL, RSP-QL*): the graphs of a window's elements, by name."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path
from typing import Literal

import pytest
from local_runs import Cut, Settings, World, register

from cqels_opt.query.parser import parse
from cqels_opt.verify import Element

from .conftest import EX, STREAM, short

CASES = int(os.environ.get("CQELS_OPT_CASES", "30"))
CUTS = [Cut("1"), Cut("3", "random", 3, 3), Cut("100"), Cut("2", "worst")]


def graph(second: int, name: str, *triples: str) -> Element:
    split = [tuple(f"<{EX}{word}>" for word in t.split()) for t in triples]
    return Element(second * 1000, tuple(split), f"<{EX}{name}>" if name else None)  # type: ignore[arg-type]


ELEMENTS = [
    graph(1, "g1", "a at x", "a near b"),
    graph(2, "", "c at x"),
    graph(3, "g2", "b at x"),
    graph(4, "g1", "a at x", "d at y"),
]


def told(
    folder: Path,
    where: str,
    select: str,
    operator: str = "istream",
    elements: list[Element] = ELEMENTS,
    duplicates: Literal["set", "bag"] = "set",
) -> list[str]:
    text = f"PREFIX : <{EX}> SELECT {select} FROM NAMED WINDOW :w ON :S [RANGE PT3S STEP PT1S] WHERE {{ {where} }}"
    settings = Settings(operator, {"": "cc"}, drain=True, duplicates=duplicates)
    found = register(parse(text), World({STREAM: [elements]}, [], {}), folder, settings)
    outcomes = [found.run(how).answers for how in CUTS]
    assert all(answers == outcomes[0] for answers in outcomes)
    verdict = found.judged(outcomes[0])
    assert verdict.equal, verdict.text()
    return short(outcomes[0])


def test_graphs_by_name(tmp_path: Path) -> None:
    """Rows are ?g ?p. A triple outside any graph has no graph name; a pattern without GRAPH matches it."""
    assert told(tmp_path / "g", "WINDOW :w { GRAPH ?g { ?p :at ?l } }", "?g ?p") == [
        "1 + g1 a",
        "3 + g2 b",
        "4 + g1 a",
        "4 + g1 d",
    ]
    assert told(tmp_path / "c", "WINDOW :w { GRAPH :g1 { ?p :at ?l } }", "?p") == ["1 + a", "4 + a", "4 + d"]
    assert told(tmp_path / "n", "WINDOW :w { ?p :at :x }", "?p") == ["1 + a", "2 + c", "3 + b", "4 + a"]


def test_patterns_of_one_graph(tmp_path: Path) -> None:
    """Elements whose graphs have the same name form one graph while both are in the window."""
    assert told(tmp_path, "WINDOW :w { GRAPH ?g { ?p :at :x . ?q :at :y } }", "?g ?p ?q") == ["4 + g1 a d"]
    assert told(tmp_path / "o", "WINDOW :w { GRAPH ?g { ?p :near ?q } ?q :at :x }", "?g ?p ?q") == ["3 + g1 a b"]


def test_which_graphs_there_are(tmp_path: Path) -> None:
    found = told(tmp_path, "WINDOW :w { GRAPH ?g { } }", "?g", "dstream")
    assert found == ["3.001 - g1", "5.001 - g2", "6.001 - g1"]
    assert told(tmp_path / "i", "WINDOW :w { GRAPH ?g { } }", "?g") == ["1 + g1", "3 + g2", "4 + g1"]
    optional = "WINDOW :w { GRAPH ?g { OPTIONAL { ?p :near ?q } } }"
    assert told(tmp_path / "o", optional, "?g ?p") == ["1 + g1 a", "3 + g2", "4 + g1"]


def test_paths_of_length_zero_in_graphs_that_come_and_go(tmp_path: Path) -> None:
    """In each graph, or in one, as long as it occurs; here no step changes."""
    zero = "WINDOW :w { GRAPH ?g { :a :near* ?x } }"
    elements = [graph(1, "g1", "a at x"), *ELEMENTS[1:]]
    assert told(tmp_path / "i", zero, "?g ?x", elements=elements) == ["1 + g1 a", "3 + g2 a", "4 + g1 a"]
    assert told(tmp_path / "d", zero, "?g ?x", "dstream", elements) == ["3.001 - g1 a", "5.001 - g2 a", "6.001 - g1 a"]
    text = f"PREFIX : <{EX}> SELECT ?x FROM NAMED WINDOW :w ON :S [RANGE PT3S STEP PT1S] {{ {zero.replace('?g', ':g1')} }}"
    one = register(parse(text), World({STREAM: [elements]}), tmp_path / "one", Settings(drain=True, duplicates="set"))
    assert [short(one.run(how).answers) for how in CUTS] == [["1 + a", "4 + a"]] * len(CUTS)


def test_as_bags_what_graphs_of_one_name_say_twice_counts_twice(tmp_path: Path) -> None:
    """Rows are ?g ?p. A row that ends at the instant at which an equal row begins cancels it out."""
    elements = [graph(1, "g1", "a at x"), graph(2, "g1", "a at x", "b at x"), graph(3, "g2", "a at x")]
    found = told(tmp_path, "WINDOW :w { GRAPH ?g { ?p :at :x } }", "?g ?p", "istream", elements, "bag")
    assert found == ["1 + g1 a", "2 + g1 a", "2 + g1 b", "3 + g2 a"]
    fixed = told(tmp_path / "f", "WINDOW :w { GRAPH :g1 { ?p :at ?l . ?q :at ?l } }", "?p ?q", "rstream", elements, "bag")
    assert [row for row in fixed if row.startswith("2 ")] == ["2 = a a"] * 4 + ["2 = a b"] * 2 + ["2 = b a"] * 2 + ["2 = b b"]


BODIES = [
    "WINDOW :w { GRAPH ?g { ?p :at ?l } }",
    "WINDOW :w { GRAPH ?g { ?p :at ?l . ?q :near ?p } }",
    "WINDOW :w { GRAPH ?g { ?p :at ?l } ?p :near ?q }",
    "WINDOW :w { GRAPH ?g { ?p :at ?l OPTIONAL { ?p :near ?q } } }",
    "WINDOW :w { GRAPH ?g { ?p :at ?l FILTER NOT EXISTS { ?q :near ?p } } }",
    "WINDOW :w { GRAPH :g1 { ?p :at ?l } GRAPH ?g { ?q :at ?l } }",
    "WINDOW :w { GRAPH ?g { ?p ?q ?l } } WINDOW :w { GRAPH ?p { ?a ?b ?l } }",
    "WINDOW ?v { GRAPH ?g { { ?p :at ?l } UNION { ?l :near ?p } } }",
    "WINDOW :w { GRAPH ?g { :a :near* ?p } }",
    "WINDOW :w { GRAPH ?g { ?p :near? :a } }",
    "WINDOW :w { { SELECT ?g (COUNT(*) AS ?p) { GRAPH ?g { ?q :at ?l } } GROUP BY ?g } }",
]


@pytest.mark.parametrize("body", BODIES)
def test_random_elements(body: str) -> None:
    for seed in range(max(1, CASES // 10)):
        rng = random.Random(f"{body}{seed}")
        words = ["a", "b", "g1", "g2", "x"]
        elements, second = [], 1
        for _ in range(rng.randint(4, 14)):
            second += rng.choice([0, 1, 1, 3])
            triples = {
                f"{rng.choice(words)} {rng.choice(['at', 'at', 'near'])} {rng.choice(words)}"
                for _ in range(rng.choice([1, 2, 3]))
            }
            name = rng.choice(["", "g1", "g2", f"e{len(elements)}"]) if len(triples) == 1 else rng.choice(["g1", "g2"])
            elements.append(graph(second, name, *sorted(triples)))
        with tempfile.TemporaryDirectory() as folder:
            operator, duplicates = rng.choice(["istream", "dstream", "rstream"]), rng.choice(["set", "bag"])
            told(Path(folder), body, "*", operator, _one_each(elements), duplicates)  # type: ignore[arg-type]


def _one_each(elements: list[Element]) -> list[Element]:
    """Rows of equal graph and time form one element."""
    found: dict[object, Element] = {}
    for number, e in enumerate(elements):
        key = (e.graph or number, e.t)
        before = found[key].triples if key in found else ()
        found[key] = Element(e.t, tuple(dict.fromkeys((*before, *e.triples))), e.graph)
    return list(found.values())
