"""Random queries over static data that are updated between batches, and what the independent evaluation says of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from local_run import Cut, Registered, force_plans, register
from random_cases import Case, Maker

from cqels_opt.lod.update import update
from cqels_opt.operators import population
from cqels_opt.operators.driver import Driver
from cqels_opt.operators.local import LocalRunner, LocalSink
from cqels_opt.operators.population import Population
from cqels_opt.operators.profile import Meaning
from cqels_opt.operators.registration import Programs
from cqels_opt.operators.sharing import Member
from cqels_opt.rdf.quads import Quad
from cqels_opt.rdf.static import StaticSource
from cqels_opt.verify import Refreshed, Verdict, judge

LIMITLESS = 1 << 40


@dataclass
class Living:
    """A run of one query over a store that may be updated; ``later`` says what counted from which instant on."""

    case: Case
    how: Cut
    folder: Path

    def __post_init__(self) -> None:
        self.source: Registered = register(self.case.query(), self.case.world, self.folder / "source", self.case.settings)
        settings = self.source.settings
        operator: Any = settings.operator
        self.member = Member(
            "q", self.source.query, Meaning(settings.report, operator, settings.duplicates), None, LIMITLESS, {"id": "q"}
        )
        self.store = self.source.folder / "store"
        self.held: set[Quad] = {(*t, None) for t in self.case.world.default}
        self.held |= {(*t, f"<{g}>") for g, ts in self.case.world.graphs.items() for t in ts}
        self.later: list[Refreshed] = []
        self.updates = 0
        self.sink = LocalSink()
        self.rng = random.Random(self.how.seed)
        self.driver = self.opened()

    def opened(self) -> Driver:
        """A driver over the checkpoint, new or not; the store's newest version is what is opened."""
        made = self.source.driver(self.how, folder=self.folder / "unused" / str(self.source.runs))
        there = Population([self.member], self.folder / "state", Programs(version_of(self.store), self.folder / "queries"))
        runner = LocalRunner(self.how.split)
        return Driver(self.folder / "state", there.programs(), runner, self.sink, made.frontier, made.options, population=there)

    def update(self, gone: Sequence[Quad], come: Sequence[Quad]) -> None:
        """The next batch finds other static data; they count from the first instant that is not final yet."""
        files = []
        for name, quads in (("gone", gone), ("come", come)):
            path = self.folder / f"{name}-{self.updates}.nq"
            path.write_text("".join(f"{' '.join(term for term in quad if term)} .\n" for quad in quads), encoding="utf-8")
            files.append([StaticSource(path)])
        update(self.store, files[1], files[0], durable=False)
        self.updates += 1
        self.held = (self.held - {*gone}) | {*come}

    def batch(self, number: int, rows: Any) -> None:
        """One batch, which takes up what has been updated; plans by lot where the cut says so."""
        if self.how.plan == "random":
            force_plans(self.driver, self.rng)
        at, was = self.driver.frontier.value + 1, self.version
        self.driver.batch(number, rows)
        if self.version != was:
            self.later = [version for version in self.later if version.at < at]  # the batch may have been done before
            default = [(s, p, o) for s, p, o, g in sorted(self.held, key=str) if g is None]
            graphs = {name: [] for name in self.case.world.graphs} | {str(g).strip("<>"): [] for *_, g in self.held if g}
            for s, p, o, g in sorted(self.held, key=str):
                if g is not None:
                    graphs[g.strip("<>")].append((s, p, o))
            self.later.append(Refreshed(at, default, graphs))

    @property
    def version(self) -> int:
        """The number of the version that the run works with."""
        assert self.driver.population is not None
        return self.driver.population.living.current.number

    def judged(self) -> Verdict:
        """What the independent evaluation says of the answers."""
        inputs = replace(self.case.world.inputs(self.case.settings.lateness), later=tuple(self.later))
        return judge(self.source.query, inputs, self.source.settings.options, self.source.answers(self.sink.lines))


def version_of(store: Path) -> Path:
    """The newest version of a store."""
    from cqels_opt.lod.versions import version_at

    return Path(version_at(store).place)


def changes(maker: Maker, held: set[Quad], rng: random.Random, kinds: Callable[[], list[Quad]]) -> tuple[list[Quad], list[Quad]]:
    """Some triples that go, and some that come; blank nodes have no names in files."""
    there = [quad for quad in sorted(held, key=str) if not any(str(term).startswith("_:") for term in quad)]
    gone = [quad for quad in there if rng.random() < rng.choice([0, 0.1, 0.5])]
    come = [quad for quad in kinds() if not any(str(term).startswith("_:") for term in quad)]
    return gone, come


def patched(monkeypatch: pytest.MonkeyPatch, living: Living) -> None:
    """Queries of random cases are not read from their texts, which do not say all."""
    monkeypatch.setattr(population, "member_of", lambda record: living.member)
