"""The state of a run between batches, and the tasks derived from it: programs, planners, ids of terms."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from cqels_opt.errors import EngineWarning, InputError
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.evaluation_step import EvaluationStep, StepFiles
from cqels_opt.operators.rows import Ints
from cqels_opt.operators.term_table import Page, check_pages
from cqels_opt.planner.background_jobs import BackgroundJobs, Start, at_once, in_thread
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.query.algebra import Window
from cqels_opt.rdf.ids import CollisionError, encode, encode_one
from cqels_opt.runtime.chunks import ROWS_PER_TASK
from cqels_opt.runtime.dead_letters import DeadLetters
from cqels_opt.runtime.evaluate_task import EvaluateTask
from cqels_opt.runtime.idle_streams import IdleStreams
from cqels_opt.runtime.ingest import IngestReport
from cqels_opt.runtime.ingest_state import IngestState
from cqels_opt.runtime.interfaces import InputLog, Runner, Sink, StageReports, TraceLog
from cqels_opt.runtime.limits import NO_LIMITS, Limits
from cqels_opt.runtime.output_owner import InFile, Owned, Owner, claim_file
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.runtime.query_network import network
from cqels_opt.state import worker_cache
from cqels_opt.state.commit_log import Commit, CommitLog
from cqels_opt.state.compaction import Compaction
from cqels_opt.state.deletion import Deletion
from cqels_opt.state.run_identity import ANONYMOUS, Identity
from cqels_opt.state.task_files import task_path
from cqels_opt.state.time_slices import Key
from cqels_opt.stats import SharedWindows
from cqels_opt.storage import disk
from cqels_opt.storage.compaction_policy import CompactionPolicy
from cqels_opt.windows.binding_slots import Shape, SlotFile, rank_elements
from cqels_opt.windows.frontier import Frontier
from cqels_opt.windows.intervals import BEFORE_TIME
from cqels_opt.windows.kinds import kind_of

FOLDERS = ("slots", "results", "answers", "optimizer")  # of a checkpoint, whose files commit records name


@dataclass(frozen=True, slots=True)
class DriverOptions:
    """How a run treats its input, and what it reports."""

    drain: bool = False
    skip_bad: bool = False
    plan: PlannerOptions = field(default_factory=PlannerOptions)
    sources: Mapping[int, str] = field(default_factory=dict)  # partition -> file, for messages
    parts: int | None = None  # shares of each delta; None: depends on its size
    large: int = ROWS_PER_TASK
    tiers: CompactionPolicy = field(default_factory=CompactionPolicy)  # when small files of the state are merged
    named: bool = False  # lines of answers name their query
    rejects: Path | None = None  # the dead-letter file, one JSON object per line: file, line, reason
    refused: Sequence[Path] = ()  # files of what was rejected before the first batch: it comes first
    refused_in: Callable[[int], Mapping[str, int]] | None = None  # how many elements of a replay among these belong to a batch
    waiting: Callable[[int, Sequence[IngestReport]], tuple[int | None, int | None]] | None = None
    """Of a batch's number and what was ingested: the newest time of all input and how much of it waits (:class:`Lag`), if known."""
    files: InputLog | None = None  # of live folders, or of growing files
    commit_every: float = 0.0  # seconds between two commit records; a killed run repeats the batches since the last one
    idle_timeout: int | None = None  # milliseconds of wall clock after which a stream without elements is idle; None: never
    limits: Limits = NO_LIMITS  # of each query, see :mod:`cqels_opt.runtime.quotas`
    allow_gap: bool | None = None  # a batch need not follow the state; None: the user has no such option
    continue_changed: bool = False  # a changed query may continue the checkpoint, if its windows are the same

    def __post_init__(self) -> None:
        if not isinstance(self.limits, Limits):
            raise InputError(f"limits={self.limits!r}: give Limits(rows=…, seconds=…, bytes=…, memory=…, bound=…)")


DEFAULTS = DriverOptions()
COMMIT_EVERY = 10.0
"""Seconds between two commit records of the local engine, where a batch that runs again does no harm (``local/jobs.py``)."""


@dataclass(frozen=True, slots=True)
class Background:
    """How work besides the batches starts: at once, or in a thread."""

    views: Start = in_thread  # measuring and building sub-results
    compaction: Start = at_once  # merging small files
    deletion: Start = at_once


WITHIN_BATCHES = Background()
IN_THREADS = Background(compaction=in_thread, deletion=in_thread)


