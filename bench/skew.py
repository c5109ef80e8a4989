"""Skew within one delta: a triangle query in which the best first join differs between the rows of each delta.

People enter rooms; a person works on topics, and a room treats topics. In the triangle (person, room, topic) either side can be
joined first, and the other then checks (Ngo, Ré, Rudra 2013, *Skew strikes back*: a triangle needs heavy and light values
processed separately). Most people work on a few topics and are in halls that treat many; a few *hubs* work on hundreds, and meet
in small rooms. So one order is best for most rows of every delta and very expensive for the others. Brute force over the
generated data gives the possible savings of splitting. Plans have no multiway joins here, with which the deltas need no split
(``cyclic.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.local import check_same, load, prepare, rows_produced
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.bench.social import PLACES_GRAPH, START, STREAM, write_locations
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.plans import parse_plans
from cqels_opt.rdf.static import StaticSource
from cqels_opt.windows.batch_size import BatchSize

SEED = 1
PEOPLE, ROOMS, TOPICS = 10_000, 200, 2_000
WORKS_ON = "http://example.org/worksOn"
TREATS = "http://example.org/treats"
_PERSON, _ROOM, _TOPIC = "http://example.org/person/", "http://example.org/room/", "http://example.org/topic/"

QUERY = f"""
PREFIX loc: <http://deri.org/ns/loc#>
SELECT ?person ?room ?topic
FROM NAMED <{STREAM}> [NOW] AS ?now
WHERE {{
  GRAPH ?now {{?person loc:at ?room}}
  GRAPH <{PLACES_GRAPH}> {{?room <{TREATS}> ?topic}}
  ?person <{WORKS_ON}> ?topic.
}}
"""

MODES: Mapping[str, PlannerOptions] = {
    "adaptive": PlannerOptions(multiway=False),
    "one plan a delta": PlannerOptions(split=False, multiway=False),
    "person first": PlannerOptions("fixed", parse_plans("now: now » worksOn[?person] » treats[?room ?topic]")),
    "room first": PlannerOptions("fixed", parse_plans("now: now » treats[?room] » worksOn[?person ?topic]")),
}
"""The contenders by plan mode."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Meeting:
    """The generated visits. ``topics`` has the distinct (person, topic) pairs, ``programme`` the distinct (room, topic) pairs."""

    people: int
    rooms: int
    topics: tuple[Ints, Ints]
    programme: tuple[Ints, Ints]
    person: Ints
    room: Ints
    hub: NDArray[np.bool_]
    hall: NDArray[np.bool_]


