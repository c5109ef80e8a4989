"""An operator of another package: queries with it answer, at every instant, as the same queries without it written in SPARQL."""

from __future__ import annotations

import random
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from added_parts import EXAMPLES, install
from local_runs import Cut, Settings, World, register

from cqels_opt.errors import InputError, QueryError
from cqels_opt.planner.explain import explained
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.query.parser import parse
from cqels_opt.query.printing import to_text
from cqels_opt.verify import Element, judge

GROUP = "cqels_opt.operators"
X, INTEGER = "http://ex.org/", "http://www.w3.org/2001/XMLSchema#integer"
PREFIX = f"PREFIX : <{X}>\n"
WINDOW = "FROM NAMED :readings [RANGE 5 s] AS ?w"
READING = "GRAPH ?w { ?room :sensor ?sensor . ?sensor :reads ?value }"
GREATEST = f"SERVICE <urn:example:greatest?of=value&per=room> {{ {READING} }}"
# The same in SPARQL: no other reading of the room is greater.
BY_DEFINITION = f"""{{ {READING} FILTER NOT EXISTS {{
GRAPH ?w {{ ?room :sensor ?other . ?other :reads ?more }} FILTER(?more > ?value) }} }}"""
QUERY = (EXAMPLES / "greatest.rq").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        monkeypatch,
        EntryPoint("urn:example:greatest", "greatest:greatest", GROUP),
        EntryPoint("urn:x:print", "builtins:print", GROUP),
    )


def term(name: object) -> str:
    return f"<{X}{name}>"


def readings(rng: random.Random, size: int) -> list[Element]:
    """Readings of few sensors that move between few rooms, with few different values, so that many are equal."""
    found, time = [], 0
    for _ in range(size):
        time += rng.choice([0, 0, 300, 1000, 2500])
        sensor = f"s{rng.randrange(4)}"
        triples = [(term(f"r{rng.randrange(3)}"), term("sensor"), term(sensor))] if rng.random() < 0.5 else []
        triples += [(term(sensor), term("reads"), f'"{rng.randrange(5)}"^^<{INTEGER}>')]
        found.append(Element(time, tuple(triples)))
    return found


def world(rng: random.Random, size: int = 40) -> World:
    names = [(term(f"r{i}"), term("name"), f'"room {i}"') for i in range(2)]
    return World({f"{X}readings": [readings(rng, size)]}, default=names)


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize(
    "query",
    [
        f"SELECT ?room ?sensor ?value {WINDOW} WHERE {{ {GREATEST} }}",
        f"SELECT ?name ?value {WINDOW} WHERE {{ ?room :name ?name . {GREATEST} }}",
        f"SELECT ?room (COUNT(?sensor) AS ?sensors) (MAX(?value) AS ?greatest) {WINDOW} WHERE {{ {GREATEST} }} GROUP BY ?room",
        f"SELECT ?room ?sensor ?value {WINDOW} WHERE {{ GRAPH ?w {{ ?room :sensor ?sensor }} OPTIONAL {{ {GREATEST} }} }}",
        f"SELECT ?room ?sensor {WINDOW} WHERE {{ GRAPH ?w {{ ?room :sensor ?sensor }} FILTER NOT EXISTS {{ {GREATEST} }} }}",
        f"SELECT ?room ?value {WINDOW} WHERE {{ GRAPH ?w {{ ?room :sensor ?sensor }} {{ {GREATEST} }} UNION {{ {READING} }} }}",
    ],
)
def test_answers_are_those_of_the_definition(query: str, seed: int, tmp_path: Path) -> None:
    operator = ("istream", "dstream", "rstream")[(seed + len(query)) % 3]
    rng = random.Random(f"{query} {operator} {seed}")
    given = register(PREFIX + query, world(rng), tmp_path, Settings(operator))
    by_definition = parse(PREFIX + query.replace(GREATEST, BY_DEFINITION))
    for how in (Cut("1000"), Cut("1"), Cut(rng.choice(["3", "7", "500ms"]), "random", parts=rng.choice([2, 3]), seed=seed)):
        verdict = judge(by_definition, given.world.inputs(), given.settings.options, given.run(how).answers)
        assert verdict.differences == ()
        assert verdict.rows > 0


