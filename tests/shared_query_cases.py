"""Random queries that differ in constants only, as members of a run: made from the random cases, with other constants of the same types."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from local_runs import Cut, Registered, Settings, World, force_plans, register
from random_cases import MIXED, NUMBERS, PEOPLE, PLACES, Case, Maker, make

from cqels_opt.compiler.dialect_profile import QuerySemantics
from cqels_opt.compiler.multi_query_sharing import Member
from cqels_opt.compiler.registration import Programs
from cqels_opt.query.outlines import Outline, filled, outline
from cqels_opt.runtime import query_catalog
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.query_catalog import QueryCatalog

POOLS = (PEOPLE, PLACES, NUMBERS, MIXED)
LIMITLESS = 1 << 40


@dataclass
class Alike:
    """Queries of one outline over the world of a case."""

    case: Case
    members: list[Member]
    settings: Settings

    def member(self, name: str) -> Member:
        """The query of a name."""
        return next(member for member in self.members if member.id == name)


def alike(seed: int, number: int, maker: Callable[[int], Maker] | None = None) -> Alike:
    """So many queries that differ in constants: of the first case, from this one on by the thousand, whose query need not be on its own."""
    rng, case = random.Random(seed), make(seed, maker)
    query = case.query()
    found = outline(query)
    if found is None:
        return alike(seed + 1000, number, maker)
    settings = replace(case.settings, operator=query.operator or case.settings.operator)
    operator: Any = settings.operator
    meant = QuerySemantics(settings.report, operator, settings.duplicates)
    vary = {hole for hole in range(len(found.values)) if rng.random() < 0.7}
    members = []
    for i in range(number):
        values = tuple(_other(value, rng) if hole in vary else value for hole, value in enumerate(found.values))
        alone = replace(query, body=filled(found.query, values), text=f"{seed} with {values}")
        record = {"id": f"m{i}", "text": alone.text}
        members.append(Member(f"m{i}", alone, meant, Outline(found.query, values), LIMITLESS, record))
    return Alike(case, members, settings)


def _other(value: str, rng: random.Random) -> str:
    return rng.choice(next((pool for pool in POOLS if value in pool), [value]))


class Run:
    """A run of several queries without Spark, whose queries may come and go; ``seen`` says at which frontier."""

    def __init__(self, some: Alike, started: Sequence[str], how: Cut, folder: Path, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(query_catalog, "member_of", lambda record: some.member(record["id"]))  # texts of random cases say not all
        self.some, self.how, self.folder, self.started = some, how, folder, list(started)
        self.source = register(some.members[0].query, some.case.world, folder / "source", some.settings)
        self.programs = Programs(folder / "source" / "store", folder / "queries")
        self.sink = LocalSink()
        self.rng = random.Random(how.seed)
        self.span: dict[str, tuple[int, int]] = dict.fromkeys(started, (-(1 << 62), 1 << 62))
        self.driver = self.opened()

    def opened(self) -> Driver:
        """A driver over the checkpoint, new or not."""
        made = self.source.driver(self.how, folder=self.folder / "unused" / str(self.source.runs))
        there = QueryCatalog([self.some.member(name) for name in self.started], self.folder / "state", self.programs)
        options = replace(made.options, named=True)
        runner = LocalRunner(self.how.split)
        return Driver(self.folder / "state", there.programs(), runner, self.sink, made.frontier, options, catalog=there)

    @property
    def queries(self) -> QueryCatalog:
        """Those of now."""
        assert self.driver.catalog is not None
        return self.driver.catalog

    def change(self, come: Sequence[str] = (), go: Sequence[str] = ()) -> None:
        """Queries come and go with the next batch."""
        at = self.driver.frontier.value
        if come:
            self.queries.add([self.some.member(name) for name in come])
        for name in go:
            self.queries.remove(name)
        self.span |= dict.fromkeys(come, (at, 1 << 62)) | {name: (self.span[name][0], at) for name in go}

    def batch(self, number: int, rows: Any) -> None:
        """One batch; plans by lot where the cut says so."""
        if self.how.plan == "random":
            force_plans(self.driver, self.rng)
        self.driver.batch(number, rows)

    def lines_of(self, name: str) -> Counter[str]:
        """The answers of a query, without its name."""
        said = f', "query": "{name}"'
        return Counter(line.replace(said, "", 1) for line in self.sink.lines if said in line)

    def alone(self, name: str) -> Counter[str]:
        """The answers that a query has alone, while it was there."""
        first, last = self.span[name]
        mine: Registered = register(
            self.some.member(name).query, self.some.case.world, self.folder / f"alone-{name}", self.some.settings
        )
        lines = mine.run(Cut("4")).lines
        return Counter(line for line in lines if first < _time(line) <= last)


def _time(line: str) -> int:
    return int(line.split(":", 1)[1].split(",", 1)[0])


__all__ = ["Alike", "Run", "World", "alike"]
