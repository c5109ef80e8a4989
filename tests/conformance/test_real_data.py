"""Q1–Q4 on authors, citations and conference contacts that are real, and on the generator's drift: answers, and switches that matter."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyoxigraph as ox
import pytest
from local_run import Cut, Element, Registered, World, register

from cqels_opt.bench.shared_data import shared_world
from cqels_opt.bench.social import DRIFT, PLACES_GRAPH, STREAM, social
from cqels_opt.trace.records import TraceRecord

QUERIES = Path(__file__).resolve().parents[2] / "docs" / "queries"
REPORT = ("q1", "q2", "q3", "q4")


def triples(path: Path) -> Iterator[tuple[str, str, str]]:
    for quad in ox.parse(path=str(path), format=ox.RdfFormat.N_TRIPLES):
        yield str(quad.subject), str(quad.predicate), str(quad.object)


def world_of(static: Path, places: Path, stream: Path, elements: slice = slice(None)) -> World:
    rows = [json.loads(line) for line in stream.read_text(encoding="utf-8").splitlines()][elements]
    found = [Element(row["t"], ((row["s"], row["p"], row["o"]),)) for row in rows]
    return World({STREAM: [found]}, list(triples(static)), {PLACES_GRAPH: list(triples(places))})


def text(name: str) -> str:
    return (QUERIES / f"{name}.rq").read_text(encoding="utf-8")


def rows_put_out(records: Sequence[TraceRecord]) -> int:
    return sum(o.observed or 0 for record in records for delta in record.deltas for o in delta.operators)


def switches(records: Sequence[TraceRecord]) -> list[tuple[int, str]]:
    return [(i, delta.source) for i, record in enumerate(records) for delta in record.deltas if delta.switched]


def forced_gain(registered: Registered, batch: str) -> float:
    """The most that keeping a plan where adaptive switched would have cost: its rows over adaptive's, from that batch on."""
    adaptive = registered.run(Cut(batch))
    assert registered.judged(adaptive.answers).equal
    gains = [0.0]
    for at, source in switches(adaptive.records):
        plans = {delta.source: delta.plan for delta in adaptive.records[at].deltas}
        plans[source] = next(d.plan for d in adaptive.records[at - 1].deltas if d.source == source)
        kept = registered.run(Cut(batch, plan="fixed:" + "; ".join(f"{s}: {p}" for s, p in plans.items())))
        assert kept.answers == adaptive.answers
        gains.append(rows_put_out(kept.records[at:]) / max(1, rows_put_out(adaptive.records[at:])))
    return max(gains)


@pytest.mark.needs_shared_data
@pytest.mark.parametrize("name", REPORT)
def test_the_reports_queries_on_real_data(name: str, shared_data: Path, tmp_path: Path) -> None:
    files = shared_world(shared_data, tmp_path, event="SFHH", elements=150)
    registered = register(text(name), world_of(files.static, files.places, files.stream), tmp_path / "run")
    outcome = registered.run(Cut("50"))
    assert outcome.answers
    assert registered.judged(outcome.answers).equal


@pytest.mark.parametrize("name", REPORT)
def test_the_reports_queries_on_the_generator(name: str, tmp_path: Path) -> None:
    files = social(tmp_path, authors=300, papers=300, coauthor_pairs=2000, places=40, elements=400, rate=20)
    registered = register(text(name), world_of(files.static, files.places, files.stream), tmp_path / "run")
    outcome = registered.run(Cut("100"))
    assert outcome.answers
    assert registered.judged(outcome.answers).equal


@pytest.mark.needs_shared_data
def test_a_switch_that_matters_on_real_data(shared_data: Path, tmp_path: Path) -> None:
    """At a workshop of 2016 people stand in twos and threes, and then nearly all of them together: groups of fifty."""
    files = shared_world(shared_data, tmp_path, event="WS16")
    world = world_of(files.static, files.places, files.stream, slice(10_000, 11_250))
    assert forced_gain(register(text("q2"), world, tmp_path / "run"), "250") >= 1.5


def test_a_switch_that_matters_under_drift(tmp_path: Path) -> None:
    """Idle people crowd in few rooms, then busy authors spread over many: the plan of before would make more than 1.5 times the rows."""
    files = social(tmp_path, authors=300, papers=300, coauthor_pairs=3000, places=100, elements=1200, rate=20, phases=DRIFT)
    registered = register(text("q2"), world_of(files.static, files.places, files.stream), tmp_path / "run")
    assert forced_gain(registered, "100") >= 1.5


def test_world_keeps_its_elements(tmp_path: Path) -> None:
    files = social(tmp_path, authors=50, papers=50, coauthor_pairs=100, places=5, elements=60, rate=20)
    world = world_of(files.static, files.places, files.stream, slice(10))
    counts: dict[str, int] = defaultdict(int)
    for element in world.streams[STREAM][0]:
        counts[element.triples[0][1]] += 1
    assert counts == {"<http://deri.org/ns/loc#at>": 10}
