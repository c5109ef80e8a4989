"""The report's world from real data: the ACL Anthology Network's papers, and contacts at three conferences (SocioPatterns).

The data sets are next to the project (their README names the sources) and not part of it: their folder is a parameter. Authors
and citations become the static data. Contacts become locations: all people connected by contacts within one tick of 20 seconds
are in one place. Each participant gets the identity of one of the most prolific authors.
"""

from __future__ import annotations

import gzip
import html
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cqels_opt.bench.social import CREATOR, NAME, PLACE_NAME, REFERENCES, write_locations
from cqels_opt.rdf.terms import XSD, escape

Event = Literal["SFHH", "ICCSS17", "WS16"]
EVENTS: dict[str, Event] = {"SFHH": "SFHH", "ICCSS17": "ICCSS17", "WS16": "WS16"}
Ints = NDArray[np.int64]

TITLE = "http://purl.org/dc/elements/1.1/title"
ISSUED = "http://purl.org/dc/terms/issued"
_AUTHOR, _PAPER, _PLACE = "http://example.org/aan/author/", "http://example.org/aan/paper/", "http://example.org/place/"

_CONTACTS = {"SFHH": "SFHH_tij.dat.gz", "ICCSS17": "tij_ICCSS17.dat.gz", "WS16": "tij_WS16.dat.gz"}
# SFHH's clock counts from an unstated midnight; we assume that before its first day, 4 June 2009.
_ORIGIN = {"SFHH": int(datetime(2009, 6, 4, tzinfo=UTC).timestamp()), "ICCSS17": 0, "WS16": 0}
_RECORD = re.compile(r"^(id|author|title|venue|year) = \{(.*)\}$")


@dataclass(frozen=True, slots=True)
class Paper:
    """A record of the metadata; ``authors`` are names as normalised by the network."""

    id: str
    authors: tuple[str, ...]
    title: str
    venue: str
    year: int


@dataclass(frozen=True, slots=True)
class SharedFiles:
    """The files of a world; ``places`` belongs to the named graph ``cqels_opt.bench.social.PLACES_GRAPH``."""

    static: Path
    places: Path
    stream: Path
    authors: int
    citations: int
    participants: int
    elements: int


def read_papers(data: Path) -> list[Paper]:
    """The papers of ``aan/acl-metadata.txt.gz``.

    The file is mostly ASCII, with some bytes of Windows-1252 and of damaged UTF-8. Names contain HTML entities, whose semicolon
    is also the separator of names, so entities are resolved before names are split.
    """
    papers = []
    record: dict[str, str] = {}
    with gzip.open(data / "aan" / "acl-metadata.txt.gz", "rt", encoding="cp1252", errors="replace", newline="\n") as file:
        for line in file:
            if match := _RECORD.match(line.rstrip("\n")):
                record[match[1]] = html.unescape(match[2]).strip()
            if len(record) == 5:
                names = (name.strip() for name in record["author"].split(";"))
                authors = tuple(dict.fromkeys(name for name in names if name))
                papers.append(Paper(record["id"], authors, record["title"], record["venue"], int(record["year"])))
                record = {}
    return papers


def read_citations(data: Path, known: set[str]) -> list[tuple[str, str]]:
    """(citing, cited) of ``aan/acl-citations.txt.gz`` if both papers are known; the others are from another release."""
    with gzip.open(data / "aan" / "acl-citations.txt.gz", "rt", encoding="ascii") as file:
        pairs = (line.strip().split(" , ") for line in file)
        return [(citing, cited) for citing, cited in pairs if citing in known and cited in known]


def read_contacts(data: Path, event: Event) -> tuple[Ints, Ints, Ints]:
    """Times in milliseconds, and the two people of each contact."""
    with gzip.open(data / "sociopatterns" / _CONTACTS[event], "rt", encoding="ascii") as file:
        table = np.array(file.read().split(), np.int64).reshape(-1, 3)
    return (table[:, 0] + _ORIGIN[event]) * 1000, table[:, 1], table[:, 2]


