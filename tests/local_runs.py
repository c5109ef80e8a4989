"""Queries on the engine without Spark: files are cut as a replay cuts them, and each chunk is a micro-batch of the driver.

:func:`register` compiles a query over static data once; :meth:`Registered.run` then runs it, with any cut, plan and number of shares.
:func:`expected` is the independent evaluation of the same world.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cqels_opt.compiler.block_builder import PAGE
from cqels_opt.compiler.compile import Compiler
from cqels_opt.lod.build import build_store
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.evaluation_step import EvaluationStep
from cqels_opt.operators.term_table import TermTable
from cqels_opt.planner.background_jobs import Start, at_once
from cqels_opt.planner.block_planner import BlockPlanner
from cqels_opt.planner.delta_plan import DeltaPlan
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.plans import Cut as Threshold
from cqels_opt.plans import DeltaRule, Multiway, Plan, QueryGraph, Scan, Split, parse_plans
from cqels_opt.plans.cycles import multiway_keys
from cqels_opt.plans.plan import join_plans, relation_set
from cqels_opt.plans.view_selection import neighbours
from cqels_opt.query.algebra import Query
from cqels_opt.query.parser import parse
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.file_streams import finite_frontier
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.run_state import Background, DriverOptions
from cqels_opt.state.commit_log import Commit, CommitLog
from cqels_opt.state.run_identity import ANONYMOUS, Identity
from cqels_opt.storage.compaction_policy import CompactionPolicy
from cqels_opt.trace.records import OperatorRecord, TraceRecord
from cqels_opt.verify import Answers, Element, Inputs, Options, Verdict, drop_late, judge, read_answers
from cqels_opt.windows.batch_size import BatchSize
from cqels_opt.windows.binding_slots import SlotFile
from cqels_opt.windows.element_rows import ELEMENT_ROWS
from cqels_opt.windows.instants import Policy, Report
from cqels_opt.windows.intervals import FOREVER
from cqels_opt.windows.replay import ReplayPlan, ReplaySource, cut

Triple = tuple[str, str, str]


def most_merged(tiers: CompactionPolicy, total: int) -> int:
    """The most merged files of ``total`` rows once nothing is due: two neighbours exceed the cap, or one is twice the other."""
    return 2 * -(-total // tiers.cap(total)) + tiers.cap(total).bit_length() + 1


def bare(iri: str) -> str:
    return iri.removeprefix("<").removesuffix(">")


@dataclass(frozen=True)
class World:
    """What a query reads. ``streams``: the files of each stream by its bare IRI, elements in order of arrival, late ones included."""

    streams: Mapping[str, Sequence[Sequence[Element]]]
    default: list[Triple] = field(default_factory=list)
    graphs: Mapping[str, list[Triple]] = field(default_factory=dict)

    def inputs(self, lateness: int = 0) -> Inputs:
        """For the independent evaluation: without the late elements, and with labels of blank nodes that are told apart."""
        kept = {
            iri: [_relabelled(e, f"s{number}") for file in files for e in drop_late(file, lateness)]
            for number, (iri, files) in enumerate(self.streams.items())
        }
        return Inputs(kept, self.default, self.graphs)


def _relabelled(element: Element, scope: str) -> Element:
    triples = tuple((_scoped(s, scope), p, _scoped(o, scope)) for s, p, o in element.triples)
    return replace(element, triples=triples)


def _scoped(term: str, scope: str) -> str:
    return f"_:{scope}{term[2:]}" if term.startswith("_:") else term


@dataclass(frozen=True)
class Settings:
    """How answers are put out. ``policies`` and ``t0`` are by window name, ``""`` for all."""

    operator: str = "istream"
    policies: Mapping[str, str] = field(default_factory=lambda: {"": "cc"})
    t0: Mapping[str, int] = field(default_factory=dict)
    drain: bool = False
    lateness: int = 0
    duplicates: Literal["bag", "set"] = "bag"

    @property
    def report(self) -> Report:
        """For the engine."""
        by_window = {w: _policy(p) for w, p in self.policies.items() if w}
        return Report(_policy(self.policies.get("", "cc")), by_window, self.t0)

    @property
    def options(self) -> Options:
        """For the independent evaluation."""
        by_window = {w: p for w, p in self.policies.items() if w}
        t0s = {w: t for w, t in self.t0.items() if w}
        operator: Any = self.operator
        return Options(self.policies.get("", "cc"), by_window, operator, self.duplicates, self.t0.get("", 0), t0s, self.drain)


def _policy(text: str) -> Policy:
    words = set(text.split(","))
    period = next((int(w[2:]) for w in words if w.startswith("p:")), 0)
    return Policy.named(words, period)


MANY_MERGES = CompactionPolicy(files=2, rows=6, share=4)


@dataclass(frozen=True)
class Cut:
    """One way to run: the cut into batches, the plans, and the shares of each delta. ``plan`` "random": other plans each batch."""

    batch: str = "7"
    plan: str = "adaptive"
    split: int = 1
    parts: int | None = None
    seed: int = 0
    tiers: CompactionPolicy = MANY_MERGES
    commit_every: float = 0.0

    @property
    def size(self) -> BatchSize:
        """``7`` elements, or ``500ms``."""
        if self.batch.endswith("ms"):
            return BatchSize(duration=int(self.batch.removesuffix("ms")))
        return BatchSize(count=int(self.batch))


def commit_records(patch: pytest.MonkeyPatch) -> list[int]:
    """The batches whose commit records are written from now on, in this order."""
    written: list[int] = []
    write = CommitLog.write

    def noted(log: CommitLog, state: Commit) -> None:
        written.append(state.batch)
        write(log, state)

    patch.setattr(CommitLog, "write", noted)
    return written


@dataclass
class Outcome:
    """What a run put out."""

    answers: Answers
    records: list[TraceRecord]
    driver: Driver
    lines: list[str]


@dataclass
class Registered:
    """A query over a world, compiled. ``folder`` has the static data; streams and state lie below ``state``, or there as well."""

    query: Query
    world: World
    settings: Settings
    program: CompiledProgram
    folder: Path
    runs: int = 0
    state: Path | None = None

    @property
    def below(self) -> Path:
        """Where streams and state lie."""
        return self.state or self.folder

    def over(self, streams: Mapping[str, Sequence[Sequence[Element]]], state: Path) -> Registered:
        """The same query over other streams, whose files and state lie below ``state``."""
        return replace(self, world=replace(self.world, streams=streams), runs=0, state=state)

    def replay(self, cut_: Cut) -> ReplayPlan:
        """The chunks of a cut, made once."""
        sources = []
        for number, stream in enumerate(self.program.streams):
            files = self.world.streams[bare(stream)]
            paths = tuple(self.below / f"stream{number}-{i}.ndjson" for i in range(len(files)))
            for path, elements in zip(paths, files):
                if not path.exists():
                    write_stream(path, elements)
            sources.append(ReplaySource(stream, paths))
        return cut(sources, self.below / f"replay-{cut_.batch}", cut_.size, self.settings.lateness)

    def driver(
        self,
        how: Cut = Cut(),
        folder: Path | None = None,
        runner: Any = None,
        sink: Any = None,
        identity: Identity = ANONYMOUS,
        changed: bool = False,
        trace: Any = None,
        waiting: Any = None,
        compaction_start: Start = at_once,
    ) -> Driver:
        """A driver over a new state folder (or over one that is there)."""
        self.runs += 1
        plan = self.replay(how)
        pages = self.folder / "static" / PAGE
        return Driver(
            folder or self.below / f"state-{self.runs}",
            [self.program],
            runner or LocalRunner(how.split),
            sink or LocalSink(),
            finite_frontier(plan, self.settings.lateness, eager=False),
            DriverOptions(
                drain=self.settings.drain,
                plan=_mode(how.plan),
                parts=how.parts,
                tiers=how.tiers,
                continue_changed=changed,
                waiting=waiting,
                commit_every=how.commit_every,
            ),
            identity,
            pages=[SlotFile("terms", str(pages), greatest=int(FOREVER))] if pages.exists() else [],
            trace=trace,
            background=Background(compaction=compaction_start),
        )

    def chunks(self, how: Cut) -> list[pa.Table]:
        """The rows of each micro-batch."""
        plan = self.replay(how)
        return [pq.read_table(plan.path(number)).cast(ELEMENT_ROWS) for number in range(len(plan.chunks))]

    def run(self, how: Cut = Cut()) -> Outcome:
        """Runs the query from beginning to end."""
        sink = LocalSink()
        driver = self.driver(how, sink=sink)
        rng = random.Random(how.seed)
        records: list[TraceRecord] = []
        for number, rows in enumerate(self.chunks(how)):
            if how.plan == "random":
                force_plans(driver, rng)
            records += driver.batch(number, rows)
        return Outcome(self.answers(sink.lines), records, driver, sink.lines)

    def answers(self, lines: Sequence[str]) -> Answers:
        """The answers of lines, which must be in order of time."""
        path = self.below / "answers.jsonl"
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return read_answers(path)

    def judged(self, got: Answers) -> Verdict:
        """What the independent evaluation says of answers."""
        return judge(self.query, self.world.inputs(self.settings.lateness), self.settings.options, got)


def register(query: Query | str, world: World, folder: Path, settings: Settings = Settings()) -> Registered:
    """Loads the static data and compiles the query."""
    parsed = parse(query) if isinstance(query, str) else query
    if parsed.operator is not None:
        settings = replace(settings, operator=parsed.operator)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "store").exists():
        quads = [(*t, None) for t in world.default] + [(*t, f"<{g}>") for g, ts in world.graphs.items() for t in ts]
        build_store(folder / "store", quads)
    (folder / "static").mkdir(exist_ok=True)
    operator: Any = settings.operator
    program = Compiler(parsed, str(folder / "store"), folder / "static", settings.report, settings.duplicates == "set").compile(
        "q", operator
    )
    return Registered(parsed, world, settings, program, folder)


def write_stream(path: Path, elements: Sequence[Element]) -> None:
    """Elements as rows; one of several triples is a graph."""
    with path.open("w", encoding="utf-8") as file:
        for number, element in enumerate(elements):
            graph = {"g": element.graph or f"<urn:element:{number}>"} if element.graph or len(element.triples) > 1 else {}
            for s, p, o in element.triples:
                file.write(json.dumps({"s": s, "p": p, "o": o, "t": element.t, **graph}, ensure_ascii=False) + "\n")


def _mode(plan: str) -> PlannerOptions:
    if plan.startswith("fixed:"):
        return PlannerOptions("fixed", parse_plans(plan.removeprefix("fixed:")))
    return PlannerOptions(
        "adaptive" if plan == "random" else plan, sampling_seconds=0.0
    )  # joins are sampled, however small the world


# ------------------------------------------------------------------ plans by lot
def random_plan(rng: random.Random, graph: QueryGraph, source: str) -> Plan:
    """Any join tree that begins with the delta source: left-deep or bushy, with or without cross products and multiway joins."""
    parts: list[Plan] = [Scan(r.name) for r in graph.relations if r.name != source]
    rng.shuffle(parts)
    parts.insert(0, Scan(source))
    while len(parts) > 1:
        if closing := _closing(rng, graph, parts):
            parts = closing
            continue
        left = 0 if rng.random() < 0.6 else rng.randrange(len(parts))
        right = rng.choice([i for i in range(1, len(parts)) if i != left] or [1])
        a, b = parts[left], parts[right]
        sets = relation_set(a, graph), relation_set(b, graph)
        if left == right or not graph.fits(*sets):
            continue
        joined = join_plans(a, b, graph.shared(*sets))
        parts[left] = joined
        del parts[right]
    return parts[0]


def _closing(rng: random.Random, graph: QueryGraph, parts: list[Plan]) -> list[Plan] | None:
    """The parts after a multiway join of one of them with single relations; None by lot, or if none closes a cycle."""
    alone = [part for part in parts[1:] if isinstance(part, Scan)]
    choices = [(part, some) for part in parts for size in (2, 3) for some in combinations(alone, size) if part not in some]
    rng.shuffle(choices)
    for part, some in choices if rng.random() < 0.5 else ():
        keys = multiway_keys(graph, relation_set(part, graph), graph.set_of(scan.relation for scan in some))
        if keys is not None:
            return [Multiway.of(other, keys) if other == part else other for other in parts if other not in some]
    return None


def random_split(rng: random.Random, graph: QueryGraph, source: str) -> Split | None:
    """Now and then two plans, for rows with few and with many matches in some relation that the delta joins with."""
    own = graph.relations[graph.index[source]].variables
    cuts = [(r.name, v) for r in graph.relations if r.name != source for v in sorted(r.variables & own)]
    if not cuts or rng.random() < 0.7:
        return None
    few, many = (random_plan(rng, graph, source) for _ in range(2))
    return Split(few, Threshold(*rng.choice(cuts), rng.randint(0, 3)), many)


def force_plans(driver: Driver, rng: random.Random) -> None:
    """Makes the planners choose by lot: plans, and the order of the delta sources."""
    for planner in driver.planners.values():
        for block in planner.blocks.values():
            block.choose = _by_lot(block, rng)  # type: ignore[method-assign]


def _by_lot(block: BlockPlanner, rng: random.Random) -> Callable[[EvaluationStep | None, TermTable | None], None]:
    def choose(step: EvaluationStep | None, terms: TermTable | None) -> None:
        BlockPlanner.choose(block, step, terms)
        order = list(block.sources)
        rng.shuffle(order)
        block.rule = DeltaRule(tuple(order))
        block.delta_plans = {
            s: DeltaPlan(replace(c, plan=random_plan(rng, block.optimizer.graph, s)), random_split(rng, block.optimizer.graph, s))
            for s, c in block.choices.items()
        }

    return choose


# ------------------------------------------------------------------ designs by lot
def force_designs(driver: Driver, rng: random.Random) -> int:
    """Another design for each block, some steps from the compiled one; its sub-results are made. How many are not the compiled one."""
    others = 0
    for planner in driver.planners.values():
        for block in [block for block in planner.blocks.values() if block.block.parts]:
            catalogue, design = block.catalogue, block.catalogue.default
            for _ in range(rng.randint(0, 4)):
                design = rng.choice(neighbours(design, catalogue.adjacent) or [design])
            for group in catalogue.missing(design):
                assert catalogue.folder is not None
                catalogue.add(catalogue.make(group, catalogue.folder))
            block.use_design(design)
            others += design != catalogue.default
    return others


def told(records: Sequence[TraceRecord]) -> list[dict[str, Any]]:
    """Trace records without the clock (milliseconds of phases and operators), and without the text of the query, which follows a start."""
    found = []
    for record in records:
        deltas = tuple(replace(d, operators=_untimed(d.operators)) for d in record.deltas)
        found.append(
            {name: getattr(record, name) for name in TraceRecord.__slots__ if name not in ("ms", "text")}
            | {"deltas": deltas, "operators": _untimed(record.operators)}
        )
    return found


def _untimed(operators: Sequence[OperatorRecord]) -> tuple[OperatorRecord, ...]:
    return tuple(replace(operator, ms=None) for operator in operators)
