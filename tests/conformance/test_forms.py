"""CONSTRUCT, ASK and DESCRIBE over random streams: equal to the independent evaluation for any batches, plans and shares.

``CQELS_OPT_EXAMPLES`` is the number of worlds per body and form.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pyarrow.dataset as pa_dataset
import pytest
from local_runs import Cut, Settings, World, register

from cqels_opt.query.parser import parse
from cqels_opt.runtime.answer_folder import FolderSink
from cqels_opt.verify import Element

from .conftest import EX

EXAMPLES = int(os.environ.get("CQELS_OPT_EXAMPLES", "3"))
BODIES = {
    "range": "GRAPH ?w { ?a :at ?x }",
    "join": "GRAPH ?w { ?a :at ?x } GRAPH ?t { ?b :knows ?a } ?x :near ?y",
    "optional": "GRAPH ?w { ?a :at ?x } OPTIONAL { GRAPH ?t { ?a :val ?v } }",
    "union": "{ GRAPH ?w { ?a :knows ?b } } UNION { GRAPH ?t { ?b :knows ?a . ?b :val ?v } }",
    "not exists": "GRAPH ?w { ?a :at ?x } FILTER NOT EXISTS { GRAPH ?t { ?a :knows ?b } }",
    "limit": "GRAPH ?w { ?a :at ?x } | ORDER BY DESC(?x) ?a LIMIT 2",
    "group": "GRAPH ?w { ?a :at ?x . ?a :val ?v } | GROUP BY ?x ?a HAVING (COUNT(*) > 1)",
    "bind": "GRAPH ?w { ?a :val ?v } BIND(?v * 2 AS ?b)",
    "last": "GRAPH ?l { ?a :knows ?b }",
    "grid": "GRAPH ?g { ?a :at ?x }",
}
HEADS = {
    "one": "CONSTRUCT { ?a :was ?x }",
    "several": "CONSTRUCT { ?a :was ?x ; :met ?b , :nobody . ?x :had ?a }",
    "alike": "CONSTRUCT { ?a :met ?b . ?b :met ?a . ?a ?b ?v . ?v :of ?a }",
    "blank": "CONSTRUCT { ?a :event [ :place ?x ; :who _:p ] . _:p :is ?a , ?b ; :value ?v . [] :all () }",
    "nothing": "CONSTRUCT { }",
    "ask": "ASK",
    "describe": "DESCRIBE ?a ?x :b",
    "all": "DESCRIBE *",
}
WINDOWS = {"w": ":S [RANGE 2 s]", "t": ":T [RANGE 1500 ms]", "l": ":S [TRIPLES 2]", "g": ":S [RANGE 2 s SLIDE 500 ms]"}
STATIC = [
    *((f"<{EX}{s}>", f"<{EX}near>", f"<{EX}{o}>") for s, o in ("xy", "yx", "xx")),
    (f"<{EX}a>", f"<{EX}address>", "_:one"),
    ("_:one", f"<{EX}street>", "_:two"),
    ("_:two", f"<{EX}number>", '"7"'),
    ("_:two", f"<{EX}of>", "_:one"),
    (f"<{EX}c>", f"<{EX}near>", f"<{EX}x>"),
]


def world(rng: random.Random) -> World:
    people, places = [f"<{EX}{p}>" for p in "abc"], [f"<{EX}x>", f"<{EX}y>"]
    objects = {"at": places, "knows": [*people, "_:k"], "val": ['"1"^^<http://www.w3.org/2001/XMLSchema#integer>', '"two"']}

    def triple() -> tuple[str, str, str]:
        predicate = rng.choice(sorted(objects))
        return rng.choice([*people, *people, "_:k"]), f"<{EX}{predicate}>", rng.choice(objects[predicate])

    def file() -> list[Element]:
        time, found = 0, []
        for _ in range(rng.randint(1, 14)):
            time += rng.choice([0, 0, 250, 500, 500, 1000, 2500])
            found.append(Element(time, tuple(dict.fromkeys(triple() for _ in range(rng.choice([1, 1, 2]))))))
        return found

    return World({f"{EX}S": [file()], f"{EX}T": [file()]}, STATIC)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("body", BODIES)
def test_answers_are_those_of_the_definition(body: str, head: str, tmp_path: Path) -> None:
    where, _, modifiers = BODIES[body].partition(" | ")
    clauses = " ".join(f"FROM NAMED {clause} AS ?{w}" for w, clause in WINDOWS.items() if f"GRAPH ?{w} " in where)
    text = f"PREFIX : <{EX}>\n{HEADS[head]} {clauses} WHERE {{ {where} }} {modifiers}"
    for seed in range(EXAMPLES):
        rng = random.Random(f"{body} {head} {seed}")
        settings = Settings(rng.choice(["istream", "dstream", "rstream"]), drain=body != "last" and rng.random() < 0.5)
        registered = register(text, world(rng), tmp_path / str(seed), settings)
        how = Cut(
            rng.choice(["1", "3", "100", "700ms"]), rng.choice(["adaptive", "random", "first"]), parts=rng.choice([None, 2])
        )
        outcome = registered.run(how)
        verdict = registered.judged(outcome.answers)
        assert verdict.equal, f"{text}\n{settings}\n{how}\n{verdict.text()}"
        times = [(line["time"], line["op"]) for line in map(json.loads, outcome.lines)]
        assert head == "ask" or len(times) == len(set(times))  # a graph is one line


DIALECTS = {
    "csparql": ("", "FROM STREAM :S [RANGE 2s STEP 1s] FROM STREAM :T [RANGE 1s TUMBLING]", "?a :at ?x . ?a :knows ?b ."),
    "sparqlstream": (
        "",
        "FROM STREAM :S [NOW - 2 s SLIDE 1 s] FROM NAMED STREAM :T [NOW - 2 s]",
        "?a :at ?x . GRAPH :T { ?b :knows ?a }",
    ),
    "streaming-sparql": (
        "",
        "FROM STREAM :S WINDOW RANGE 2000 SLIDE 500 FROM STREAM :T WINDOW ELEMS 2",
        "?a :at ?x OPTIONAL { ?a :val ?v }",
    ),
    "rspql": (
        "REGISTER %s :out AS",
        "FROM NAMED WINDOW :w ON :S [RANGE PT2S STEP PT1S] FROM NAMED WINDOW :t ON :T [RANGE PT3S STEP PT1S]",
        "WINDOW :w { ?a :at ?x } OPTIONAL { WINDOW :t { ?b :knows ?a } }",
    ),
}
REPORTS = {
    "csparql": ("wc,nc", "set"),
    "sparqlstream": ("wc,nc", "set"),
    "rspql": ("wc", "set"),
    "streaming-sparql": ("cc", "bag"),
}


@pytest.mark.parametrize("operator", ["istream", "dstream", "rstream"])
@pytest.mark.parametrize("head", ["several", "blank", "ask", "describe"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_in_every_dialect(dialect: str, head: str, operator: str, tmp_path: Path) -> None:
    """With the operator in the dialect's syntax, or else as an option; the default profile of each dialect."""
    header, clauses, where = DIALECTS[dialect]
    form, rest = HEADS[head].partition(" ")[::2]
    written = f"{form} {operator.upper()} {rest}" if dialect == "sparqlstream" else HEADS[head]
    registered_as = header % operator.upper() if header else ""
    text = f"PREFIX : <{EX}>\n{registered_as} {written} {clauses} WHERE {{ {where} }}"
    query = parse(text, dialect)
    assert query.operator == (operator if dialect in ("rspql", "sparqlstream") else None)
    policy, duplicates = REPORTS[dialect]
    settings = Settings(operator, {"": policy}, duplicates=duplicates)  # type: ignore[arg-type]
    for seed in range(EXAMPLES):
        rng = random.Random(f"{dialect} {head} {operator} {seed}")
        registered = register(query, world(rng), tmp_path / str(seed), settings)
        outcome = registered.run(Cut(rng.choice(["1", "4", "100"]), rng.choice(["adaptive", "random"])))
        verdict = registered.judged(outcome.answers)
        assert verdict.equal, f"{text}\n{verdict.text()}"


