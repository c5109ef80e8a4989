"""The generated world: reproducible, of the requested size, and with phases in which the best join order changes."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pyoxigraph as ox
import pytest

from cqels_opt.bench.social import CREATOR, DRIFT, NAME, PLACE_NAME, REFERENCES, START, Phase, coauthors, social
from cqels_opt.rdf.streams import read_stream


def triples(path: Path) -> list[ox.Triple]:
    return [quad.triple for quad in ox.parse(path=str(path))]


def elements(path: Path) -> list[tuple[str, str, int]]:
    return [(row["s"], row["o"], row["t"]) for batch in read_stream(path) for row in batch.to_pylist()]


def test_a_world_is_what_was_asked_for(tmp_path: Path) -> None:
    world = social(tmp_path, seed=7, authors=300, coauthor_pairs=2000, places=20, elements=500, rate=50)
    static = triples(world.static)
    by = Counter(triple.predicate.value for triple in static)
    assert by == {NAME: 300, CREATOR: 2 * world.authorships, REFERENCES: world.citations}
    assert len(set(static)) == len(static)
    assert 0.95 * 2000 <= world.coauthor_pairs <= 1.05 * 2000
    assert [t.predicate.value for t in triples(world.places)] == [PLACE_NAME] * 20
    assert world.triples == len(static) + 20
    rows = elements(world.stream)
    assert len(rows) == world.elements == 500
    assert [t for *_, t in rows] == [START + 20 * i for i in range(500)]

    papers = defaultdict(set)
    for triple in static:
        if triple.predicate.value == CREATOR and "/paper/" in str(triple.subject):
            papers[triple.subject].add(str(triple.object))
    pairs = {(a, b) for team in papers.values() for a in team for b in team if a < b}
    assert len(pairs) == world.coauthor_pairs


def test_the_seed_decides(tmp_path: Path) -> None:
    one, same, other = (social(tmp_path / str(k), seed=seed, authors=50, elements=50) for k, seed in enumerate((1, 1, 2)))
    for file in ("static.nt", "places.nt", "stream.ndjson"):
        assert (tmp_path / "0" / file).read_bytes() == (tmp_path / "1" / file).read_bytes()
    assert (one.triples, one.coauthor_pairs) == (same.triples, same.coauthor_pairs)
    assert (tmp_path / "0/stream.ndjson").read_bytes() != (tmp_path / "2/stream.ndjson").read_bytes()
    assert other.elements == 50


def test_parquet_says_the_same(tmp_path: Path) -> None:
    lines = social(tmp_path / "a", authors=50, elements=200)
    columns = social(tmp_path / "b", authors=50, elements=200, stream_format="parquet")
    assert elements(lines.stream) == elements(columns.stream)


def test_the_best_order_flips(tmp_path: Path) -> None:
    """Rows that join a newcomer: first a full room and few co-authors, then many co-authors and an empty room."""
    world = social(tmp_path, authors=600, papers=600, places=200, elements=8000, rate=100, phases=DRIFT)
    partners: dict[str, set[str]] = defaultdict(set)
    teams = defaultdict(set)
    for triple in triples(world.static):
        if triple.predicate.value == CREATOR and "/paper/" in str(triple.subject):
            teams[triple.subject].add(str(triple.object))
    for team in teams.values():
        for person in team:
            partners[person] |= team
    rows = elements(world.stream)
    sides = []
    for begin in (1000, 7000):  # in the first and in the second phase, after a window of 30 s
        window = rows[max(0, begin - 3000) : begin]
        rooms = Counter(room for _, room, _ in window)
        newcomers = rows[begin : begin + 100]
        by_room = sum(rooms[room] for _, room, _ in newcomers)
        by_partner = sum(len(partners[person]) for person, _, _ in newcomers)
        sides.append((by_room, by_partner))
    assert sides[0][0] > 3 * sides[0][1]
    assert sides[1][1] > 1.5 * sides[1][0]


def test_coauthors_of_a_few_papers() -> None:
    one, other = coauthors(np.array([0, 0, 0, 1, 1, 2]), np.array([5, 1, 3, 3, 1, 4]))
    assert list(zip(one.tolist(), other.tolist())) == [(1, 3), (1, 5), (3, 5)]
    assert len(coauthors(np.array([], np.int64), np.array([], np.int64))[0]) == 0


@pytest.mark.parametrize("who", ["anyone", "idle", "busy"])
def test_phases_choose_people_and_places(tmp_path: Path, who: str) -> None:
    phase = Phase(1.0, who, 0.1)  # type: ignore[arg-type]
    world = social(tmp_path, authors=100, places=50, elements=2000, phases=(phase,))
    rows = elements(world.stream)
    assert len({room for _, room, _ in rows}) == 5
    people = {int(person.rpartition("/")[2][:-1]) for person, _, _ in rows}
    assert people == set({"anyone": range(100), "idle": range(70, 100), "busy": range(7)}[who])
