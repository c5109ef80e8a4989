"""Answers planted in the world of a random case: what its patterns ask for, said by elements and static triples at a few moments.

Patterns, terms and times that are drawn each by itself seldom meet, and a query without answers shows little. Here the variables get terms,
and each triple that the patterns then are goes where they look for it. What MINUS and NOT EXISTS ask for is left to chance.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate

from local_runs import Triple
from random_cases import EX, FIXED, GRAPHS, MOVING, NAMED, NUMBERS, PEOPLE, PLACES, STREAMS, VARIABLES, Case, Group, Nested, Part

from cqels_opt.verify import Element

TYPES = {**NAMED, **FIXED, **MOVING}
TERMS = {"person": PEOPLE, "place": PLACES, "number": NUMBERS, "text": ['"Ann"', '"Bob"']}
KIND_OF = {f"?{name}": kind for kind, names in VARIABLES.items() for name in names}
MOMENTS = 4


@dataclass(frozen=True)
class Place:
    """Where a pattern is matched: in a stream's window (of any stream: ""), in a static graph, or in both merged."""

    stream: str | None = None
    graph: str | None = None


@dataclass(frozen=True)
class Wanted:
    """A triple pattern, with the first predicate of a path, and where it is matched."""

    place: Place
    s: str
    p: str
    o: str


def wanted(part: Part | Group, place: Place, streams: dict[str, str]) -> Iterator[Wanted]:
    """The patterns that must, or may, be matched. ``streams`` by window."""
    if isinstance(part, Group):
        for inner in part.parts:
            yield from wanted(inner, place, streams)
    elif isinstance(part, Nested):
        if part.head.startswith(("MINUS", "FILTER NOT")):
            return
        inside = place_of(part.head, place, streams)
        for group in part.groups:
            yield from wanted(group, inside, streams)
    elif found := re.fullmatch(r"(\S+) (\S+) (\S+) \.", part):
        s, verb, o = found.groups()
        steps = re.findall(r":(\w+)", verb)
        inverse = verb.lstrip("(").startswith("^")
        yield Wanted(place, *((o, steps[0], s) if inverse else (s, steps[0] if steps else "", o)))


def place_of(head: str, place: Place, streams: dict[str, str]) -> Place:
    """Where the patterns of a group are matched that these words stand before."""
    word, _, name = head.partition(" ")
    name = name.split(" ")[0]
    if word == "STREAM":
        return Place(stream=name.lstrip(":"))
    if word == "WINDOW" or (word == "GRAPH" and name.lstrip("?:") in streams):
        return Place(stream=streams.get(name.lstrip("?:"), ""))
    if word == "GRAPH" and (place.stream is None or place.graph is not None):  # within a window it is a graph of its elements
        return Place(graph=name.lstrip(":") if name.startswith(":") else "?")
    return place


def triple(rng: random.Random, pattern: Wanted, terms: dict[str, str]) -> Triple | None:
    """The pattern with terms in the place of its variables, if that is a triple."""
    p = pattern.p or rng.choice([*MOVING])
    kinds = TYPES[p]
    s, o = (
        terms.setdefault(node, rng.choice(TERMS[KIND_OF.get(node, kind)])) if node.startswith("?") else node
        for node, kind in zip((pattern.s, pattern.o), kinds)
    )
    s, o = (rng.choice(TERMS[kind]) if node == "[]" else node for node, kind in zip((s, o), kinds))
    return None if s.startswith('"') else (s, f"<{EX}{p}>", o)


def planted(case: Case, rng: random.Random, merged: bool = False, graphs: bool = False) -> Case:
    """The case over a world with more in it.

    ``merged``: patterns are matched in windows and static data as one graph. ``graphs``: elements of several triples have names.
    """
    streams = {name: stream.removeprefix(EX) for name, stream, _ in case.windows if stream}
    named = {clause.split(":")[1].split()[0] for *_, clause in case.windows if clause.startswith("FROM NAMED STREAM")}
    streams |= {stream: stream for stream in named}
    default_graph = next((clause.removeprefix("FROM :") for *_, clause in case.windows if clause.startswith("FROM :")), "")
    everywhere = Place(next((s for s in streams.values() if s not in named), "") if merged else None, default_graph)
    patterns = list(wanted(case.body, everywhere, streams))
    files = {iri: [list(file) for file in all_] for iri, all_ in case.world.streams.items()}
    default, static = set(case.world.default), {iri: set(triples) for iri, triples in case.world.graphs.items()}
    first = min((e.t for all_ in files.values() for file in all_ for e in file), default=10_000)
    for _ in range(MOMENTS):
        terms: dict[str, str] = {}
        at, graph = first + rng.randrange(20) * 250, rng.choice(GRAPHS)
        moving: dict[str, list[Triple]] = {}
        for pattern in patterns:
            made, place = triple(rng, pattern, terms), pattern.place
            if made is None:
                continue
            if place.stream is not None and (place.graph is None or rng.random() < 0.6):
                moving.setdefault(place.stream or rng.choice([*streams.values()] or STREAMS), []).append(made)
            elif place.graph:
                static.setdefault(EX + (graph if place.graph == "?" else place.graph), set()).add(made)
            else:
                default.add(made)
        for stream, triples in moving.items():
            into = rng.choice(files[EX + stream])
            for element in elements(rng, triples, at, graphs):
                enter(into, element)
    world = replace(case.world, streams=files, default=sorted(default), graphs={iri: sorted(ts) for iri, ts in static.items()})
    return replace(case, world=world)


def elements(rng: random.Random, triples: list[Triple], at: int, graphs: bool) -> list[Element]:
    """Triples as elements of one time or nearly so, or as one element."""
    if rng.random() < 0.5:
        name = f"<{EX}planted{rng.randrange(10**6)}>" if graphs else None
        return [Element(at, tuple(dict.fromkeys(triples)), name)]
    apart = rng.choice([0, 0, 0, 100])
    return [Element(at + number * apart, (made,)) for number, made in enumerate(triples)]


def enter(file: list[Element], element: Element) -> None:
    """Puts an element where it is not late, and nothing after it becomes so."""
    latest = list(accumulate((e.t for e in file), max))
    file.insert(sum(t <= element.t for t in latest), element)