def test_construct_where_takes_its_triples(tmp_path: Path) -> None:
    for number, (dialect, text) in enumerate(
        (
            ("cqels", "CONSTRUCT WHERE { STREAM :S [RANGE 2s] { ?a :at ?x ; :val [] } STREAM :T [RANGE 1s] { ?a :knows ?b } }"),
            (
                "rspql",
                "CONSTRUCT FROM NAMED WINDOW :w ON :S [RANGE 2s STEP 1s] WHERE { WINDOW :w { ?a :at ?x . _:b :knows ?a } ?x :near ?y }",
            ),
            ("csparql", "CONSTRUCT FROM STREAM :S [RANGE 2s STEP 1s] WHERE { ?a :at ?x . ?x :near ?y }"),
            ("cqels", "CONSTRUCT WHERE { STREAM :S [RANGE 2s] { ?a :at ?x } } ORDER BY ?x LIMIT 2"),
            (
                "csparql",
                "CONSTRUCT FROM STREAM :S [RANGE 2s STEP 1s] WHERE { ?a :at ?x . ?x :near ?y } ORDER BY ?y VALUES ?a { :a :b }",
            ),
            ("cqels", "CONSTRUCT WHERE { } VALUES ?a { :a :b }"),
        )
    ):
        policy, duplicates = REPORTS.get(dialect, ("cc", "bag"))
        query = parse(f"PREFIX : <{EX}> {text}", dialect)
        for seed in range(EXAMPLES):
            settings = Settings("istream", {"": policy}, duplicates=duplicates)  # type: ignore[arg-type]
            there = world(random.Random(f"{number} {seed}"))
            registered = register(query, there, tmp_path / f"{number}-{seed}", settings)
            verdict = registered.judged(registered.run(Cut("3")).answers)
            assert verdict.equal, f"{text}\n{verdict.text()}"