def test_a_batch_reads_only_the_keys_that_it_touches(tmp_path: Path) -> None:
    """Ten rooms with ten sensors each; the last batches change one room."""

    def reading(time: int, room: int, sensor: int) -> Element:
        own = (term(f"r{room}"), term("sensor"), term(f"s{room}-{sensor}"))
        return Element(time, (own, (own[2], term("reads"), f'"{sensor}"^^<{INTEGER}>')))

    elements = [
        *(reading(1000, room, sensor) for room in range(10) for sensor in range(10)),
        reading(2000, 3, 10),
        reading(3000, 3, 11),
    ]
    query = register(QUERY, World({f"{X}readings": [elements]}), tmp_path)
    records = query.run(Cut("1000ms")).records
    read = [record.recomputed for record in records]
    assert max(n for n in read[:2] if n is not None) >= 100
    assert read[-1] is not None
    assert read[-1] <= 2 * 12 + 2


def test_explain_shows_the_operator(tmp_path: Path) -> None:
    query = register(QUERY, World({f"{X}readings": [[]]}), tmp_path)
    line = "above the joins: recomputed by key: GREATEST ?room"
    assert explained([query.program], PlannerOptions("adaptive"), "text", 0).rstrip().split("\n\n").count(line) == 1


def test_static_data_are_evaluated_once(tmp_path: Path) -> None:
    static = [(term("a"), term("at"), term("r")), (term("b"), term("at"), term("r"))]
    static += [(s, term("weighs"), f'"{n}"^^<{INTEGER}>') for n, (s, _, _) in enumerate(static)]
    text = f"""{PREFIX}SELECT ?x ?most {WINDOW} WHERE {{ GRAPH ?w {{ ?x :reads ?v }}
    SERVICE <urn:example:greatest?of=most&per=room> {{ ?x :at ?room . ?x :weighs ?most }} }}"""
    elements = [Element(1000, ((term(x), term("reads"), f'"7"^^<{INTEGER}>'),)) for x in "ab"]
    query = register(text, World({f"{X}readings": [elements]}, default=static), tmp_path)
    assert {row for _, _, row in query.run().answers} == {frozenset({("x", term("b")), ("most", f'"1"^^<{INTEGER}>')})}
    assert len(query.program.blocks[0].statics) == 1


def test_a_query_with_an_operator_is_printed() -> None:
    query = parse(QUERY)
    assert parse(to_text(query, query.dialect)).body == query.body


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SERVICE <urn:example:greatest?of=value&per=rom>", "the pattern has no ?rom"),
        ("SERVICE <urn:example:greatest?of=value>", "missing 1 required keyword-only argument: 'per'"),
        ("SERVICE <urn:example:greatest?of>", "bad query field: 'of'"),
        ("SERVICE <urn:x:print>", "the entry point 'urn:x:print' of cqels_opt.operators makes a NoneType, not an Operator"),
    ],
)
def test_wrong_parameters_are_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    query = f"{PREFIX}SELECT ?room {WINDOW} WHERE {{ {text} {{ {READING} }} }}"
    with pytest.raises(InputError) as failed:
        register(query, World({f"{X}readings": [[]]}), tmp_path)
    assert message in str(failed.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("SERVICE <urn:example:least> { ?room :sensor ?sensor }", "SERVICE is not supported: load the data"),
        ("SERVICE ?room { ?room :sensor ?sensor }", "SERVICE is not supported: load the data"),
        (
            "GRAPH ?g { SERVICE <urn:example:greatest?of=room&per=room> { ?room :sensor ?sensor } }",
            "SERVICE cannot stand within GRAPH with a variable: write GRAPH within SERVICE",
        ),
    ],
)
def test_other_services_are_refused(body: str, message: str) -> None:
    with pytest.raises(QueryError) as failed:
        parse(f"{PREFIX}SELECT ?room {WINDOW} WHERE {{ GRAPH ?w {{ ?room :sensor ?s }} {body} }}")
    assert message in str(failed.value)


def test_the_independent_evaluation_refuses_operators(tmp_path: Path) -> None:
    query = register(QUERY, world(random.Random(0), 5), tmp_path)
    with pytest.raises(QueryError) as failed:
        query.judged(query.run().answers)
    assert "verify cannot check SERVICE" in str(failed.value)