class RunState(ABC):
    """One run over one checkpoint, between two batches."""

    def __init__(
        self,
        folder: Path,
        programs: Sequence[CompiledProgram],
        runner: Runner,
        sink: Sink,
        frontier: Frontier,
        options: DriverOptions = DEFAULTS,
        identity: Identity = ANONYMOUS,
        *,
        catalog: QueryCatalog | None = None,
        pages: Sequence[SlotFile] = (),
        trace: TraceLog | None = None,
        background: Background = WITHIN_BATCHES,
    ) -> None:
        """With a ``catalog``, ``programs`` are those at the start of the run; it has the current ones."""
        self.folder, self.runner, self.sink, self.options, self.catalog = folder, runner, sink, options, catalog
        for part in FOLDERS:
            disk.make_folder(folder / part)
        self.background_jobs = BackgroundJobs(folder / "subresults", background.views)
        self.deletion = Deletion(folder, background.deletion)
        self.compaction = Compaction(folder, programs, options.tiers, runner.merge, background.compaction, self.note)
        self.log = CommitLog(folder)
        self.run_id = self.log.claim(identity, options.continue_changed, programs[0].scheme.key)
        self.identity_digest, self._changed = identity.digest, False
        self.frontier, self.pages, self.trace = frontier, list(pages), trace
        self._claim_outputs()
        self._reached = int(BEFORE_TIME)
        self.rejects = DeadLetters(options.rejects, options.refused, options.sources)
        self.scheduled_deletions: list[tuple[int, set[str]]] = []
        self.notices: list[str] = []  # for the next trace records
        self._fresh_frontier = frontier.state()
        fed = network(programs).fed
        read = tuple(dict.fromkeys(s for p in programs for s in p.streams))
        self.streams = tuple(s for s in read if s not in fed)
        self.all_streams = (*self.streams, *(s for s in read if s in fed))
        self.idle = None if options.idle_timeout is None else IdleStreams(options.idle_timeout, folder, self.streams)
        self.state = Commit(-1)
        self.set_programs(programs)
        self.shared_windows = SharedWindows()
        self.planners: dict[str, QueryPlanner] = {}
        self.ingest_state: IngestState  # made when the state is restored
        self.open()

    @abstractmethod
    def open(self) -> None:
        """Restores the state of the checkpoint. The last step of the construction."""

    # -------------------------------------------------------------- state
    @property
    def has_caught_up(self) -> bool:
        """Whether the batches that ran before a kill have run again."""
        return self.log.reached <= self.frontier.value

    def _claim_outputs(self) -> None:
        """Takes files and folders of output for this run, before anything in them is changed."""
        owner, last = Owner(self.run_id, self.folder), self.log.last()
        lengths = last.lengths if last is not None else {}
        sink: object = self.sink
        trace: object = self.trace
        if isinstance(sink, InFile) and isinstance(trace, InFile) and sink.path.resolve() == trace.path.resolve():
            raise InputError(f"{trace.path}: the answers are in this file: name another one for the trace")
        if isinstance(sink, Owned):
            sink.claim(owner, lengths)
        if isinstance(trace, InFile):
            self._trace_hold = claim_file(trace.path, owner, lengths.get("trace", 0))

    def set_programs(self, programs: Sequence[CompiledProgram]) -> None:
        """Sets the current programs."""
        self.compiled = {p.id: p for p in programs}
        self.programs = tuple(p if p.id not in self.state.since else p.seeing(self.state.since[p.id]) for p in programs)
        self.scheme = programs[0].scheme.with_displaced(self.state.displaced)
        for program in programs:
            self.scheme = self.scheme.with_displaced(program.scheme.displaced)
        self.network = network(self.programs)
        self.shapes = tuple(dict.fromkeys(s for p in self.programs for s in p.shapes))
        self.momentary = frozenset(shape for p in self.programs for shape in p.momentary)
        self.tables = frozenset(w.stream for p in self.programs for w in p.windows if kind_of(w).counts_elements)
        self.compaction.set_programs(self.programs)

    def new_planners(self) -> None:
        """Replaces all planners by new ones, whose windows are empty."""
        self.shared_windows = SharedWindows()
        options, jobs, shared = self.options.plan, self.background_jobs, self.shared_windows
        self.planners = {program.id: QueryPlanner(program, options, jobs, shared) for program in self.programs}

    def forget_windows(self) -> None:
        """Forgets the statistics that only planners of earlier programs have read."""
        found = [block.statistics for planner in self.planners.values() for block in planner.blocks.values()]
        windows = (window for statistics in found for window in statistics.windows.values())
        self.shared_windows.retain(windows, {name for statistics in found for name in statistics.static_sizes})

    def note(self, text: str) -> None:
        """Reports an error that does not affect answers: a warning, and a notice in the next trace records."""
        self.notices.append(text)
        warnings.warn(text, EngineWarning, stacklevel=3)

    def term_pages(self, files: Sequence[SlotFile]) -> list[Path]:
        """The pages of terms that count: those of windows and results, and of the constants of the queries."""
        return [self.folder / f.path for f in self.step_files(files) if f.kind == "terms"]

    def displace(self, error: CollisionError) -> None:
        """Gives second ids to terms whose id is taken; the commit record keeps them."""
        self.scheme = self.scheme.displacing(error.losers)

    def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> StageReports:
        """Runs the second stage; if an expression makes a term whose id is taken, it runs again, with a second id for the term."""
        if self.runner.elsewhere:
            self.log.save()  # tasks on other machines read sub-results
        while True:
            displaced = self.scheme.displaced
            try:
                if any(task.step.displaced != displaced for task in tasks):
                    tasks = [replace(t, step=replace(t.step, displaced=displaced)) for t in tasks]
                done = self.runner.evaluate(tasks, parts)
                self._compare(done.kept)
            except CollisionError as error:
                self.displace(error)
            else:
                return done

    def _compare(self, files: Sequence[SlotFile]) -> None:
        """CollisionError if parallel tasks have given one id to different terms.

        Each task has compared its own terms with all others.
        """
        check_pages([Page.open(self.folder / f.path) for f in files if f.kind == "terms"])

    def fits(self, place: Path | str) -> bool:
        """Whether the ids of a version of the store are those of the terms that the run holds."""
        store = worker_cache.store(str(place))
        pages = [worker_cache.page(path) for path in self.term_pages(self.state.files)]
        same = not any(store.compare(page.ids, page.terms)[1].any() for page in pages)
        texts = [text for text, term_id in self.scheme.displaced if encode_one(text, store.scheme) != term_id]
        return same and not store.contains(encode(texts, store.scheme)).any()

    def task_of(self, program: CompiledProgram, step: EvaluationStep, joint: bool = False) -> EvaluateTask:
        """The task of a program for executors. Its static relations may differ from those at compilation.

        ``joint``: its answers may be in one file with those of others, or stay in memory.
        """
        stream = self.network.feeds.get(program.id)
        feeds = None if stream is None else self.all_streams.index(stream)
        limits, compiled = self.options.limits, self.planners[program.id].program
        form, named = self.sink.format, self.options.named
        return EvaluateTask(compiled, step, form, named, feeds, memory=limits.memory, most=limits.rows, joint=joint)

    def shares(self, rows: int) -> int:
        """The number of shares of a delta: by its rows; all of the runner's if its joins take long enough."""
        slots = self.runner.parallelism
        seconds = sum(planner.seconds for planner in self.planners.values())
        by_cost = self.options.plan.calibration.constants.shares(seconds, slots)
        return max(1, min(slots, -(-rows // self.options.large)), by_cost)

    def index_keys(self) -> dict[Shape, tuple[Key, ...]]:
        """The keys on which large slots are indexed as they are written: those that the last plans probe, by shape of the windows whose
        slots are mapped."""
        probed = {key for planner in self.planners.values() for key in planner.probed()}
        by_shape = {layout.shape: layout.keys for layout in self.compaction.layouts if not layout.repeats}
        return {shape: tuple(key for key in keys if (shape, key) in probed) for shape, keys in by_shape.items()}

    def update_elements(self, files: Sequence[SlotFile]) -> None:
        """Updates the times of the elements up to the frontier: where rows of last-n windows end, which the statistics must know."""
        for stream in self.tables:
            tables = [f for f in files if f.kind == "elements" and f.stream == stream]
            self.shared_windows.elements[stream] = rank_elements(self.folder, tables, 0, self.frontier.value).times

    def moves(self, window: Window, files: Sequence[SlotFile], upto: int) -> Ints:
        """When a window of n elements that moves with each m-th one does so."""
        dropped = self.state.dropped.get(window.stream, 0)
        tables = [f for f in files if f.kind == "elements" and f.stream == window.stream]
        times = rank_elements(self.folder, tables, dropped, upto).times
        return np.unique(times[-(dropped + 1) % window.every :: window.every])

    def step_files(self, files: Sequence[SlotFile]) -> StepFiles:
        """The files of a step: those of the state, and the pages of terms of the queries."""
        made = self.catalog.pages if self.catalog is not None else ()
        return StepFiles((*files, *self.pages, *made))

    def bare_step(
        self, program: CompiledProgram, number: int, after: int, upto: int, instants: Ints, files: StepFiles
    ) -> EvaluationStep:
        """A step of a program's windows over :meth:`step_files`, without plans."""
        run, dropped = self.run_id, dict(self.state.dropped)
        if self.catalog is not None and self.catalog.store_versions.current.number > 1:
            run += f"-{self.catalog.store_versions.current.number}"  # caches of workers hold for one version only
        remember = self.options.plan.remember
        folder = task_path(self.folder)
        return EvaluationStep(folder, run, number, after, upto, instants, files, dropped, remember=remember, program=program.id)

    def planned(self, program: CompiledProgram, step: EvaluationStep, sample: bool) -> EvaluationStep:
        """A step with the current plans; ``sample``: sample its delta for them."""
        planner = self.planners[program.id]
        while True:
            try:
                plans, rules = planner.choose(replace(step, displaced=self.scheme.displaced) if sample else None)
                break
            except CollisionError as error:  # of a term that an expression makes from sampled rows
                self.displace(error)
        return replace(step, plans=plans, rules=rules, filters=planner.filter_orders)

    def schedule_deletion(self, number: int, paths: set[str]) -> None:
        """Schedules the deletion of files from a batch on.

        They stay for a few commits: a batch that runs again may need expired rows.
        """
        self.scheduled_deletions.append((number, paths))