def test_what_cannot_be_a_triple_is_left_out(tmp_path: Path) -> None:
    text = f"PREFIX : <{EX}> CONSTRUCT {{ ?v :of ?a . ?a ?v 1 . 'x' :y :z . ?a :val ?v , ?none }} {{ STREAM :S [NOW] {{ ?a :val ?v }} }}"
    elements = [Element(1, ((f"<{EX}a>", f"<{EX}val>", '"1"'),)), Element(2, ((f"<{EX}a>", f"<{EX}val>", f"<{EX}b>"),))]
    outcome = register(text, World({f"{EX}S": [elements]}), tmp_path).run()
    found = [line["triples"] for line in map(json.loads, outcome.lines)]
    one, (a, b, of, val) = '"1"^^<http://www.w3.org/2001/XMLSchema#integer>', (f"<{EX}{n}>" for n in ("a", "b", "of", "val"))
    assert found == [[[a, val, '"1"']], [[a, b, one], [a, val, b], [b, of, a]]]


def test_a_solution_keeps_its_blank_nodes(tmp_path: Path) -> None:
    text = f"PREFIX : <{EX}> CONSTRUCT {{ [] :is ?a }} {{ STREAM :S [RANGE 3s] {{ ?a :at ?x }} }}"
    elements = [Element(t, ((f"<{EX}{who}>", f"<{EX}at>", f"<{EX}x>"),)) for t, who in ((0, "a"), (1000, "b"), (2000, "a"))]
    labels: dict[str, set[str]] = {}
    for operator in ("istream", "dstream", "rstream"):
        outcome = register(text, World({f"{EX}S": [elements]}), tmp_path, Settings(operator, drain=True)).run(Cut("1"))
        for line in map(json.loads, outcome.lines):
            for blank, _, who in line["triples"]:
                labels.setdefault(who, set()).add(blank)
        if operator == "istream":  # an unchanged row is not reported again
            assert [line["time"] for line in map(json.loads, outcome.lines)] == [0, 1000]
    assert {who: len(found) for who, found in labels.items()} == {f"<{EX}a>": 1, f"<{EX}b>": 1}


def test_a_folder_has_the_columns_of_the_form(tmp_path: Path) -> None:
    elements = [Element(t, ((f"<{EX}{who}>", f"<{EX}at>", f"<{EX}x>"),)) for t, who in ((0, "a"), (1000, "b"))]
    found = {}
    for head in ("CONSTRUCT { ?x :had ?a }", "ASK", "DESCRIBE ?a"):
        text = f"PREFIX : <{EX}> {head} {{ STREAM :S [NOW] {{ ?a :at ?x }} }}"
        query = register(text, World({f"{EX}S": [elements]}), tmp_path / head.split()[0], Settings("rstream"))
        driver = query.driver(sink=FolderSink(query.folder / "out"))
        for number, rows in enumerate(query.chunks(Cut())):
            driver.batch(number, rows)
        table = pa_dataset.dataset(query.folder / "out").to_table().sort_by("time")
        assert [str(field.type) for field in table.schema][:2] == ["timestamp[ms, tz=UTC]", "string"]
        found[head.split()[0]] = table.drop_columns(["time"]).to_pylist()
    a, b, x, had, at = (f"<{EX}{name}>" for name in ("a", "b", "x", "had", "at"))
    assert found["CONSTRUCT"] == [{"op": "=", "s": x, "p": had, "o": who} for who in (a, b)]
    assert found["ASK"] == [{"op": "=", "boolean": now} for now in (True, False, True)]  # it ends 1 ms later
    assert found["DESCRIBE"] == [{"op": "=", "s": who, "p": at, "o": x} for who in (a, b)]


def test_verify_tells_graphs_apart_that_differ_in_their_blank_nodes_alone(tmp_path: Path) -> None:
    text = f"PREFIX : <{EX}> CONSTRUCT {{ [] :is ?a ; :at ?x }} {{ STREAM :S [NOW] {{ ?a :at ?x }} }}"
    elements = [Element(1, tuple((f"<{EX}{who}>", f"<{EX}at>", f"<{EX}{who}>") for who in "ab"))]
    registered = register(text, World({f"{EX}S": [elements]}), tmp_path)
    (line,) = map(json.loads, registered.run().lines)
    assert registered.judged(registered.answers([json.dumps(line)])).equal
    first, *others = line["triples"]
    other = next(triple for triple in others if triple[1] == first[1])
    first[0], other[0] = other[0], first[0]
    assert not registered.judged(registered.answers([json.dumps(line)])).equal