def meeting(
    seed: int, *, people: int, rooms: int, topics: int, elements: int, hubs: float = 0.05, strays: float = 0.1
) -> Meeting:
    """Generates people, rooms, topics and visits.

    A share ``hubs`` of the people works on a fifth of all topics, the others on four; half of the rooms are halls that treat a
    fiftieth of them, the others four. A share ``strays`` of the elements is a hub in a hall, or another person in a small room.
    """
    random = np.random.default_rng(seed)
    hub = np.arange(people) < round(hubs * people)
    hall = np.arange(rooms) < rooms // 2
    works = _pairs(random, np.where(hub, topics / 5, 4), topics)
    treats = _pairs(random, np.where(hall, topics / 50, 4), topics)
    person = random.integers(0, people, elements)
    in_hall = ~hub[person] ^ (random.random(elements) < strays)
    room = np.where(in_hall, random.integers(0, rooms // 2, elements), random.integers(rooms // 2, rooms, elements))
    return Meeting(people, rooms, works, treats, person, room, hub[person], in_hall)


def _pairs(random: np.random.Generator, expected: NDArray[np.float64], topics: int) -> tuple[Ints, Ints]:
    """Distinct (owner, topic) pairs; their number per owner is Poisson distributed, at least one."""
    owner = np.repeat(np.arange(len(expected)), np.maximum(1, random.poisson(expected)))
    distinct = np.unique(owner * topics + random.integers(0, topics, len(owner)))
    return distinct // topics, distinct % topics


@dataclass(frozen=True, slots=True)
class Hops:
    """For each element, by brute force: the rows of either first hop, and the answers."""

    by_person: Ints
    by_room: Ints
    answers: Ints

    def rows(self, chosen: NDArray[np.bool_]) -> int:
        """The rows of all operators if the elements ``chosen`` join the person first and the others the room."""
        return int(np.where(chosen, self.by_person, self.by_room).sum() + self.answers.sum())


def hops(world: Meeting) -> Hops:
    """Computed from the generated pairs, without the engine."""
    of_person, of_room = _sets(world.topics, world.people), _sets(world.programme, world.rooms)
    both = list(zip(world.person.tolist(), world.room.tolist()))
    return Hops(
        np.array([len(of_person[p]) for p, _ in both], np.int64),
        np.array([len(of_room[r]) for _, r in both], np.int64),
        np.array([len(of_person[p] & of_room[r]) for p, r in both], np.int64),
    )


def _sets(pairs: tuple[Ints, Ints], owners: int) -> list[set[int]]:
    found: list[set[int]] = [set() for _ in range(owners)]
    for owner, topic in zip(*(side.tolist() for side in pairs)):
        found[owner].add(topic)
    return found


def write(world: Meeting, folder: Path, rate: float) -> tuple[Path, Path, Path]:
    """Writes the static file, the file of the graph of places, and the stream."""
    static, places, stream = folder / "static.nt", folder / "places.nt", folder / "stream.parquet"
    for file, subject, predicate, pairs in (
        (static, _PERSON, WORKS_ON, world.topics),
        (places, _ROOM, TREATS, world.programme),
    ):
        lines = (f"<{subject}{a}> <{predicate}> <{_TOPIC}{b}> .\n" for a, b in zip(*(side.tolist() for side in pairs)))
        file.write_text("".join(lines), encoding="utf-8")
    times = START + (np.arange(len(world.person)) * 1000 / rate).astype(np.int64)
    people, rooms = ([f"<{base}{i}>" for i in range(n)] for base, n in ((_PERSON, world.people), (_ROOM, world.rooms)))
    write_locations(stream, people, world.person, rooms, world.room, times)
    return static, places, stream


def study(quick: bool) -> dict[str, Any]:
    """The rows of each contender, and of the best splits by brute force: by class of elements, and element by element."""
    elements, batch = (8_000, 4_000) if quick else (40_000, 4_000)
    world = meeting(SEED, people=PEOPLE, rooms=ROOMS, topics=TOPICS, elements=elements)
    with scratch_folder() as folder:
        static, places, stream = write(world, folder, 1000.0)
        store = load(folder / "store", [StaticSource(static), StaticSource(places, PLACES_GRAPH)])
        query = prepare("skew", QUERY, store, {STREAM: stream}, folder / "skew", BatchSize(count=batch))
        runs = [query.run(name, mode) for name, mode in MODES.items()]
    check_same(runs)
    counted = hops(world)
    rows = {run.name: rows_produced(run.records) for run in runs}
    rows["ideal by class"] = counted.rows(_by_class(world, counted))
    rows["ideal by element"] = counted.rows(counted.by_person < counted.by_room)
    single = min(rows["person first"], rows["room first"])
    splits = sum(" | " in delta.plan for record in runs[0].records for delta in record.deltas)
    return {
        "seed": SEED,
        "elements": elements,
        "batch": batch,
        "hubs": float(world.hub.mean()),
        "answers": runs[0].answers,
        "batches": len(runs[0].records),
        "split": splits,
        "rows": rows,
        "ratios": {
            "best single plan / ideal by class": single / rows["ideal by class"],
            "one plan a delta / adaptive": rows["one plan a delta"] / rows["adaptive"],
            "adaptive / ideal by class": rows["adaptive"] / rows["ideal by class"],
        },
    }


def _by_class(world: Meeting, counted: Hops) -> NDArray[np.bool_]:
    """The elements that join the person first, if each class (hub or not, hall or not) uses its better plan."""
    chosen = np.zeros(len(world.person), bool)
    for hub, hall in product((True, False), repeat=2):
        members = (world.hub == hub) & (world.hall == hall)
        chosen[members] = counted.by_person[members].sum() < counted.by_room[members].sum()
    return chosen


def show(found: Mapping[str, Any]) -> None:
    """A study as a table."""
    title = f"Skew inside each delta of {found['batch']:,} elements, {found['hubs']:.0%} of them hubs: rows of all operators"
    shown = table("plans", *numbers("rows", "over the ideal by class"), title=title)
    for name, rows in found["rows"].items():
        shown.add_row(name, f"{rows:,}", f"{rows / found['rows']['ideal by class']:.2f}×")
    screen = console()
    screen.print(shown)
    screen.print(f"{found['split']} of {found['batches']} deltas were split")
    screen.print(", ".join(f"{name} {ratio:.2f}×" for name, ratio in found["ratios"].items()))
