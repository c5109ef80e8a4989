"""C-SPARQL, SPARQLstream and Streaming SPARQL: windows and the static default graph are matched as one graph.

test_random_queries.py runs random queries of these dialects; its ``CQELS_OPT_CASES`` and ``CQELS_OPT_SEED`` apply here too.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any, Literal

import pytest
from local_runs import Cut, Registered, Settings, World, register
from merged_source_cases import MergedMaker
from random_cases import make

from cqels_opt.errors import QueryError
from cqels_opt.query.parser import parse
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.state import window_state as contents
from cqels_opt.verify import Element

from .conftest import EX, STREAM, short

CASES = int(os.environ.get("CQELS_OPT_CASES", "10"))
FIRST = int(os.environ.get("CQELS_OPT_SEED", "0"))
CUTS = [Cut("1"), Cut("2", "first"), Cut("3", "random", 3, 3), Cut("100"), Cut("4000ms", "worst", 1, 3)]
Triple = tuple[str, str, str]


def triple(text: str) -> Triple:
    s, p, o = (f"<{EX}{word}>" for word in text.split())
    return s, p, o


def stream(*told: str) -> list[Element]:
    """``3 b at x``: the element `b at x` at second 3."""
    split = [line.split(None, 1) for line in told]
    return [Element(int(second) * 1000, (triple(text),)) for second, text in split]


def told(*query: Any, **settings: Any) -> list[str]:
    """The answers of the query that is :func:`asked`, equal for all batches and plans and in the independent evaluation."""
    found = asked(*query, **settings)
    outcomes = [found.run(how).answers for how in CUTS]
    assert all(short(answers) == short(outcomes[0]) for answers in outcomes)
    verdict = found.judged(outcomes[0])
    assert verdict.equal, verdict.text()
    return short(outcomes[0])


def asked(
    folder: Path,
    text: str,
    elements: list[Element],
    static: tuple[str, ...] = (),
    duplicates: Literal["set", "bag"] = "set",
    policy: str = "cc",
    operator: str = "rstream",
    graphs: dict[str, tuple[str, ...]] | None = None,
    drain: bool = True,
) -> Registered:
    named = {EX + name: [triple(t) for t in triples] for name, triples in (graphs or {}).items()}
    world = World({STREAM: [elements]}, [triple(t) for t in static], named)
    settings = Settings(operator, {"": policy}, drain=drain, duplicates=duplicates)
    return register(parse(f"PREFIX : <{EX}> {text}"), world, folder, settings)


TWO = stream("1 a at x", "3 b at x")


def test_a_pattern_is_matched_in_windows_and_static_data(tmp_path: Path) -> None:
    """Rows are ?l ?m ?p: both patterns match on both sides, in all four combinations."""
    text = "SELECT ?p ?l ?m FROM STREAM :S [NOW - 3 S TO NOW] { ?p :at ?l . ?l :near ?m }"
    elements = stream("1 a at x", "2 y near z", "3 b at y")
    assert told(tmp_path, text, elements, ("x near w", "c at x", "d at y"), operator="istream") == [
        "1 + x w a",
        "1 + x w c",
        "2 + y z d",
        "3 + y z b",
    ]


def test_as_a_set_a_triple_counts_once(tmp_path: Path) -> None:
    text = "SELECT ?p FROM STREAM :S [NOW - 3 S TO NOW] FROM STREAM :S [NOW - 1 S TO NOW] { ?p :at :x }"
    assert told(tmp_path, text, stream("1 a at x", "2 a at x", "3 b at x"), ("b at x",)) == [
        "1 = a",
        "1 = b",
        "2 = a",
        "2 = b",
        "3 = a",
        "3 = b",
        "4 = a",
        "4 = b",
        "5 = b",
        "6 = b",
    ]


def test_as_a_bag_everything_counts(tmp_path: Path) -> None:
    text = "SELECT ?p FROM STREAM :S WINDOW RANGE 3 S SLIDE 1 S FROM STREAM :S WINDOW RANGE 1 S FIXED { ?p :at :x }"
    found = told(tmp_path, text, stream("1 a at x", "1 b at x"), ("b at x",), "bag")
    assert found == ["1 = a", "1 = a", "1 = b", "1 = b", "1 = b", "2 = a", "2 = b", "2 = b", "4 = b"]


def test_windows_of_a_set_need_not_be_one_interval(tmp_path: Path) -> None:
    """An element is in the first window for one second; later it is in the window over an earlier range of two seconds."""
    text = "SELECT ?p FROM STREAM :S [NOW - 1 S TO NOW] FROM STREAM :S [NOW - 4 S TO NOW - 3 S] { ?p :at ?l }"
    assert told(tmp_path, text, stream("1 a at x", "2 b at x"), operator="istream") == ["1 + a", "2 + b", "4 + a", "5 + b"]
    assert told(tmp_path / "d", text, stream("1 a at x", "2 b at x"), operator="dstream") == ["2 - a", "3 - b", "5 - a", "6 - b"]


def test_a_triple_without_variables(tmp_path: Path) -> None:
    text = "SELECT ?p FROM STREAM :S [NOW - 2 S TO NOW] FROM STREAM :S [NOW - 1 S TO NOW] { ?p :at ?l . :x :open :yes }"
    assert told(tmp_path / "no", text, TWO) == []
    assert told(tmp_path / "static", text, TWO, ("x open yes",)) == ["1 = a", "2 = a", "3 = b", "4 = b"]
    assert told(tmp_path / "stream", text, [*TWO, *stream("4 x open yes")]) == ["4 = b"]


def test_a_group_has_a_window_of_its_own(tmp_path: Path) -> None:
    """Rows are ?l ?p ?q: ?q within a second, merged with static data as in any group."""
    text = """SELECT ?p ?q ?l FROM STREAM :S WINDOW RANGE 3 S SLIDE 1 S
    { ?p :at ?l . { ?q :at ?l . WINDOW RANGE 1 S FIXED } }"""
    assert told(tmp_path, text, TWO, ("c at y",), "bag") == [
        "1 = x a a",
        "1 = y c c",
        "2 = y c c",
        "3 = x a b",
        "3 = x b b",
        "3 = y c c",
        "4 = y c c",
        "6 = y c c",
    ]


def test_named_streams_are_not_merged_in_streaming_sparql(tmp_path: Path) -> None:
    text = "SELECT ?p FROM NAMED STREAM :S WINDOW RANGE 3 S FIXED { GRAPH :S { ?p :at ?l } }"
    assert told(tmp_path, text, TWO, ("c at x",), "bag", operator="istream") == ["1 + a", "3 + b"]
    group = "SELECT ?p FROM NAMED STREAM :S WINDOW RANGE 9 S FIXED { GRAPH :S { ?p :at ?l WINDOW RANGE 1 S FIXED } }"
    assert told(tmp_path / "own", group, TWO, ("c at x",), "bag") == ["1 = a", "3 = b"]


def test_sparqlstream_also_names_streams(tmp_path: Path) -> None:
    text = "SELECT ?p ?q FROM NAMED STREAM :S [NOW - 3 S TO NOW] { GRAPH :S { ?p :at ?l } ?q :at ?l }"
    assert told(tmp_path, text, TWO, ("c at x",), operator="istream") == [
        "1 + a a",
        "1 + a c",
        "3 + a b",
        "3 + b a",
        "3 + b b",
        "3 + b c",
    ]


def test_a_default_graph_of_from_is_merged(tmp_path: Path) -> None:
    text = "SELECT ?p FROM :g FROM STREAM :S [NOW - 1 S TO NOW] { ?p :at :x }"
    assert told(tmp_path, text, TWO, ("c at x",), operator="istream", graphs={"g": ("d at x",)}) == ["1 + a", "1 + d", "3 + b"]


FROM_TWO = {
    "csparql": ("REGISTER QUERY q AS", "FROM STREAM :S [RANGE 1s STEP 1s]"),
    "sparqlstream": ("", "FROM STREAM :S [NOW - 1 S TO NOW SLIDE 1 S]"),
    "streaming-sparql": ("", "FROM STREAM :S WINDOW RANGE 1 S FIXED"),
}


@pytest.mark.parametrize("order", ["FROM :g FROM :h {}", "FROM :g {} FROM :h", "{} FROM :g FROM :h FROM :g"])
@pytest.mark.parametrize("dialect", FROM_TWO)
def test_several_graphs_of_from_are_merged(dialect: str, order: str, tmp_path: Path) -> None:
    """`d at x` is in both graphs and matches once; no pattern matches in the default graph or in graph k."""
    register_as, clause = FROM_TWO[dialect]
    text = f"{register_as} PREFIX : <{EX}> SELECT ?p ?q {order.format(clause)} {{ ?p :at :x . ?q :in ?p . :z :is :there }}"
    graphs = {"g": ("d at x", "c in a"), "h": ("d at x", "e in d", "z is there"), "k": ("f in a",)}
    found = told(tmp_path, text, stream("1 a at x"), ("f in a", "f in d"), policy="wc", graphs=graphs)
    assert len(found) == len(set(found))
    assert {row.partition("= ")[2] for row in found} == {"a c", "d e"}


def test_a_graph_of_from_that_is_not_there_is_empty(tmp_path: Path) -> None:
    text = "SELECT ?p FROM :none FROM STREAM :S [NOW - 1 S TO NOW] FROM :g { ?p :at :x }"
    assert told(tmp_path, text, TWO, ("c at x",), operator="istream", graphs={"g": ("d at x",)}) == ["1 + a", "1 + d", "3 + b"]


def test_an_optional_over_static_data_alone(tmp_path: Path) -> None:
    """A row from static data alone has no delta, and keeps the bindings that an OPTIONAL adds to it."""
    text = "SELECT ?p ?n FROM STREAM :S [NOW - 1 S TO NOW] { ?p :at ?l OPTIONAL { GRAPH :g { ?p :name ?n } } }"
    found = told(tmp_path, text, TWO, ("c at x", "d at x"), operator="istream", graphs={"g": ("c name C", "a name A")})
    assert found == ["1 + A a", "1 + C c", "1 + d", "3 + b"]


def test_a_pattern_is_one_relation_whatever_it_is_matched_in(tmp_path: Path) -> None:
    """Five patterns that match on both sides: five delta sources in one block, and one relation for the purely static part."""
    text = """SELECT * FROM STREAM :S [NOW - 3 S TO NOW] FROM STREAM :S [NOW - 5 S TO NOW]
    { ?a :p ?b . ?b :p ?c . ?c :p ?d . ?d :p ?e . ?e :p ?a }"""
    found = asked(tmp_path, text, stream("1 a p b"), ("b p a", "a p a"))
    (block,) = found.program.blocks
    assert [o.name for o in block.occurrences] == [f"S+S2#{n}" for n in range(1, 6)]
    only_streams = asked(tmp_path / "none", text, stream("1 a p b"))
    assert [o.static for b in only_streams.program.blocks for o in b.occurrences] == [None] * 5


def test_element_windows_as_sets(tmp_path: Path) -> None:
    """`a at x` leaves the last two elements once, with its second occurrence."""
    text = "REGISTER QUERY q AS SELECT ?p FROM STREAM :S [RANGE TRIPLES 2] { ?p :at ?l }"
    elements = stream("1 a at x", "2 a at x", "3 b at x", "4 b at x")
    assert told(tmp_path, text, elements, drain=False) == ["1 = a", "2 = a", "3 = a", "3 = b", "4 = b"]
    assert told(tmp_path / "d", text, elements, operator="dstream", drain=False) == ["4 - a"]


def test_element_windows_with_a_step(tmp_path: Path) -> None:
    """The last three elements, evaluated at every second element."""
    text = "SELECT ?p FROM NAMED WINDOW :w ON :S [ELEMENTS 3 STEP 2] { WINDOW :w { ?p :at ?l } }"
    elements = stream("1 a at x", "2 b at x", "3 c at x", "4 d at x", "5 e at x", "6 a at x")
    assert told(tmp_path, text, elements, policy="wc", drain=False) == [
        "2 = a",
        "2 = b",
        "4 = b",
        "4 = c",
        "4 = d",
        "6 = a",
        "6 = d",
        "6 = e",
    ]


STAMP = "PREFIX f: <http://larkc.eu/csparql/sparql/jena/ext#>"
REGISTERED = f"REGISTER QUERY q AS PREFIX : <{EX}> {STAMP}"


@pytest.mark.parametrize(
    ("select", "where", "static", "expected"),
    [
        (
            "?p ?t",
            "{ ?p :at ?l BIND(f:timestamp(?p, :at, ?l) AS ?t) }",
            (),
            [
                "1.001 = a 1000",
                "2.001 = a 2000",
                "3.001 = a 2000",
                "3.001 = b 3000",
                "4.001 = a 2000",
                "4.001 = b 3000",
                "5.001 = b 3000",
            ],
        ),
        (  # a static triple has no time
            "?p ?t",
            "{ ?p :at ?l BIND(f:timestamp(?p, :at, ?l) AS ?t) }",
            ("c at x",),
            [
                "1.001 = a 1000",
                "1.001 = c",
                "2.001 = a 2000",
                "2.001 = c",
                "3.001 = a 2000",
                "3.001 = b 3000",
                "3.001 = c",
                "4.001 = a 2000",
                "4.001 = b 3000",
                "4.001 = c",
                "5.001 = b 3000",
                "5.001 = c",
            ],
        ),
        (
            "?p ?q",
            "{ ?p :at ?l . ?q :at ?l FILTER(f:timestamp(?p, :at, ?l) < f:timestamp(?q, :at, ?l)) }",
            (),
            ["3.001 = a b", "4.001 = a b"],
        ),
        (  # rows are ?p ?q: ?q came later than ?p
            "?p ?q",
            "{ ?p :at ?l OPTIONAL { ?q :at ?l FILTER(f:timestamp(?p, :at, ?l) < f:timestamp(?q, :at, ?l)) } }",
            (),
            ["1.001 = a", "2.001 = a", "3.001 = a b", "3.001 = b", "4.001 = a b", "4.001 = b", "5.001 = b"],
        ),
        (  # who came last
            "?p",
            "{ ?p :at ?l FILTER NOT EXISTS { ?q :at ?l FILTER(f:timestamp(?p, :at, ?l) < f:timestamp(?q, :at, ?l)) } }",
            (),
            ["1.001 = a", "2.001 = a", "3.001 = b", "4.001 = b", "5.001 = b"],
        ),
        (  # of a group
            "?l (COUNT(?p) AS ?n)",
            "{ ?p :at ?l } GROUP BY ?l HAVING(f:timestamp(:a, :at, ?l) > 1000)",
            (),
            ["2.001 = x 1", "3.001 = x 2", "4.001 = x 2"],
        ),
        (  # an unbound variable has no time
            "?p ?t",
            "{ { ?p :at :x } UNION { ?l :at :x } BIND(f:timestamp(?p, :at, :x) AS ?t) }",
            (),
            [
                *(
                    "1.001 =",
                    "1.001 = a 1000",
                    "2.001 =",
                    "2.001 = a 2000",
                    "3.001 =",
                    "3.001 =",
                    "3.001 = a 2000",
                    "3.001 = b 3000",
                ),
                *("4.001 =", "4.001 =", "4.001 = a 2000", "4.001 = b 3000", "5.001 =", "5.001 = b 3000"),
            ],
        ),
        (
            "(MAX(f:timestamp(?p, :at, ?l)) AS ?t)",
            "{ ?p :at ?l }",
            (),
            ["1.001 = 1000", "2.001 = 2000", "3.001 = 3000", "4.001 = 3000", "5.001 = 3000"],
        ),
    ],
)
def test_timestamp(select: str, where: str, static: tuple[str, ...], expected: list[str], tmp_path: Path) -> None:
    """`a at x` comes at 1 and again at 2; it leaves at 5.001, just after the window [2, 5) has closed."""
    text = f"{REGISTERED} SELECT {select} FROM STREAM :S [RANGE 3s STEP 1s] {where}"
    elements = stream("1 a at x", "2 a at x", "3 b at x")
    settings = Settings("rstream", {"": "cc,nc"}, drain=True, duplicates="set")
    found = register(parse(text), World({STREAM: [elements]}, [triple(t) for t in static]), tmp_path, settings)
    outcomes = [found.run(how).answers for how in CUTS]
    assert all(answers == outcomes[0] for answers in outcomes)
    verdict = found.judged(outcomes[0])
    assert verdict.equal, verdict.text()
    assert short(outcomes[0]) == expected


@pytest.mark.parametrize(
    ("dialect", "where", "message"),
    [
        ("cqels", "{ ?p :at ?l FILTER(f:timestamp(?p, :at, ?l) > 1) }", "timestamp.. is a function of C-SPARQL"),
        ("csparql", "{ ?p :at ?l FILTER(f:timestamp(?p, :at) > 1) }", "takes 3 arguments, not 2"),
        ("csparql", "{ ?p :at ?l FILTER(f:timestamp(?p, :at, STR(?l)) > 1) }", "takes variables and terms"),
    ],
)
def test_timestamp_mistakes(dialect: str, where: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        parse(f"PREFIX : <{EX}> {STAMP} SELECT ?p {where}", dialect)


@pytest.mark.long
@pytest.mark.parametrize("first", range(FIRST, FIRST + CASES, 10))
def test_a_worker_that_missed_steps(first: int, tmp_path: Path) -> None:
    """Workers rebuild their state from the windows from time to time: the answers do not change."""
    compared = 0
    for seed in range(first, first + 10):
        case = make(seed, MergedMaker)
        query = register(case.query(), case.world, tmp_path / str(seed), case.settings)
        sink, rng = LocalSink(), random.Random(seed)
        driver = query.driver(how := Cut("3", "random", rng.choice([1, 2]), rng.choice([None, 2]), seed), sink=sink)
        for number, rows in enumerate(query.chunks(how)):
            if rng.random() < 0.4:
                contents._CONTENTS.clear()
            driver.batch(number, rows)
        assert query.answers(sink.lines) == query.run(Cut("100")).answers, f"seed {seed}:\n{case}"
        compared += 1
    assert compared
