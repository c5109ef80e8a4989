"""A small world in files: people at places, places with names, people who know each other; and queries over it."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cqels_opt.verify import Inputs, read_inputs

EX = "http://ex.org/"
STREAM = f"{EX}S"
MAP = f"{EX}map"
START = 1_000_000

MET = """PREFIX : <http://ex.org/>
SELECT ?p ?q ?name
FROM NAMED :S [NOW] AS ?now
FROM NAMED :S [RANGE 5s] AS ?then
WHERE {
  GRAPH ?now { ?p :at ?l }
  GRAPH ?then { ?q :at ?l }
  GRAPH :map { ?l :name ?name }
  ?p :knows ?q
}
"""
"""Similar to the report's Q2."""

CROWDS = """PREFIX : <http://ex.org/>
SELECT ?name (COUNT(?p) AS ?people) (MAX(?age) AS ?oldest)
FROM NAMED :S [RANGE 5s] AS ?then
WHERE {
  GRAPH ?then { ?p :at ?l }
  GRAPH :map { ?l :name ?name }
  ?p :age ?age
}
GROUP BY ?name
"""
"""With groups, so that a batch has a third job."""


@dataclass(frozen=True)
class Files:
    """The files of the world, as options of the command line and as the independent evaluation reads them."""

    stream: Path
    static: Path
    places: Path

    @property
    def words(self) -> list[str]:
        return ["--stream", STREAM, str(self.stream), "--static", str(self.static), "--graph", MAP, str(self.places)]

    def inputs(self) -> Inputs:
        return read_inputs([(STREAM, self.stream)], [self.static], [(MAP, self.places)]).inputs


def rows(elements: int, people: int = 12, places: int = 4, seed: int = 1) -> list[tuple[str, str, str, int]]:
    """(s, p, o, t) ordered by time; some have equal times."""
    rng = random.Random(seed)
    found, t = [], START
    for _ in range(elements):
        t += rng.choice([0, 50, 100, 250])
        found.append((f"<{EX}p{rng.randrange(people)}>", f"<{EX}at>", f"<{EX}x{rng.randrange(places)}>", t))
    return found


def write_rows(path: Path, written: Sequence[tuple[str, str, str, int]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for s, p, o, t in written:
            file.write(json.dumps({"s": s, "p": p, "o": o, "t": t}) + "\n")


def write_world(folder: Path, elements: int, people: int = 12, places: int = 4, seed: int = 1) -> Files:
    """Writes ``stream.ndjson``, ``static.nt`` and ``places.nt``."""
    rng = random.Random(seed + 1)
    folder.mkdir(parents=True, exist_ok=True)
    files = Files(folder / "stream.ndjson", folder / "static.nt", folder / "places.nt")
    write_rows(files.stream, rows(elements, people, places, seed))
    with files.static.open("w", encoding="utf-8") as file:
        for p in range(people):
            file.write(f'<{EX}p{p}> <{EX}age> "{20 + p % 5}"^^<http://www.w3.org/2001/XMLSchema#integer> .\n')
            for q in rng.sample(range(people), people // 3):
                file.write(f"<{EX}p{p}> <{EX}knows> <{EX}p{q}> .\n")
    files.places.write_text("".join(f'<{EX}x{i}> <{EX}name> "Room {i}" .\n' for i in range(places)), encoding="utf-8")
    return files


def write_query(folder: Path, text: str, name: str = "q.rq") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path
