"""System X has the answers of the definitions for any stream and batches, and reports what it does not support."""

from __future__ import annotations

import numpy as np
import pytest
from bench_tasks import task
from hypothesis import given, settings
from hypothesis import strategies as st

from cqels_opt.bench.answers import Bag
from cqels_opt.bench.black_boxes.relation import Cached, Table
from cqels_opt.bench.black_boxes.split import split
from cqels_opt.bench.contenders import UnsupportedError, built_in
from cqels_opt.bench.measure import check, in_turns
from cqels_opt.operators.rows import Rows
from cqels_opt.query.parser import parse
from cqels_opt.verify import Element
from cqels_opt.windows.batch_size import BatchSize

S = "http://s"
HEAD = (
    f"PREFIX : <http://x/> SELECT {{}} FROM NAMED <{S}> [NOW] AS ?n FROM NAMED <{S}> [RANGE 3 seconds] AS ?w WHERE {{{{ {{}} }}}}"
)
WINDOWS = "GRAPH ?n { ?a :at ?l } GRAPH ?w { ?b :at ?l }"
QUERIES = (
    HEAD.format("?a ?b ?c", f"{WINDOWS} ?a :knows ?c . ?b :knows ?c ."),
    HEAD.format("?b ?k", f"{WINDOWS} {{ ?a :knows ?c }} UNION {{ ?c :knows ?a }} ?l :holds ?k ."),
    HEAD.format("?l (COUNT(?b) AS ?k)", f"{WINDOWS} ?b :knows ?c .") + " GROUP BY ?l",
    HEAD.format("?b (MAX(?k) AS ?m)", f"{WINDOWS} {{ SELECT ?a (COUNT(?c) AS ?k) {{ ?a :knows ?c }} GROUP BY ?a }}")
    + " GROUP BY ?b",
    f"PREFIX : <http://x/> SELECT ?l (MIN(?k) AS ?m) FROM NAMED <{S}> [RANGE 2 seconds] AS ?w "
    "{ GRAPH ?w { ?b :at ?l } ?l :holds ?k } GROUP BY ?l",
    f"PREFIX : <http://x/> SELECT ?b FROM NAMED <{S}> [RANGE 2 seconds] AS ?w {{ GRAPH ?w {{ ?b :at :l1 }} ?b :knows ?c }}",
)
PEOPLE, PLACES = [f"<http://x/p{i}>" for i in range(4)], [f"<http://x/l{i}>" for i in range(3)]
STATIC = [(PEOPLE[a], "<http://x/knows>", PEOPLE[b]) for a, b in ((0, 1), (0, 2), (1, 2), (2, 0), (3, 3))] + [
    (place, "<http://x/holds>", f'"{k}"^^<http://www.w3.org/2001/XMLSchema#integer>') for place, k in zip(PLACES, (5, 10, 7))
]
ELEMENTS = st.lists(st.tuples(st.integers(0, 800), st.sampled_from(PEOPLE), st.sampled_from(PLACES)), min_size=1, max_size=14)


@pytest.mark.long
@settings(max_examples=25, deadline=None)
@given(steps=ELEMENTS, query=st.sampled_from(QUERIES), batch=st.integers(1, 6))
def test_it_answers_by_the_definitions(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str, str]], query: str, batch: int
) -> None:
    """Compared with the query's own text, evaluated at each instant by pyoxigraph, and with the engine."""
    t, elements = 0, []
    for step, person, place in steps:
        t += step
        elements.append(Element(t, ((person, "<http://x/at>", place),)))
    folder = tmp_path_factory.mktemp("x")
    made = task(folder, query, {S: elements}, STATIC, BatchSize(count=batch))
    known = built_in()
    runs = in_turns([known[name] for name in ("pyoxigraph", "system-x", "adaptive", "sub-results")], made, folder / "runs", 60)
    assert [run.why for run in runs] == [None] * 4
    check("q", runs)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (HEAD.format("?a", "GRAPH ?n { ?a :at ?l } OPTIONAL { GRAPH ?w { ?b :at ?l } }"), "no OPTIONAL"),
        (HEAD.format("?a", "GRAPH ?n { ?a :at ?l } FILTER(?a != :p1)"), "FILTER"),
        (HEAD.format("?a", "GRAPH ?n { ?a :at ?l } ?x :knows ?y ."), "shares no variable"),
        ("PREFIX : <http://x/> SELECT ?a { ?a :knows ?b }", "read streams"),
    ],
)
def test_what_it_cannot_do(text: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        split(parse(text))


def test_the_static_part_is_a_query_a_component() -> None:
    found = split(parse(QUERIES[1]))
    assert [part.variables for part in found.statics] == [("a",), ("l", "k")]
    assert "UNION" in found.statics[0].text
    assert "FROM" not in "".join(part.text for part in found.statics)


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(
    table=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=30),
    asked=st.lists(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=6), min_size=1, max_size=8),
    capacity=st.integers(1, 5),
)
def test_a_cached_table_joins_like_the_table(
    table: list[tuple[int, int, int]], asked: list[list[tuple[int, int]]], capacity: int
) -> None:
    import duckdb

    columns = {name: np.array([row[i] for row in table], np.int64) for i, name in enumerate("abc")}
    cached = Cached(Table(duckdb.connect(), "t", columns, ["a", "b"]), capacity)
    for rows in asked:
        ones = np.ones(len(rows), np.int64)
        left = Rows({"a": np.array([a for a, _ in rows]), "b": np.array([b for _, b in rows])}, ones * 0, ones, ones)
        got, want = Bag(), Bag()
        found = cached.join(left)
        for a, b, c, n in zip(*(found.columns[v].tolist() for v in "abc"), found.n.tolist()):
            got.add([(0, {"a": a, "b": b, "c": c})] * n)
        want.add((0, {"a": a, "b": b, "c": c}) for a, b in rows for x, y, c in table if (a, b) == (x, y))
        assert got.difference(want) is None
        assert len(cached._used) <= capacity
    assert cached.hits + cached.misses == sum(len(set(rows)) for rows in asked)
