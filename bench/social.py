"""The CQELS report's world at any scale: co-authors meet in places, and a stream reports who is where.

Seeded and vectorised. The static data have ``dc:creator`` in both directions (SEMANTICS §6). Phases change the best join order:
while people without papers crowd in few places, the co-author relation is the selective one; when prolific authors spread over
many places, co-location is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
from numpy.typing import NDArray

from cqels_opt.rdf.static import StaticSource

STREAM = "http://deri.org/locstreams"
PLACES_GRAPH = "http://deri.org/localization/"
AT = "http://deri.org/ns/loc#at"
PLACE_NAME = "http://deri.org/ns/loc#name"
NAME = "http://xmlns.com/foaf/0.1/name"
CREATOR = "http://purl.org/dc/elements/1.1/creator"
REFERENCES = "http://purl.org/dc/terms/references"
START = 1_198_800_000_000
"""The time of the first element: 28 December 2007, at the congress where the report's data were recorded."""

_PERSON, _PAPER, _PLACE = "http://dblp.l3s.de/person/", "http://dblp.l3s.de/paper/", "http://deri.org/place/"

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of the stream: its share of the elements, the people in it, and the share of the places that they are in.

    ``idle`` are the people without papers, ``busy`` the most prolific tenth of the authors.
    """

    share: float
    who: Literal["anyone", "idle", "busy"] = "anyone"
    places: float = 1.0


STEADY = (Phase(1.0),)
DRIFT = (Phase(0.5, "idle", 0.02), Phase(0.5, "busy", 1.0))
CONGRESS = (Phase(0.25, "anyone", 0.02), Phase(0.25, "busy", 1.0), Phase(0.25, "idle", 0.02), Phase(0.25, "busy", 1.0))
"""The opening (everybody in a few halls), sessions (authors in all rooms), a reception (the others in the halls), sessions."""


@dataclass(frozen=True, slots=True)
class SocialFiles:
    """The files of a world and its generated sizes; ``coauthor_pairs`` counts each pair of two people once."""

    static: Path
    places: Path
    stream: Path
    triples: int
    authorships: int
    coauthor_pairs: int
    citations: int
    elements: int

    @property
    def sources(self) -> list[StaticSource]:
        """The static data, for loading a store."""
        return [StaticSource(self.static), StaticSource(self.places, PLACES_GRAPH)]


def social(
    folder: Path,
    *,
    seed: int = 1,
    authors: int = 1000,
    papers: int | None = None,
    coauthor_pairs: int | None = None,
    places: int = 200,
    elements: int = 10_000,
    rate: float = 100.0,
    phases: Sequence[Phase] = STEADY,
    references: float = 3.0,
    idle: float = 0.3,
    skew: float = 1.5,
    stream_format: Literal["ndjson", "parquet"] = "ndjson",
) -> SocialFiles:
    """Writes ``static.nt``, ``places.nt`` (graph ``PLACES_GRAPH``) and ``stream.ndjson`` or ``stream.parquet`` into ``folder``.

    ``papers`` (default: one per author) have as many authors as yield about ``coauthor_pairs`` (default: ten per author). A share
    ``idle`` of the people writes none; among the others, lower numbers write more (increasingly with ``skew``). A paper cites
    ``references`` earlier ones on average. ``rate`` is in elements per second of stream time.
    """
    random = np.random.default_rng(seed)
    papers = papers or authors
    writers = max(1, round(authors * (1 - idle)))
    paper, author, pairs = _authorships(random, writers, papers, coauthor_pairs or 10 * authors, skew)
    citing, cited = _citations(random, papers, references)
    person, place = _whereabouts(random, authors, writers, places, elements, phases)

    folder.mkdir(parents=True, exist_ok=True)
    static, rooms, stream = folder / "static.nt", folder / "places.nt", folder / f"stream.{stream_format}"
    with static.open("w", encoding="utf-8") as file:
        file.writelines(f'<{_PERSON}{i}> <{NAME}> "Author {i}" .\n' for i in range(authors))
        by = list(zip(paper.tolist(), author.tolist()))
        file.writelines(f"<{_PERSON}{a}> <{CREATOR}> <{_PAPER}{p}> .\n" for p, a in by)
        file.writelines(f"<{_PAPER}{p}> <{CREATOR}> <{_PERSON}{a}> .\n" for p, a in by)
        cites = zip(citing.tolist(), cited.tolist())
        file.writelines(f"<{_PAPER}{p}> <{REFERENCES}> <{_PAPER}{q}> .\n" for p, q in cites)
    with rooms.open("w", encoding="utf-8") as file:
        file.writelines(f'<{_PLACE}{i}> <{PLACE_NAME}> "Room {i}" .\n' for i in range(places))
    times = START + (np.arange(elements) * 1000 / rate).astype(np.int64)
    people, where = [f"<{_PERSON}{i}>" for i in range(authors)], [f"<{_PLACE}{i}>" for i in range(places)]
    write_locations(stream, people, person, where, place, times)
    triples = authors + 2 * len(paper) + len(citing) + places
    return SocialFiles(static, rooms, stream, triples, len(paper), pairs, len(citing), elements)


def write_locations(file: Path, people: Sequence[str], person: Ints, places: Sequence[str], place: Ints, times: Ints) -> None:
    """Writes a stream of locations; ``person`` and ``place`` are indexes into the lists of terms; the extension is the format."""
    if file.suffix == ".parquet":
        columns: dict[str, Any] = {
            "s": _chosen(people, person),
            "p": _chosen([f"<{AT}>"], np.zeros(len(times), np.int64)),
            "o": _chosen(places, place),
            "t": pa.array(times, pa.int64()),
        }
        pa_parquet.write_table(pa.table(columns), file)
        return
    rows = zip(person.tolist(), place.tolist(), times.tolist())
    lines: Iterable[str] = (f'{{"s": "{people[a]}", "p": "<{AT}>", "o": "{places[b]}", "t": {t}}}\n' for a, b, t in rows)
    with file.open("w", encoding="utf-8") as out:
        out.writelines(lines)


def _chosen(terms: Sequence[str], places: Ints) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), pa.array(terms, pa.string())).cast(pa.string())


def _authorships(random: np.random.Generator, writers: int, papers: int, target: int, skew: float) -> tuple[Ints, Ints, int]:
    """Papers and their authors, and the number of co-author pairs, which is about ``target``.

    A paper has 1 + Poisson(m) authors, so (m² + 2m) / 2 pairs on average; a greater m compensates for repeated pairs.
    """
    aim = float(target)
    for _ in range(5):
        paper, author, pairs = _teams(random, writers, papers, aim, skew)
        if abs(pairs - target) <= 0.03 * target:
            break
        aim *= min(2.0, target / max(1, pairs))
    return paper, author, pairs


def _teams(random: np.random.Generator, writers: int, papers: int, aim: float, skew: float) -> tuple[Ints, Ints, int]:
    sizes = 1 + random.poisson(np.sqrt(1 + 2 * aim / papers) - 1, papers)
    paper = np.repeat(np.arange(papers), sizes)
    author = (writers * random.random(len(paper)) ** skew).astype(np.int64)
    distinct = np.unique(paper * writers + author)
    paper, author = distinct // writers, distinct % writers
    return paper, author, len(coauthors(paper, author)[0])


def coauthors(paper: Ints, author: Ints) -> tuple[Ints, Ints]:
    """The distinct pairs of two people with a common paper, the lower number first; ``paper`` is sorted."""
    _, first, sizes = np.unique(paper, return_index=True, return_counts=True)
    count = int(author.max()) + 1 if len(author) else 0
    found = []
    for size in np.unique(sizes[sizes > 1]).tolist():
        teams = np.sort(author[first[sizes == size][:, None] + np.arange(size)], axis=1)
        one, other = np.triu_indices(size, 1)
        found.append(np.unique(teams[:, one].ravel() * count + teams[:, other].ravel()))
    pairs = np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)
    return pairs // max(1, count), pairs % max(1, count)


def _citations(random: np.random.Generator, papers: int, references: float) -> tuple[Ints, Ints]:
    """Each paper cites earlier ones, older ones more often."""
    citing = np.repeat(np.arange(1, papers), random.poisson(references, max(0, papers - 1)))
    cited = (citing * random.random(len(citing)) ** 1.5).astype(np.int64)
    distinct = np.unique(citing * papers + cited)
    return distinct // papers, distinct % papers


def _whereabouts(
    random: np.random.Generator, authors: int, writers: int, places: int, elements: int, phases: Sequence[Phase]
) -> tuple[Ints, Ints]:
    """For each element a person and a place; the phases follow each other in the given order."""
    crowds = {"anyone": (0, authors), "idle": (min(writers, authors - 1), authors), "busy": (0, max(1, writers // 10))}
    ends = np.round(np.cumsum([phase.share for phase in phases]) / sum(phase.share for phase in phases) * elements)
    person, place = np.empty(elements, np.int64), np.empty(elements, np.int64)
    begin = 0
    for phase, end in zip(phases, ends.astype(np.int64).tolist()):
        low, high = crowds[phase.who]
        person[begin:end] = random.integers(low, high, end - begin)
        place[begin:end] = random.integers(0, max(1, round(places * phase.places)), end - begin)
        begin = end
    return person, place
