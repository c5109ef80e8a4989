"""Cyclic queries under multiway plans, binary plans and plans by lot: the answers of the independent evaluation, and the rows they read."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import pytest
from local_runs import Cut, Settings, World, register

from cqels_opt.plans import Multiway, Plan, parse_planned
from cqels_opt.plans.plan import joins, parts
from cqels_opt.trace.records import TraceRecord
from cqels_opt.verify import Element

EX = "http://ex.org/"
SHAPES = {
    "triangle": "ab bc ca",
    "diamond": "ab cb ad cd",
    "2-triangle": "ab bc ca cd da",
    "4-clique": "ab bc ca ad bd cd",
    "triangle with tails": "ab bc ca cd ae",
    "two edges twice": "ab bc ca bc",
}
"""A letter is a variable, a word an edge."""


def node(number: int) -> str:
    return f"<{EX}n{number}>"


def edges(rng: random.Random, count: int, nodes: int) -> list[tuple[str, str]]:
    """Edges of which many begin or end at a hub; some are there more than once."""
    ends = [[0 if rng.random() < 0.3 else rng.randrange(nodes) for _ in range(count)] for _ in range(2)]
    return [(node(a), node(b)) for a, b in zip(*ends)]


def random_case(seed: int) -> tuple[str, World, Settings]:
    """A cyclic query: some edges over windows, the others static; now and then with a filter, an OPTIONAL, a MINUS or a projection."""
    rng = random.Random(seed)
    shape = SHAPES[rng.choice(sorted(SHAPES))].split()
    windows = {"w": rng.choice(["RANGE 3 s", "RANGE 2 s SLIDE 1 s", "TRIPLES 5"]), "v": rng.choice(["RANGE 2 s", "NOW"])}
    kinds = ["w", *(rng.choice("wwv-") for _ in shape[1:])]
    body = [
        f"?{a} :to ?{b} ." if kind == "-" else f"GRAPH ?{kind} {{ ?{a} :{rng.choice(['to', 'to', 'by'])} ?{b} }}"
        for kind, (a, b) in zip(kinds, shape)
    ]
    names = sorted(set("".join(shape)))
    one, other = rng.sample(names, 2)
    body += rng.sample(
        [
            f"FILTER(?{one} != ?{other})",
            f"FILTER(STR(?{one}) < STR(?{other}))",
            f"OPTIONAL {{ ?{one} :name ?name }}",
            f"MINUS {{ ?{one} :to ?{one} }}",
            f"FILTER EXISTS {{ ?{other} :to ?z }}",
        ],
        rng.choice([0, 1, 1, 2]),
    )
    used = [f"FROM NAMED :S [{windows[w]}] AS ?{w}" for w in sorted({*kinds} - {"-"})]
    select = " ".join(f"?{v}" for v in (names if rng.random() < 0.5 else rng.sample(names, 2)))
    text = f"PREFIX : <{EX}>\nSELECT {select}\n{' '.join(used)}\nWHERE {{ {' '.join(body)} }}"
    static = [(a, f"<{EX}to>", b) for a, b in dict.fromkeys(edges(rng, 12, 5))]
    static += [(node(i), f"<{EX}name>", f'"{i}"') for i in range(0, 5, 2)]
    stream = [
        Element(1000 * (i // 3), ((a, f"<{EX}{rng.choice(['to', 'to', 'by'])}>", b),))
        for i, (a, b) in enumerate(edges(rng, 18, 5))
    ]
    return text, World({f"{EX}S": [stream]}, static), Settings(rng.choice(["istream", "rstream", "dstream"]))


def used(records: list[TraceRecord]) -> list[Plan]:
    """The joins of all plans that ran."""
    plans = {delta.plan for record in records for delta in record.deltas}
    return [join for plan in plans for part in parts(parse_planned(plan)) for join in joins(part)]


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 20, 10))
def test_random_cyclic_queries_have_the_answers_of_the_independent_evaluation(first: int, tmp_path: Path) -> None:
    at_once = answers = 0
    for seed in range(first, first + 10):
        text, world, settings = random_case(seed)
        query = register(text, world, tmp_path / str(seed), settings)
        whole = query.run(Cut("4", "first"))
        verdict = query.judged(whole.answers)
        assert verdict.equal, (seed, text, verdict)
        answers += len(whole.lines)
        for cut in (Cut("5", "random", seed=seed), Cut("3", "random", parts=2, seed=seed + 1), Cut("4", "adaptive")):
            outcome = query.run(cut)
            assert outcome.answers == whole.answers, (seed, text, cut)
            at_once += sum(isinstance(join, Multiway) for join in used(outcome.records))
    assert answers and at_once > 5


@pytest.mark.parametrize("chunk", [1, 3])
def test_rows_that_are_joined_a_few_at_a_time(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = register(TRIANGLE, hubs(30, 2), tmp_path)
    expected = query.run(Cut("40", "first")).answers
    monkeypatch.setattr("cqels_opt.operators.rows.CHUNK", chunk)
    assert query.run(Cut("40", f"fixed:{AT_ONCE}")).answers == expected


# ------------------------------------------------------------------ rows at a hub
TRIANGLE = f"""PREFIX : <{EX}>
SELECT ?a ?b ?c FROM NAMED :S [RANGE 1 h] AS ?w
WHERE {{ GRAPH ?w {{ ?a :to ?b . ?b :to ?c . ?c :to ?a }} }}"""
AT_ONCE = "w#1: w#1 » w#2[?b] & w#3[?a]; w#2: w#2 » w#1[?b] & w#3[?c]; w#3: w#3 » w#1[?a] & w#2[?c]"
BINARY = {
    "w#1": ("w#1 » w#2[?b] » w#3[?a ?c]", "w#1 » w#3[?a] » w#2[?b ?c]"),
    "w#2": ("w#2 » w#1[?b] » w#3[?a ?c]", "w#2 » w#3[?c] » w#1[?a ?b]"),
    "w#3": ("w#3 » w#1[?a] » w#2[?b ?c]", "w#3 » w#2[?c] » w#1[?a ?b]"),
}


def world_of(graph: list[tuple[int, int]]) -> World:
    return World({f"{EX}S": [[Element(1000 + i, ((node(a), f"<{EX}to>", node(b)),)) for i, (a, b) in enumerate(graph)]]})


def hubs(degree: int, probes: int) -> World:
    """A hub that many edges enter and another that many leave, with few triangles; then edges that leave the one and enter the other."""
    graph = [(10 + i, 0) for i in range(degree)] + [(1, 10 + degree + i) for i in range(degree)]
    graph += [
        edge for i in range(probes) for edge in ((0, 5000 + i), (5000 + i, 10 + i), (6000 + i, 1), (10 + degree + i, 6000 + i))
    ]
    return world_of(graph)


def rows_read(records: list[TraceRecord]) -> int:
    """The rows that the joins of all plans gave or verified."""
    steps = [step for record in records for delta in record.deltas for step in delta.operators if step.op != "scan"]
    return sum((step.observed or 0) + (step.candidates or 0) for step in steps)


def of_source(records: list[TraceRecord]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for record in records:
        for delta in record.deltas:
            read = sum((step.observed or 0) + (step.candidates or 0) for step in delta.operators if step.op != "scan")
            found[delta.source] = found.get(delta.source, 0) + read
    return found


def binary_plans() -> Iterator[str]:
    for chosen in product((0, 1), repeat=3):
        yield "; ".join(f"{source}: {plans[i]}" for (source, plans), i in zip(BINARY.items(), chosen))


def test_at_hubs_a_multiway_plan_reads_a_hundredth_of_the_rows_of_any_binary_plan(tmp_path: Path) -> None:
    query = register(TRIANGLE, hubs(400, 12), tmp_path)
    at_once = query.run(Cut("800", f"fixed:{AT_ONCE}"))
    assert query.judged(at_once.answers).equal and len(at_once.lines) > 0
    best: dict[str, int] = {}
    for plans in binary_plans():  # the best plan of each source, in hindsight
        outcome = query.run(Cut("800", f"fixed:{plans}"))
        assert outcome.answers == at_once.answers
        for source, rows in of_source(outcome.records).items():
            best[source] = min(rows, best.get(source, rows))
    assert sum(best.values()) >= 100 * rows_read(at_once.records)
    adaptive = query.run(Cut("800", "adaptive"))
    assert adaptive.answers == at_once.answers
    assert any(isinstance(join, Multiway) for join in used(adaptive.records))
    assert sum(best.values()) >= 100 * rows_read(adaptive.records)


@pytest.mark.parametrize("degree", [1, 2, 5])
def test_on_uniform_data_the_chosen_plans_read_no_more_rows_than_binary_plans(degree: int, tmp_path: Path) -> None:
    rng = random.Random(degree)
    world = world_of([(rng.randrange(50), rng.randrange(50)) for _ in range(50 * degree)])
    query = register(TRIANGLE, world, tmp_path)
    adaptive = query.run(Cut("50", "adaptive"))
    assert query.judged(adaptive.answers).equal
    best = min(rows_read(query.run(Cut("50", f"fixed:{plans}")).records) for plans in binary_plans())
    assert rows_read(adaptive.records) <= best
