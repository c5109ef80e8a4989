"""A growing stream for which materializing a static join pays off: members of a club that the arriving people follow.

Everybody follows many people, and few of them are in the club. Compiled by sizes alone both relations stay separate: their join
drops no variable and has more rows than the club. While few people arrive that is right. For a crowd, either all followed people
are looked up in the club, or the join is built in every batch; materialized once, it is one probe (CQELS report, §4.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.local import Ran, check_same, load, prepare, rows_produced
from cqels_opt.bench.screen import console, numbers, table
from cqels_opt.bench.social import START, STREAM, write_locations
from cqels_opt.planner.calibration_store import Calibration
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.plans import Constants
from cqels_opt.rdf.static import StaticSource
from cqels_opt.windows.batch_size import BatchSize

SEED = 1
FOLLOWS, MEMBER = "http://example.org/follows", "http://example.org/memberOf"
CLUB = "http://example.org/club"
_PERSON, _PLACE = "http://example.org/person/", "http://example.org/place/"
SECOND = 1_000  # milliseconds per batch

QUERY = f"""
PREFIX loc: <http://deri.org/ns/loc#>
SELECT ?person ?followed
FROM NAMED <{STREAM}> [NOW] AS ?now
WHERE {{
  GRAPH ?now {{?person loc:at ?place}}
  ?person <{FOLLOWS}> ?followed.
  ?followed <{MEMBER}> <{CLUB}>.
}}
"""

MODES = ("adaptive", "as compiled")
SLOWER = 20
"""The simulated slowdown of the machine for small data, on which writing a file would otherwise never pay off."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Crowd:
    """Who follows whom, the club's members, and the arrivals: first a ``trickle`` of batches, then ``crowd`` batches."""

    people: int
    follows: tuple[Ints, Ints]
    members: Ints
    person: Ints
    times: Ints
    trickle: int
    crowd: int


def crowd(seed: int, *, people: int, friends: int, share: float, trickle: tuple[int, int], crowd: tuple[int, int]) -> Crowd:
    """``friends`` per person, a ``share`` of the people in the club; ``trickle`` and ``crowd``: (batches, elements per batch)."""
    random = np.random.default_rng(seed)
    owner = np.repeat(np.arange(people), friends)
    distinct = np.unique(owner * people + random.integers(0, people, len(owner)))
    members = np.sort(random.choice(people, round(share * people), replace=False))
    sizes = [trickle[1]] * trickle[0] + [crowd[1]] * crowd[0]
    times = np.concatenate([START + SECOND * i + np.arange(size) * SECOND // size for i, size in enumerate(sizes)])
    person = random.integers(0, people, len(times))
    return Crowd(people, (distinct // people, distinct % people), members, person, times, trickle[0], crowd[0])


def write(world: Crowd, folder: Path) -> tuple[Path, Path]:
    """Writes the static file and the stream."""
    static, stream = folder / "static.nt", folder / "stream.parquet"
    pairs = zip(*(side.tolist() for side in world.follows))
    lines = [f"<{_PERSON}{a}> <{FOLLOWS}> <{_PERSON}{b}> .\n" for a, b in pairs]
    lines += [f"<{_PERSON}{a}> <{MEMBER}> <{CLUB}> .\n" for a in world.members.tolist()]
    static.write_text("".join(lines), encoding="utf-8")
    people, places = [f"<{_PERSON}{i}>" for i in range(world.people)], [f"<{_PLACE}0>"]
    write_locations(stream, people, world.person, places, np.zeros(len(world.person), np.int64), world.times)
    return static, stream


def made_rows(world: Crowd) -> int:
    """The number of rows of the sub-result, by brute force: pairs whose followed person is in the club."""
    return int(np.isin(world.follows[1], world.members).sum())


def study(quick: bool) -> dict[str, Any]:
    """The rows and estimated costs of both modes before and after the change, and the prior statistics of the sub-result."""
    people, friends, share = (5_000, 20, 0.02) if quick else (20_000, 30, 0.02)
    world = crowd(SEED, people=people, friends=friends, share=share, trickle=(20, 20), crowd=(90 if quick else 120, 2_000))
    slow = {f.name: (SLOWER if quick else 1) * getattr(Constants(), f.name) for f in fields(Constants)}
    with scratch_folder() as folder:
        static, stream = write(world, folder)
        store = load(folder / "store", [StaticSource(static)])
        query = prepare("club", QUERY, store, {STREAM: stream}, folder / "club", BatchSize(duration=SECOND))
        modes = [PlannerOptions(view_selection=name == "adaptive", calibration=Calibration(Constants(**slow))) for name in MODES]
        runs = [query.run(name, mode) for name, mode in zip(MODES, modes)]
    check_same(runs)
    changes = [(record.batch, change) for record in runs[0].records for change in record.sub_results]
    return {
        "seed": SEED,
        "people": people,
        "follows": len(world.follows[0]),
        "members": len(world.members),
        "elements": len(world.times),
        "answers": runs[0].answers,
        "rows of the sub-result": made_rows(world),
        "changes": [{"batch": batch, **change.to_json()} for batch, change in changes],
        "phases": [_phase(name, runs, span) for name, span in _phases(world, [batch for batch, _ in changes])],
    }


def _phases(world: Crowd, changed: list[int]) -> list[tuple[str, range]]:
    end = world.trickle + world.crowd
    first = changed[0] if changed else end
    spans = [("trickle", range(world.trickle)), ("crowd", range(world.trickle, first)), ("crowd, after", range(first, end))]
    return [(name, span) for name, span in spans if span]


def _phase(name: str, runs: list[Ran], span: range) -> dict[str, Any]:
    """Rows and estimated seconds per batch; the plan of the last batch."""
    found: dict[str, Any] = {"phase": name, "batches": len(span)}
    for run in runs:
        records = [record for record in run.records if record.batch in span]
        seconds = [sum(delta.cost or 0.0 for delta in record.deltas) for record in records]
        rows, plan = rows_produced(records), "; ".join(delta.plan for delta in records[-1].deltas)
        found[run.name] = {"rows": rows / len(span), "seconds": sum(seconds) / len(span), "plan": plan}
    return found


def show(found: Mapping[str, Any]) -> None:
    """A study as a table."""
    title = f"{found['follows']:,} pairs who follow, {found['members']:,} members: rows of all operators per batch"
    shown = table("phase", *numbers("batches"), "mode", *numbers("rows", "estimated ms"), "plan", title=title)
    for phase in found["phases"]:
        for mode in MODES:
            one = phase[mode]
            cells = (f"{one['rows']:,.0f}", f"{1000 * one['seconds']:.2f}", one["plan"])
            shown.add_row(phase["phase"], str(phase["batches"]), mode, *cells)
    screen = console()
    screen.print(shown)
    for change in found["changes"]:
        screen.print(
            f"batch {change['batch']}: {', '.join(change['was'])} -> {', '.join(change['is'])}; a batch costs "
            f"{1000 * change['cost']:.2f} ms, priced at {1000 * change['price']:.2f} ms; saved {1000 * change['saved']:.0f} ms"
        )