def whereabouts(times: Ints, one: Ints, other: Ints) -> tuple[Ints, Ints, Ints]:
    """(time, person, place) of everybody in contact, sorted by time, place and person.

    A place is a connected component of a tick. It keeps the number that most of its people had in the previous tick, unless a
    larger component of its tick has it; a new one takes the lowest free number.
    """
    people = int(max(one.max(), other.max())) + 1
    ticks, tick = np.unique(times, return_inverse=True)
    nodes, node = np.unique(np.concatenate([tick * people + one, tick * people + other]), return_inverse=True)
    edges = coo_array((np.ones(len(one), np.int8), (node[: len(one)], node[len(one) :])), shape=(len(nodes), len(nodes)))
    component = connected_components(edges, directed=False)[1]
    at, person = nodes // people, nodes % people
    place = _lasting(ticks, at, person, np.asarray(component, np.int64))
    order = np.lexsort((person, place, at))
    return ticks[at[order]], person[order], place[order]


def _lasting(ticks: Ints, at: Ints, person: Ints, component: Ints) -> Ints:
    """A number for each row's component that is stable between ticks; rows are sorted by ``at``."""
    place = np.empty(len(at), np.int64)
    before: dict[int, int] = {}
    edges = np.searchsorted(at, np.arange(len(ticks) + 1))
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist()):
        groups: dict[int, list[int]] = {}
        for row in range(low, high):
            groups.setdefault(int(component[row]), []).append(row)
        taken: set[int] = set()
        now: dict[int, int] = {}
        for rows in sorted(groups.values(), key=lambda rows: (-len(rows), rows)):
            wishes = Counter(before[int(person[row])] for row in rows if int(person[row]) in before)
            free = (number for number in range(len(groups) + len(taken) + 1) if number not in taken)
            wished = (number for number, _ in sorted(wishes.items(), key=lambda item: (-item[1], item[0])))
            number = next((number for number in wished if number not in taken), None)
            number = next(free) if number is None else number
            taken.add(number)
            for row in rows:
                place[row] = now[int(person[row])] = number
        before = now
    return place


def shared_world(
    data: Path,
    folder: Path,
    *,
    event: Event = "SFHH",
    elements: int | None = None,
    seed: int = 1,
    stream_format: Literal["ndjson", "parquet"] = "ndjson",
) -> SharedFiles:
    """Writes ``static.nt``, ``places.nt`` and the stream into ``folder``; ``elements`` limits the stream to its first elements.

    The participants are the authors with the most papers, in an order drawn with ``seed``.
    """
    papers = read_papers(data)
    citations = read_citations(data, {paper.id for paper in papers})
    written = Counter(name for paper in papers for name in paper.authors)
    number = {name: i for i, name in enumerate(written)}
    times, person, place = (column[:elements] for column in whereabouts(*read_contacts(data, event)))

    folder.mkdir(parents=True, exist_ok=True)
    static, places, stream = folder / "static.nt", folder / "places.nt", folder / f"stream.{stream_format}"
    with static.open("w", encoding="utf-8") as file:
        file.writelines(_bibliography(papers, citations, number))
    rooms = [f"<{_PLACE}{i}>" for i in range(int(place.max()) + 1)]
    with places.open("w", encoding="utf-8") as file:
        file.writelines(f'{room} <{PLACE_NAME}> "Group {i}" .\n' for i, room in enumerate(rooms))
    participants = np.unique(person)
    prolific = [name for name, _ in written.most_common(len(participants))]
    chosen = np.random.default_rng(seed).permutation(len(prolific)).tolist()
    identities = [f"<{_AUTHOR}{number[prolific[k]]}>" for k in chosen]
    write_locations(stream, identities, np.searchsorted(participants, person), rooms, place, times)
    return SharedFiles(static, places, stream, len(written), len(citations), len(participants), len(times))


def _bibliography(papers: list[Paper], citations: list[tuple[str, str]], number: dict[str, int]) -> Iterator[str]:
    """The lines of the static data; ``dc:creator`` is in both directions (SEMANTICS §6)."""
    for name, i in number.items():
        yield f'<{_AUTHOR}{i}> <{NAME}> "{escape(name)}" .\n'
    for paper in papers:
        yield f'<{_PAPER}{paper.id}> <{TITLE}> "{escape(paper.title)}" .\n'
        yield f'<{_PAPER}{paper.id}> <{ISSUED}> "{paper.year}"^^<{XSD}gYear> .\n'
        for name in paper.authors:
            yield f"<{_PAPER}{paper.id}> <{CREATOR}> <{_AUTHOR}{number[name]}> .\n"
            yield f"<{_AUTHOR}{number[name]}> <{CREATOR}> <{_PAPER}{paper.id}> .\n"
    for citing, cited in citations:
        yield f"<{_PAPER}{citing}> <{REFERENCES}> <{_PAPER}{cited}> .\n"
