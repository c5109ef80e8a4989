"""Random queries over static data that are updated between batches, and what the independent evaluation says of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from local_runs import Cut, Registered, Triple, force_plans, register
from random_cases import Case, Maker

from cqels_opt.compiler.dialect_profile import QuerySemantics
from cqels_opt.compiler.multi_query_sharing import Member
from cqels_opt.compiler.registration import Programs
from cqels_opt.lod.snapshots import version_at
from cqels_opt.lod.update import update
from cqels_opt.rdf.quads import Quad
from cqels_opt.rdf.static import StaticSource
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.state.commit_log import Commit
from cqels_opt.verify import Refreshed, Verdict, judge

LIMITLESS = 1 << 40


@dataclass
class Living:
    """A run of one query over a store that may be updated."""

    case: Case
    how: Cut
    folder: Path
    commit_every: float = 0.0

    def __post_init__(self) -> None:
        self.source: Registered = register(self.case.query(), self.case.world, self.folder / "source", self.case.settings)
        settings = self.source.settings
        operator: Any = settings.operator
        self.member = Member(
            "q", self.source.query, QuerySemantics(settings.report, operator, settings.duplicates), None, LIMITLESS, {"id": "q"}
        )
        self.store = self.source.folder / "store"
        self.held: set[Quad] = {(*t, None) for t in self.case.world.default}
        self.held |= {(*t, f"<{g}>") for g, ts in self.case.world.graphs.items() for t in ts}
        self.by_batch: dict[int, Refreshed] = {}
        self.contents: dict[int, set[Quad]] = {}
        self.sink = LocalSink()
        self.rng = random.Random(self.how.seed)
        self.driver = self.opened()

    def opened(self) -> Driver:
        """A driver over the checkpoint, new or not; the store's newest version is what is opened."""
        made = self.source.driver(self.how, folder=self.folder / "unused" / str(self.source.runs))
        there = QueryCatalog([self.member], self.folder / "state", Programs(version_of(self.store), self.folder / "queries"))
        runner, options = LocalRunner(self.how.split), replace(made.options, commit_every=self.commit_every)
        return Driver(self.folder / "state", there.programs(), runner, self.sink, made.frontier, options, catalog=there)

    def update(self, gone: Sequence[Quad], come: Sequence[Quad]) -> None:
        """The next batch finds other static data; they count from the first instant that is not final yet."""
        files = []
        for name, quads in (("gone", gone), ("come", come)):
            path = self.folder / f"{name}-{len(self.contents)}.nq"
            path.write_text("".join(f"{' '.join(term for term in quad if term)} .\n" for quad in quads), encoding="utf-8")
            files.append([StaticSource(path)])
        self.held = (self.held - {*gone}) | {*come}
        self.contents[update(self.store, files[1], files[0], durable=False).number] = self.held

    def batch(self, number: int, rows: Any) -> None:
        """One batch, which takes up what has been updated; plans by lot where the cut says so."""
        if self.how.plan == "random":
            force_plans(self.driver, self.rng)
        before: list[tuple[int, int]] = []

        def read() -> Any:
            before.append((self.driver.frontier.value + 1, self.version))
            return rows

        self.driver.batch(number, read)
        ((at, was),) = before
        self.by_batch.pop(number, None)  # it may have been done before
        if self.version != was:
            quads = sorted(self.contents[self.version], key=str)
            graphs: dict[str, list[Triple]] = {name: [] for name in self.case.world.graphs}
            for s, p, o, g in quads:
                if g is not None:
                    graphs.setdefault(g.strip("<>"), []).append((s, p, o))
            self.by_batch[number] = Refreshed(at, [(s, p, o) for s, p, o, g in quads if g is None], graphs)

    def killed(self, number: int, rows: Any) -> None:
        """A batch that dies before it is committed; another process continues over the checkpoint."""

        def die(commit: Commit) -> None:
            raise KeyboardInterrupt

        self.driver.log.write = die  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            self.driver.batch(number, rows)
        self.driver = self.opened()

    @property
    def later(self) -> tuple[Refreshed, ...]:
        """What counted from which instant on."""
        return tuple(self.by_batch[number] for number in sorted(self.by_batch))

    @property
    def version(self) -> int:
        """The number of the version that the run works with."""
        assert self.driver.catalog is not None
        return self.driver.catalog.store_versions.current.number

    def judged(self) -> Verdict:
        """What the independent evaluation says of the answers."""
        inputs = replace(self.case.world.inputs(self.case.settings.lateness), later=self.later)
        return judge(self.source.query, inputs, self.source.settings.options, self.source.answers(self.sink.lines))


def version_of(store: Path) -> Path:
    """The newest version of a store."""
    return Path(version_at(store).place)


def changes(maker: Maker, held: set[Quad], rng: random.Random, kinds: Callable[[], list[Quad]]) -> tuple[list[Quad], list[Quad]]:
    """Some triples that go, and some that come; blank nodes have no names in files."""
    there = [quad for quad in sorted(held, key=str) if not any(str(term).startswith("_:") for term in quad)]
    gone = [quad for quad in there if rng.random() < rng.choice([0, 0.1, 0.5])]
    come = [quad for quad in kinds() if not any(str(term).startswith("_:") for term in quad)]
    return gone, come
