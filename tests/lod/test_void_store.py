"""VoID and stores: exact descriptions of stores, stores of which there is only a description, and descriptions that are wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from local_runs import World, register

from cqels_opt.cli.grammar import parse
from cqels_opt.cli.options import ExplainOptions
from cqels_opt.cli.void_planning import explain, warn_of_disagreement
from cqels_opt.compiler.compile import Compiler
from cqels_opt.errors import InputError
from cqels_opt.lod.build import build_store
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.store import StaticPattern
from cqels_opt.lod.void_store import describe, disagreement, in_store, of_store
from cqels_opt.planner.explain import explained
from cqels_opt.planner.plan_modes import plan_mode
from cqels_opt.rdf.ids import PUBLIC, encode_one
from cqels_opt.rdf.void import Counts, Description, GraphCounts, turtle
from cqels_opt.verify import Element

EX = "http://ex.org/"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
Quad = tuple[str, str, str, str | None]


def iri(name: str) -> str:
    return f"<{EX}{name}>"


nodes = st.sampled_from([iri(n) for n in "abc"])
quads_of = st.lists(
    st.tuples(nodes, st.sampled_from([TYPE, iri("near")]), nodes, st.sampled_from([None, iri("g"), iri("h")])), max_size=20
)


@pytest.mark.long
@settings(max_examples=40)
@given(quads_of)
def test_rows_and_distinct_values_of_a_described_store_are_those_of_the_store(
    tmp_path_factory: pytest.TempPathFactory, quads: list[Quad]
) -> None:
    """Of whole predicates, and of the entities of a class, a description says it exactly."""
    folder = tmp_path_factory.mktemp("void")
    store = build_store(folder / "store", quads, durable=False)
    there = open_store(describe(folder / "described", of_store(store)))
    assert not there.counted and store.counted and there.triples == store.triples
    for graph in (None, iri("g"), iri("h"), "?g"):
        at = graph if graph is None else "g" if graph == "?g" else encode_one(graph, PUBLIC)
        patterns = [StaticPattern("s", encode_one(p, PUBLIC), "o", at) for p in (TYPE, iri("near"), iri("nowhere"))]
        patterns += [StaticPattern("s", encode_one(TYPE, PUBLIC), encode_one(iri(c), PUBLIC), at) for c in "abc"]
        for pattern in patterns:
            real, said = store.match(pattern), there.match(pattern)
            assert said.rows == real.rows
            if at != "g":  # of several graphs distinct values are added up
                assert {v: said.distinct(v) for v in said.variables} == {v: real.distinct(v) for v in real.variables}


def test_constants_have_their_even_share(tmp_path: Path) -> None:
    said = Description(GraphCounts(Counts(1_000_000_000), {iri("near"): Counts(900_000_000, 300, 100)}))
    store = open_store(describe(tmp_path / "described", said))
    near, a = encode_one(iri("near"), PUBLIC), encode_one(iri("a"), PUBLIC)
    assert store.match(StaticPattern(a, near, "o")).rows == 3_000_000
    assert store.match(StaticPattern("s", near, a)).rows == 9_000_000
    assert store.match(StaticPattern("s", near, a)).distinct("s") == 300
    assert store.match(StaticPattern("x", near, "x")).rows == 3_000_000
    assert store.match(StaticPattern("s", encode_one(iri("other"), PUBLIC), "o")).rows == 100_000_000, (
        "what the listed ones leave"
    )
    assert store.match(StaticPattern("s", "p", "o")).rows == 1_000_000_000


# ------------------------------------------------------------------ plans
QUERY = """PREFIX : <http://ex.org/>
SELECT * FROM NAMED :S [RANGE 5s] AS ?w WHERE { GRAPH ?w { ?a :at ?x } ?x :near ?y . ?a a :Author ; :name ?n }"""


def data(authors: int, near: int) -> list[tuple[str, str, str]]:
    people = [(iri(f"p{i}"), TYPE, iri("Author" if i < authors else "Reader")) for i in range(60)]
    names = [(iri(f"p{i}"), iri("name"), f'"{i}"') for i in range(60)]
    return [*people, *names, *((iri(f"x{i % 5}"), iri("near"), iri(f"x{i}")) for i in range(near))]


def options(tmp_path: Path, void: Path, *words: str, query: str = QUERY) -> ExplainOptions:
    (tmp_path / "q.rq").write_text(query)
    given = ["explain", str(tmp_path / "q.rq"), "--void", str(void), "--format", "json", "--constants", "default", *words]
    found: ExplainOptions = parse(given)[1]
    return found


@pytest.mark.parametrize(("authors", "near"), [(2, 200), (60, 5)])
def test_plans_over_a_description_are_those_over_the_data(authors: int, near: int, tmp_path: Path) -> None:
    """With the same counts the same order: where authors are few they come first, where each place has one neighbour that comes first."""
    triples = data(authors, near)
    registered = register(QUERY, World({f"{EX}S": [[]]}, triples), tmp_path / "world")
    apart = Compiler(registered.query, registered.program.store, tmp_path, registered.settings.report, budget=0)
    program = apart.compile("q", "istream")  # without sub-results
    over_data = json.loads(explained([program], plan_mode("adaptive", constants="default"), "json", 0))
    store = build_store(tmp_path / "store", [(*t, None) for t in triples], durable=False)
    (tmp_path / "void.ttl").write_text(turtle(of_store(store)))
    described = json.loads(explain(options(tmp_path, tmp_path / "void.ttl")))
    assert described["static"] == {"triples": len(triples), "counted": False}
    assert over_data["static"] == {"triples": len(triples), "counted": True}
    (real,), (said,) = over_data["deltas"], described["deltas"]
    assert (said["plan"], [o["relation"] for o in said["operators"]]) == (
        real["plan"],
        [o["relation"] for o in real["operators"]],
    )


def test_a_plan_follows_the_description_alone(tmp_path: Path) -> None:
    """Neither data nor Spark: of a billion triples only their counts."""
    plans = []
    for near, entities in ((10**9, 10), (300, 10**8)):
        (tmp_path / "void.ttl").write_text(
            turtle(
                Description(
                    GraphCounts(
                        Counts(3 * 10**9),
                        {
                            iri("near"): Counts(near, 300, 300),
                            iri("name"): Counts(10**9, 10**8, 10**6),
                            TYPE: Counts(10**8, 10**8, 5),
                        },
                        {iri("Author"): entities},
                    )
                )
            )
        )
        (delta,) = json.loads(explain(options(tmp_path, tmp_path / "void.ttl")))["deltas"]
        plans.append([operator["relation"] for operator in delta["operators"]])
        assert not [key for key in delta["assumed"] if "near" in key or "name" in key or "type" in key]
    assert plans[0][:2] == ["w", "type"] and plans[1][:2] == ["w", "near"]


def test_units_filters_and_merged_windows_are_planned_over_a_description(tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", [(*t, None) for t in data(3, 30)], durable=False)
    (tmp_path / "void.ttl").write_text(turtle(of_store(store)))
    query = QUERY.replace(":name ?n }", ":name ?n OPTIONAL { ?y :near ?z . ?z :near ?u } FILTER (?n != 'x') }")
    (delta,) = json.loads(explain(options(tmp_path, tmp_path / "void.ttl", query=query)))["deltas"]
    assert {"optional"} <= {operator["op"] for operator in delta["operators"]}
    merged = "REGISTER QUERY q AS PREFIX : <http://ex.org/> SELECT ?y FROM STREAM :S [RANGE 5s STEP 1s] WHERE { ?a :at ?x . ?x :near ?y }"
    found = json.loads(explain(options(tmp_path, tmp_path / "void.ttl", query=merged)))["deltas"]
    assert len(found) == 2 and all(delta["operators"] for delta in found)


def test_what_no_description_tells_is_refused(tmp_path: Path) -> None:
    (tmp_path / "void.ttl").write_text(turtle(Description(GraphCounts(Counts(10), {iri("near"): Counts(10)}))))
    query = QUERY.replace("?x :near ?y", "?x :near+ ?y")
    with pytest.raises(InputError, match="load the data"):
        explain(options(tmp_path, tmp_path / "void.ttl", query=query))


def test_a_condition_that_is_never_true_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "void.ttl").write_text(turtle(Description(GraphCounts(Counts(10), {iri("near"): Counts(10)}))))
    explain(options(tmp_path, tmp_path / "void.ttl", query=QUERY.replace("?x :near ?y", "?x :near ?y FILTER(?gone = 1)")))
    assert capsys.readouterr().err == "warning: (?gone = 1) is never true: nothing in its group binds ?gone\n"


# ------------------------------------------------------------------ wrong descriptions
def about(triples: str, near: str) -> list[tuple[str, str, str]]:
    """A description in the data themselves."""
    void, integer = "http://rdfs.org/ns/void#", "http://www.w3.org/2001/XMLSchema#integer"
    return [
        (iri("d"), f"<{void}triples>", f'"{triples}"^^<{integer}>'),
        (iri("d"), f"<{void}propertyPartition>", "_:p"),
        ("_:p", f"<{void}property>", iri("near")),
        ("_:p", f"<{void}triples>", f'"{near}"^^<{integer}>'),
    ]


def test_a_description_in_the_data_is_compared_with_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    triples = data(3, 30)
    right = build_store(tmp_path / "right", [(*t, None) for t in (*triples, *about("150", "30"))], durable=False)
    assert in_store(right).default.properties == {iri("near"): Counts(30)}
    assert disagreement(right, in_store(right), "the data") is None
    warn_of_disagreement(tmp_path / "right")
    assert capsys.readouterr().err == ""
    stale = build_store(tmp_path / "stale", [(*t, None) for t in (*triples, *about("-5", "3000"))], durable=False)
    warn_of_disagreement(tmp_path / "stale")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith('warning: the static data describe themselves: void:triples of <http://ex.org/d> is "-5"')
    assert line.endswith("(and 1 more); plans are made with what the store has counted")
    assert "3,000 triples of <http://ex.org/near>, there are 30" in str(
        disagreement(stale, replace(in_store(stale), faults=()), "the data")
    )


def test_wrong_descriptions_change_neither_answers_nor_plans(tmp_path: Path) -> None:
    at = [Element(1000 * i, ((iri(f"p{i}"), iri("at"), iri(f"x{i % 5}")),)) for i in range(6)]
    plans = []
    for name, more in (("bare", []), ("wrong", about("7", "4000000000"))):
        world = World({f"{EX}S": [at]}, [*data(3, 30), *more])
        query = register(QUERY, world, tmp_path / name)
        assert query.judged(query.run().answers).equal
        plans.append(json.loads(explained([query.program], plan_mode("adaptive"), "json", 0))["deltas"])
    assert plans[0] == plans[1]
