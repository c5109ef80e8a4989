"""The micro-batch, from counts to commit: the one place that decides; rows are read and made by the runner's tasks.

A batch is: ingest (elements into slots), move the frontier, statistics, plans, evaluate and put out, commit. A batch that runs again
overwrites what it wrote. The driver sees counts, plans and the names of files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from cqels_opt.errors import CheckpointError, DataError, InputError, RunError
from cqels_opt.operators.account import trace_record
from cqels_opt.operators.block import Observed
from cqels_opt.operators.changed import counted_again, is_result, taken_over, unsealed
from cqels_opt.operators.clock import Clock
from cqels_opt.operators.commit import ANONYMOUS, Commit, CommitLog, Identity
from cqels_opt.operators.evaluate import EvaluateReport, EvaluateTask, FinishReport, Format
from cqels_opt.operators.guard import Guard, Taken
from cqels_opt.operators.idle import IdleStreams
from cqels_opt.operators.ingest import COUNT_PARTS, IngestReport, IngestTask, Rejected
from cqels_opt.operators.knowledge import read_knowledge, write_knowledge
from cqels_opt.operators.limits import NO_LIMITS, Limits
from cqels_opt.operators.merging import MERGED, MergeTask, Merging
from cqels_opt.operators.network import network
from cqels_opt.operators.planner import PlanMode, Planner
from cqels_opt.operators.population import Population
from cqels_opt.operators.program import Program
from cqels_opt.operators.renewal import goes_on, has_windows_of
from cqels_opt.operators.retention import Retention
from cqels_opt.operators.rows import Ints
from cqels_opt.operators.sharing import Member
from cqels_opt.operators.step import NOWHEN, Step
from cqels_opt.operators.succession import count_up, covered, following_planner, gone_with, reported_last, take_over
from cqels_opt.operators.workshop import Start, Workshop, at_once
from cqels_opt.query.algebra import Window
from cqels_opt.stats import SlotCounts
from cqels_opt.trace.records import Lag, TraceRecord
from cqels_opt.windows.columns import read_columns, write_columns
from cqels_opt.windows.frontier import Frontier
from cqels_opt.windows.instants import drained, instants
from cqels_opt.windows.intervals import BEFORE_TIME
from cqels_opt.windows.slots import SlotFile, rank_elements
from cqels_opt.windows.tiers import Tiers
from cqels_opt.windows.timeline import Timeline

LARGE = 50_000  # delta rows a task; more are shared between tasks


@dataclass(slots=True)
class Evaluated:
    """What the second stage reports, by program."""

    shares: dict[str, list[EvaluateReport]] = field(default_factory=dict)
    finished: dict[str, list[FinishReport]] = field(default_factory=dict)

    @property
    def kept(self) -> list[SlotFile]:
        """The files of all reports that count from now on."""
        of_shares = [file for reports in self.shares.values() for report in reports for file in report.kept]
        return of_shares + [file for reports in self.finished.values() for report in reports for file in report.kept]

    def after(self, files: Sequence[SlotFile]) -> list[SlotFile]:
        """The files that count once this is done, of those before and its own."""
        replaced = {path for reports in self.finished.values() for report in reports for path in report.replaced}
        return [*(file for file in files if file.path not in replaced), *self.kept]


class Runner(Protocol):
    """Who runs tasks: Spark, or this process. ``jobs`` counts the Spark jobs of the batch so far; ``begin`` resets it."""

    parallelism: int

    def begin(self, batch: int) -> None:
        """A batch begins."""

    def ingest(self, rows: Any, task: IngestTask) -> list[IngestReport]:
        """The first stage over a batch's rows (of the runner's own kind)."""

    def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> Evaluated:
        """The second stage, each delta in ``parts`` shares."""

    def merge(self, tasks: Sequence[MergeTask]) -> list[SlotFile]:
        """Merges files of the state, beside the batches: what it costs is none of theirs."""

    @property
    def jobs(self) -> int:
        """Spark jobs since :meth:`begin`."""


class TraceLog(Protocol):
    """Where trace records go; cut back to the committed length like answers."""

    def restore(self, length: int) -> None:
        """Back to the committed length."""

    def put(self, records: Sequence[TraceRecord]) -> int:
        """Appends records; returns the length to commit."""


class Sink(Protocol):
    """Where answers go. ``lengths`` name what is committed; a sink that can be cut back is cut back to it before a batch."""

    format: Format

    def restore(self, lengths: Mapping[str, int]) -> None:
        """Back to the committed state."""

    def put(self, batch: int, chunks: Sequence[tuple[Program, FinishReport]], folder: Path) -> dict[str, int]:
        """Puts the answers of a batch out; returns the lengths to commit."""


@dataclass(frozen=True, slots=True)
class DriverOptions:
    """How a run treats its input, and what it reports."""

    drain: bool = False
    skip_bad: bool = False
    plan: PlanMode = field(default_factory=PlanMode)
    sources: Mapping[int, str] = field(default_factory=dict)  # partition -> file, for messages
    parts: int | None = None  # shares of each delta; None: as many as its size asks for
    large: int = LARGE
    tiers: Tiers = field(default_factory=Tiers)  # when small files of the state are merged
    named: bool = False  # lines of answers say of which query they are
    rejects: Path | None = None  # where rejected elements are kept, a JSON object a line: file, line, reason
    refused: Path | None = None  # the same of what was refused before the run: it comes first
    waiting: Callable[[int, Sequence[IngestReport]], tuple[int | None, int | None]] | None = None
    """Of a batch's number and what was ingested: the newest time of all input and how much of it waits (:class:`Lag`), if known."""
    idle_timeout: int | None = None  # milliseconds of wall clock after which a stream that brings nothing is let go; None: never
    limits: Limits = NO_LIMITS  # of each query, see :mod:`cqels_opt.operators.guard`
    continue_changed: bool = False  # another query may go on from the checkpoint, where its windows are the same


class Driver:
    """One run over one checkpoint."""

    def __init__(
        self,
        folder: Path,
        programs: Sequence[Program],
        runner: Runner,
        sink: Sink,
        frontier: Frontier,
        options: DriverOptions = DriverOptions(),
        identity: Identity = ANONYMOUS,
        pages: Sequence[SlotFile] = (),
        trace: TraceLog | None = None,
        workshop: Workshop | None = None,
        merging: Start = at_once,
        population: Population | None = None,
    ) -> None:
        """``merging`` says when and where small files are merged: at once, within the batch, or in a thread. With a ``population``
        ``programs`` are those that the run began with; those of now are the population's."""
        self.folder, self.runner, self.sink, self.options, self.population = folder, runner, sink, options, population
        for part in ("slots", "results", "answers", "knowledge"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        self.workshop = workshop or Workshop(folder / "subresults")
        self._merging_start = merging
        self.log = CommitLog(folder)
        self.run = self.log.claim(identity, options.continue_changed)
        self.query, self._changed = identity.digest, False
        self.frontier, self.pages, self.trace = frontier, list(pages), trace
        self._counted, self._reached = 0, int(BEFORE_TIME)
        self._doomed: list[tuple[int, set[str]]] = []
        self._fresh_frontier = frontier.state()
        fed = network(programs).fed
        read = tuple(dict.fromkeys(s for p in programs for s in p.streams))
        self.streams = tuple(s for s in read if s not in fed)
        self.all_streams = (*self.streams, *(s for s in read if s in fed))
        self.idle = None if options.idle_timeout is None else IdleStreams(options.idle_timeout, folder, self.streams)
        self.state = Commit(-1)
        self._have(programs)
        self.planners: dict[str, Planner] = {}
        self.times: dict[str, Timeline] = {}
        self.pending: dict[str, list[SlotCounts]] = {}
        self.guard = Guard(options.limits, folder, population)
        self.restore(None)
        self.guard.resume(self.state.batch)
        if self._changed and population is not None and population.changed:
            raise CheckpointError(
                f"{folder}: queries came or went while the run went on: start it with those that it was first started with; "
                "run.add and run.remove change them"
            )
        self.log.sweep(("slots", "results", "knowledge"))

    # -------------------------------------------------------------- state
    def _have(self, programs: Sequence[Program]) -> None:
        """These are the programs from now on."""
        self._compiled = {p.id: p for p in programs}
        self.programs = tuple(p if p.id not in self.state.since else p.seeing(self.state.since[p.id]) for p in programs)
        self.network = network(self.programs)
        self.shapes = tuple(dict.fromkeys(s for p in self.programs for s in p.shapes))
        self.tables = frozenset(w.stream for p in self.programs for w in p.windows if w.kind == "last")
        self.merging = Merging(self.folder, self.programs, self.options.tiers, self.runner.merge, self._merging_start)

    def restore(self, batch: int | None) -> None:
        """Takes up the state before a batch (None: the last one): also what a killed process left half done is cut back."""
        if batch is not None:
            self.log.check_back(batch)
        found = self.log.last() if batch is None else self.log.before(batch)
        self.state = found or Commit(-1)
        if self.state.first is not None and not self.state.firsts:  # a checkpoint from before there were several
            self.state.firsts = dict.fromkeys(self.streams, self.state.first)
        self.frontier.restore(self.state.frontier or self._fresh_frontier)
        self.sink.restore(self.state.lengths)
        if self.trace is not None:
            self.trace.restore(self.state.lengths.get("trace", 0))
        self._restore_rejects()
        self._have([*self._compiled.values()] if self.population is None else self.population.before(self.state.batch + 1))
        self.times = {s: Timeline() for s in self.all_streams}
        for file in sorted((f for f in self.state.files if f.kind == "times"), key=lambda f: f.least):
            self.times[file.stream].add(read_columns(self.folder / file.path)["t"])
        self.planners = {program.id: Planner(program, self.options.plan, self.workshop) for program in self.programs}
        self.pending, self._counted = {}, 0
        self._changed = self.state.batch >= 0 and self.state.query != self.query
        if self.state.knowledge:
            told = {} if self._changed else self.planners  # the statistics of another query are of other relations
            self.pending, self._counted = read_knowledge(self.folder / self.state.knowledge, told)

    def _restore_rejects(self) -> None:
        length, path, before = self.state.lengths.get("rejects", 0), self.options.rejects, self.options.refused
        if path is not None and (path.exists() or length or (before is not None and before.exists())):
            with path.open("ab") as file:
                file.truncate(length)
                if not length and before is not None and before.exists():
                    file.write(before.read_bytes())

    def _put_rejects(self, rejected: Sequence[Rejected]) -> dict[str, int]:
        path = self.options.rejects
        if path is None or not (rejected or path.exists()):
            return {}
        with path.open("a", encoding="utf-8") as file:
            for r in rejected:
                where = self.options.sources.get(r.partition, r.stream)
                file.write(json.dumps({"file": where, "line": r.line, "reason": r.reason}, ensure_ascii=False) + "\n")
            return {"rejects": file.tell()}

    # -------------------------------------------------------------- a batch
    def batch(self, number: int, rows: Any) -> list[TraceRecord]:
        """Does a micro-batch, from its elements to its commit record; returns its trace records.

        ``rows`` is what the runner reads, or a function that gives it: for a batch that was done already the state first goes back to
        where it began, and how its input is read may depend on that.

        Queries that read no stream are answered once, by their first batch, which has no rows.
        """
        if self.log.reaches(number):
            self.restore(number)
        if callable(rows):
            rows = rows()
        clock = Clock()
        self.runner.begin(number)
        self.log.adopt()
        if self._changed:
            self._take_over(number)
        if self.population is not None:
            self._population_of(number, self.population)
        after = self.frontier.value
        first = self.programs[0]
        task = IngestTask(str(self.folder), number, self.all_streams, self.shapes, first.store, first.seed, after, self.tables)
        reports = list(self.runner.ingest(rows, task)) if self.streams else []
        rejected = [r for report in reports for r in report.rejected]
        if rejected and not self.options.skip_bad:
            raise DataError(self._said(min(rejected, key=lambda r: (r.partition, r.line))))
        files = [*self.state.files, *(f for report in reports for f in report.files)]
        files += self._times_files(number, self._seen(reports))
        self._reached = self.frontier.advance(self._idle(number, reports))
        if not self.streams:
            self._reached = self.frontier.value = max(after, *(p.report.origin("") for p in self.programs))
        new: dict[str, list[SlotCounts]] = {}
        steps: dict[str, Step] = {}
        done = Evaluated()
        for place, stage in enumerate(self.network.stages):
            fed = self._fed(task, stage, done, place) if place else reports
            if place:
                files += [f for report in fed for f in report.files]
                files += self._times_files(number, self._seen(fed), f"n{place}-")
                reports += fed
            upto = {p.id: self._upto(p) for p in stage}
            self.frontier.value = max(self.frontier.value, *upto.values())
            clock.lap("ingest")
            new |= self._released(fed, self.frontier.value)
            self._tell_elements(files)
            for name, end in upto.items():
                self.planners[name].advance(new, after, end)
            clock.lap("statistics")
            mine = {p.id: self._step(p, number, after, upto[p.id], files) for p in stage}
            clock.lap("optimize")
            if max(upto.values()) > after:
                size = sum(c.total for parts in new.values() for c in parts)
                parts = self.options.parts or self._shares(size)
                mine = {name: replace(step, joins=self.planners[name].physical(parts)) for name, step in mine.items()}
                found = self.runner.evaluate([self._task(p, mine[p.id]) for p in stage], parts)
                done.shares |= found.shares
                done.finished |= found.finished
            steps |= mine
            clock.lap("execute")
        jobs = self.runner.jobs  # before the sink, whose own jobs are the user's
        clock.lap("execute")
        observed = self._observed(done)
        if self.options.limits != NO_LIMITS:
            taken = Taken(done.shares, done.finished, done.after(files), self.folder)
            self.guard.within(number, self.programs, taken, self.sink.format, self.network.feeds)
        chunks = [(p, f) for p in self.programs for f in done.finished.get(p.id, []) if f.answers]
        lengths = self.sink.put(number, chunks, self.folder)
        lengths |= self._put_rejects(rejected)
        clock.lap("commit")
        ms = clock.done()
        lag = self._lag(number, reports)
        records = [
            trace_record(
                p,
                self.planners[p.id],
                number,
                reports,
                rejected,
                observed.get(p.id, {}),
                self.frontier,
                ms,
                jobs,
                lag,
                done.finished.get(p.id, []),
                done.shares.get(p.id, []),
            )
            for p in self.programs
        ]
        if self.population is not None and (refreshed := self.population.refreshed) is not None:
            records = [replace(record, static=(refreshed.now, refreshed.was)) for record in records]
        if self.trace is not None:
            lengths["trace"] = self.trace.put(records)
        self._commit(number, files, done, steps, rejected, reports, lengths)
        return records

    def _idle(self, number: int, reports: Sequence[IngestReport]) -> Collection[str | int]:
        """The streams and partitions that are let go in a batch."""
        if self.idle is None:
            return ()
        brought: set[str | int] = {stream for report in reports for stream in report.streams}
        brought |= {partition for report in reports for seen in report.streams.values() for partition in seen.last}
        return self.idle.decide(number, brought, {n: p.stream for n, p in self.frontier.partitions.items()})

    def _upto(self, program: Program) -> int:
        """Up to where a query is looked at: the frontier, or at the end with ``--drain`` until its windows are empty."""
        if self.options.drain and self.frontier.ended and (greatest := self.frontier.greatest) is not None:
            last = {
                **self.frontier.last(),
                **{s: int(self.times[s].times[-1]) for s in self.network.fed if len(self.times[s].times)},
            }
            greatest = max([greatest, *(last[s] for s in program.streams if s in last)])
            return max(self._reached, drained(program.windows, program.report, last, greatest))
        return self._reached

    def _fed(self, task: IngestTask, stage: Sequence[Program], done: Evaluated, place: int) -> list[IngestReport]:
        """Takes in what queries of earlier stages have put out in this batch and queries of a stage are the first to read."""
        before = {s for programs in self.network.stages[:place] for program in programs for s in program.streams}
        read = {s for program in stage for s in program.streams} - before
        makers = [name for name, stream in self.network.feeds.items() if stream in read]
        paths = [report.fed for name in makers for report in done.finished.get(name, []) if report.fed]
        own = [replace(task, stage=f"n{place}-{i}-") for i in range(len(paths))]
        return [report for path, mine in zip(paths, own) for report in self.runner.ingest(self.folder / path, mine)]

    def _task(self, program: Program, step: Step) -> EvaluateTask:
        """What executors are to do for a program. Its static relations may be others by now than when it was compiled."""
        stream = self.network.feeds.get(program.id)
        feeds = None if stream is None else self.all_streams.index(stream)
        return EvaluateTask(self.planners[program.id].program, step, self.sink.format, self.options.named, feeds)

    def _lag(self, number: int, reports: Sequence[IngestReport]) -> Lag:
        """How far the frontier is behind the newest input; where that cannot be known, behind what has been read."""
        known = self.options.waiting if self.trace is not None else None
        newest, waiting = known(number, reports) if known else (None, None)
        newest = self.frontier.greatest if newest is None else newest
        behind = newest - self.frontier.value if newest is not None and self.frontier.value > BEFORE_TIME else None
        return Lag(max(0, behind) if behind is not None else None, waiting)

    def _shares(self, rows: int) -> int:
        """In how many shares a delta is done: as many as its rows ask for, and at once in all where its joins take long enough."""
        slots = self.runner.parallelism
        seconds = sum(planner.seconds for planner in self.planners.values())
        by_cost = self.options.plan.calibration.constants.shares(seconds, slots)
        return max(1, min(slots, -(-rows // self.options.large)), by_cost)

    def _said(self, bad: Rejected) -> str:
        return f"{self.options.sources.get(bad.partition, bad.stream)}:{bad.line}: {bad.reason}"

    def _seen(self, reports: Sequence[IngestReport]) -> dict[str, Ints]:
        """Takes note of what came: partitions, the first time of all, and the times of each stream."""
        found: dict[str, Timeline] = {}
        for report in reports:
            for stream, seen in report.streams.items():
                for partition, (last_time, last_offset) in seen.last.items() if stream in self.streams else ():
                    self.frontier.seen(partition, stream, last_time, last_offset)
                if seen.first is not None:
                    self.state.firsts[stream] = min(seen.first, self.state.firsts.get(stream, seen.first))
                    self.state.first = seen.first if self.state.first is None else min(self.state.first, seen.first)
                found.setdefault(stream, Timeline()).add(seen.times)
        for stream, line in found.items():
            self.times[stream].add(line.times)
        return {stream: line.times for stream, line in found.items()}

    def _times_files(self, number: int, times: Mapping[str, Ints], mark: str = "") -> list[SlotFile]:
        files = []
        for i, (stream, t) in enumerate(times.items()):
            if len(t):
                path = f"slots/times-{number:08d}-{mark}{i}.arrow"
                write_columns(self.folder / path, {"t": t})
                files.append(SlotFile("times", path, stream, "", len(t), int(t[0]), int(t[-1])))
        return files

    def _merged_times(self, number: int, files: list[SlotFile]) -> list[SlotFile]:
        """The files with those of times merged; the driver has what they hold."""
        for i, (stream, line) in enumerate(self.times.items()):
            mine = sorted((f for f in files if f.kind == "times" and f.stream == stream), key=lambda f: f.least)
            small, merged = [f for f in mine if not f.shape], [f for f in mine if f.shape]
            group = self.options.tiers.group([f.rows for f in merged], [f.rows for f in small])
            if group is None:
                continue
            some, all_small = group
            inputs = [*merged[some], *(small if all_small else [])]
            bounds = [min(f.least for f in inputs), max(f.greatest for f in inputs) + 1]
            t = line.times[slice(*np.searchsorted(line.times, bounds))]
            path = f"slots/times-{number:08d}-{i}m.arrow"
            write_columns(self.folder / path, {"t": t})
            files = [f for f in files if f not in inputs]
            files.append(SlotFile("times", path, stream, MERGED, len(t), int(t[0]), int(t[-1])))
        return files

    def _numbered(self, parts: Iterable[SlotCounts]) -> list[SlotCounts]:
        """Counts under numbers of their own: the statistics take what they are told twice for the same."""
        self._counted += 1
        return [replace(part, slot=self._counted * COUNT_PARTS * 2 + i) for i, part in enumerate(parts)]

    def _released(self, reports: Sequence[IngestReport], upto: int) -> dict[str, list[SlotCounts]]:
        """The counts of what the frontier has passed; the rest waits."""
        for report in reports:
            for stream, seen in report.streams.items():
                for shape, parts in seen.counts.items():
                    self.pending.setdefault(stream + shape, []).extend(self._numbered(parts))
        new = {}
        for key, waiting in self.pending.items():
            ready = [c for c in waiting if len(c.times) and c.times[-1] <= upto]
            if ready:
                new[key] = ready
            self.pending[key] = [c for c in waiting if len(c.times) and c.times[-1] > upto]
        return new

    def _tell_elements(self, files: Sequence[SlotFile]) -> None:
        """The times of the elements up to the frontier: where rows of last-n windows end, which the statistics must know."""
        for stream in self.tables:
            times = self._elements(stream, files)
            for planner in self.planners.values():
                planner.elements[stream] = times

    def _elements(self, stream: str, files: Sequence[SlotFile]) -> Ints:
        tables = [f for f in files if f.kind == "elements" and f.stream == stream]
        return rank_elements(self.folder, tables, 0, self.frontier.value).times

    def _step(self, program: Program, number: int, after: int, upto: int, files: Sequence[SlotFile]) -> Step:
        renewed = program.id in self.state.renewed  # what was answered then is in a file, and all else begins anew
        previous = int(NOWHEN) if renewed else self.state.reported.get(program.id, int(NOWHEN))
        found = np.empty(0, np.int64)
        first = min((self.state.firsts[s] for s in program.streams if s in self.state.firsts), default=None)
        if not program.windows and after < program.report.origin("") <= upto:
            found = np.array([program.report.origin("")], np.int64)
        elif first is not None and upto > after:
            times = {stream: line.times for stream, line in self.times.items()}
            moves = {w.name: self._moves(w, files, upto) for w in program.windows if w.every}
            found = instants(program.windows, program.report, times, first, after, upto, moves)
        step = self._bare(program, number, after, upto, np.concatenate([np.array([previous], np.int64), found]), files)
        return self._planned(program, step, walk=upto > after)

    def _moves(self, window: Window, files: Sequence[SlotFile], upto: int) -> Ints:
        """When a window of n elements that moves with each m-th one does so."""
        dropped = self.state.dropped.get(window.stream, 0)
        tables = [f for f in files if f.kind == "elements" and f.stream == window.stream]
        times = rank_elements(self.folder, tables, dropped, upto).times
        return np.unique(times[-(dropped + 1) % window.every :: window.every])

    def _bare(self, program: Program, number: int, after: int, upto: int, looked_at: Ints, files: Sequence[SlotFile]) -> Step:
        run, dropped = f"{self.run}-{program.id}", dict(self.state.dropped)
        if self.population is not None and self.population.living.current.number > 1:
            run += f"-{self.population.living.current.number}"  # what workers keep of one version is nothing for another
        made = self.population.pages if self.population is not None else ()
        found = (*files, *self.pages, *made)
        remember = self.options.plan.remember
        return Step(str(self.folder), run, number, after, upto, looked_at, found, dropped, remember=remember)

    def _planned(self, program: Program, step: Step, walk: bool) -> Step:
        planner = self.planners[program.id]
        plans, orders = planner.choose(step if walk else None)
        return replace(step, plans=plans, orders=orders, filters=planner.filter_orders)

    def _observed(self, done: Evaluated) -> dict[str, dict[str, Observed]]:
        found: dict[str, dict[str, Observed]] = {}
        for program in self.programs:
            blocks = found.setdefault(program.id, {})
            for report in done.shares.get(program.id, []):
                for block, observed in report.observed.items():
                    blocks.setdefault(block, Observed()).add(observed)
            for block, total in blocks.items():
                self.planners[program.id].blocks[block].observe(total)
        return found

    # -------------------------------------------------------------- another query goes on
    def _take_over(self, number: int) -> None:
        """Result slots and statistics of a changed query, from the binding slots of the one before: those that it would have by now."""
        upto, keys = self.frontier.value, {shape.stream + shape.key for shape in self.shapes}
        self.pending = {key: waiting for key, waiting in self.pending.items() if key in keys}
        files = unsealed(self.folder, [f for f in self.state.files if not is_result(f)], number)
        new = {key: self._numbered(parts) for key, parts in counted_again(self.folder, files, self.shapes, upto).items()}
        parts = self.options.parts or self._shares(sum(c.total for counts in new.values() for c in counts))
        tasks = []
        for program in self.programs:
            planner = self.planners[program.id]
            planner.advance(new, int(BEFORE_TIME), upto)
            reported = self.state.reported.get(program.id, int(NOWHEN))
            looked_at = np.unique(np.array([int(NOWHEN), reported], np.int64))  # as if it were the first instant of all
            step = self._bare(program, number, int(BEFORE_TIME), upto, looked_at, files)
            step = replace(self._planned(program, step, walk=True), joins=planner.physical(parts))
            tasks.append(replace(self._task(program, step), feeds=None))  # its graphs are elements already
        done = self.runner.evaluate(tasks, parts)
        shares = [report for reports in done.shares.values() for report in reports]
        finished = [report for reports in done.finished.values() for report in reports]
        gone = {f.path for f in self.state.files if f not in files} | {f.path for report in shares for f in report.fresh}
        self._doomed.append(
            (number, gone | {report.path for report in finished if report.path})
        )  # had been put out before, if ever
        self.state = replace(self.state, files=[*files, *taken_over(self.folder, done.kept)])
        self._changed = False

    # -------------------------------------------------------------- queries come and go
    def check_coming(self, member: Member) -> None:
        """InputError where a query cannot come while the run goes on."""
        assert self.population is not None
        if self.population.fits(member):
            return
        if member.query.output is not None and f"<{member.query.output.strip('<>')}>" in self.all_streams:
            raise InputError(
                f"{member.id}: it makes the stream {member.query.output}, which others read: start the run again with it"
            )
        for window in member.query.windows:
            if window.stream not in self.all_streams:
                raise InputError(f"{member.id}: it reads the stream {window.stream}, which this run does not")

    def check_going(self, name: str) -> None:
        """InputError where a query cannot go while the run goes on."""
        if name in self.network.feeds:
            raise InputError(f"{name}: others read the stream that it makes")

    def _succeed(self, number: int, programs: Sequence[Program]) -> None:
        """Other programs from now on. Those that were there have their state; what comes is given what it would have by now.

        Where that has not been kept, its windows begin empty.
        """
        before, planners, running, upto = self._compiled, self.planners, self.programs, self.frontier.value
        coming = [p for p in programs if p.id not in before]
        changed = [p.id for p in programs if before.get(p.id, p) is not p]
        since = {name: at for name, at in self.state.since.items() if name in {p.id for p in programs}}
        if (greatest := self.frontier.greatest) is not None:
            since |= {p.id: greatest for p in coming if not covered(p, running, upto)}
        old = gone_with(self.state.files, {*changed, *(before.keys() - {p.id for p in programs})})
        reported = {name: at for name, at in self.state.reported.items() if name in {p.id for p in programs}}
        self.state = replace(self.state, since=since, reported=reported)
        self._have(programs)
        self.planners = {}
        for p in self.programs:
            if p.id in planners and p.id not in changed:
                self.planners[p.id] = planners[p.id]
                continue
            self.planners[p.id] = following_planner(p, planners.get(p.id), self.options.plan, self.workshop)
            self.planners[p.id].elements.update({stream: self._elements(stream, self.state.files) for stream in self.tables})
            if p.id not in before and p.id not in since:
                self._counted = count_up(self.planners[p.id], self.folder, self.state.files, upto, self._counted)
        made = self._taken_over(number, [(p, p.id in before) for p in self.programs if p.id in changed or p.id not in before])
        files = [f for f in self.state.files if f not in old]
        self._doomed.append((number, {f.path for f in old}))
        self.state = replace(self.state, files=[*files, *made])

    def _taken_over(self, number: int, programs: Sequence[tuple[Program, bool]]) -> list[SlotFile]:
        """The files of the results that programs would have by now; of each is said whether it was there, with other instances."""
        upto, tasks = self.frontier.value, []
        for p, known in programs if upto > BEFORE_TIME else ():
            if p.id not in self.state.reported:
                moves = {w.name: self._moves(w, self.state.files, upto) for w in p.windows if w.every}
                times = {stream: line.times for stream, line in self.times.items()}
                if (at := reported_last(p, times, self.state.firsts, upto, moves)) is not None:
                    self.state.reported[p.id] = at
            since = p.instances.since if known and p.instances is not None else None
            tasks.append(self._taking_over(p, number, self.state.reported.get(p.id, int(NOWHEN)), since))
        return self._made(tasks)

    def _made(self, tasks: Sequence[EvaluateTask]) -> list[SlotFile]:
        """The files that tasks between two batches make, in one job."""
        return taken_over(self.folder, self.runner.evaluate(tasks, 1).kept) if tasks else []

    def _taking_over(self, program: Program, number: int, reported: int, since: int | None) -> EvaluateTask:
        upto, looked_at = self.frontier.value, np.unique(np.array([int(NOWHEN), reported], np.int64))
        step = self._bare(program, number, upto, upto, looked_at, self.state.files)
        step = replace(step, run=f"{step.run}-taken{number}", looked_back=min(reported, upto + 1))
        return replace(self._task(program, step), feeds=None, take_over=take_over(self.planners[program.id], since))

    # -------------------------------------------------------------- other static data
    def _population_of(self, number: int, population: Population) -> None:
        """The queries and the static data of a batch. It takes either other queries or another version, so that each finds the other's
        state; and no other queries while some have not been looked at since the version before."""
        if (
            not self.state.renewed
            and not population.living.decided(number)
            and (programs := population.begin(number)) is not None
        ):
            population.refreshed = None
            self._succeed(number, programs)
        elif (programs := population.refresh(number)) is not None:
            self._renew(number, programs)

    def _renew(self, number: int, programs: Sequence[Program]) -> None:
        """Programs over another version of the static store, see :mod:`cqels_opt.operators.renewal`."""
        before, planners, upto = {p.id: p for p in self.programs}, self.planners, self.frontier.value
        leaving = {p.id: self._leaving(p, number) for p in self.programs}
        self._have(programs)
        self.planners = {}
        for p in self.programs:
            known = planners[p.id] if has_windows_of(p, before[p.id]) else None
            self.planners[p.id] = following_planner(p, known, self.options.plan, self.workshop)
            if known is None:
                self.planners[p.id].elements.update(planners[p.id].elements)
                self._counted = count_up(self.planners[p.id], self.folder, self.state.files, upto, self._counted)
        if upto <= BEFORE_TIME:
            return
        moved = [p for p in self.programs if not goes_on(before[p.id], p)]
        waiting = {*self.state.renewed}  # their last answers are in a file already
        tasks = [task for p in moved if p.id not in waiting and (task := leaving[p.id]) is not None]
        old = gone_with(self.state.files, {p.id for p in moved})
        old = [f for f in old if not (f.shape.endswith("/before") and f.shape.split("/")[0] in waiting)]
        tasks += [self._standing_over(p, number) for p in moved]
        made = self._made(tasks)
        files = [f for f in self.state.files if f not in old]
        self._doomed.append((number, {f.path for f in old}))
        renewed = [*dict.fromkeys([*self.state.renewed, *(p.id for p in moved)])]
        self.state = replace(self.state, files=[*files, *made], renewed=renewed)

    def _leaving(self, program: Program, number: int) -> EvaluateTask | None:
        """Keeps a program's answers at the instant that it reported last; where there are any, and somebody compares with them."""
        reported = self.state.reported.get(program.id)
        if program.operator == "rstream" or reported is None:
            return None
        upto, looked_at = self.frontier.value, np.array([int(NOWHEN), reported], np.int64)
        step = self._bare(program, number, upto, upto, looked_at, self.state.files)
        return replace(self._task(program, step), feeds=None, leaving=True)

    def _standing_over(self, program: Program, number: int) -> EvaluateTask:
        """Makes the rows of a program's blocks from what its windows hold."""
        upto, files = self.frontier.value, [f for f in self.state.files if not is_result(f)]
        step = self._bare(program, number, upto, upto, np.array([int(NOWHEN)], np.int64), files)
        step = replace(step, run=f"{step.run}-taken{number}")
        return replace(self._task(program, step), feeds=None, take_over=take_over(self.planners[program.id], None))

    # -------------------------------------------------------------- commit
    def _commit(
        self,
        number: int,
        files: list[SlotFile],
        done: Evaluated,
        steps: Mapping[str, Step],
        rejected: Sequence[Rejected],
        reports: Sequence[IngestReport],
        lengths: dict[str, int],
    ) -> None:
        files = done.after(files)
        reported = dict(self.state.reported)
        for program in self.programs:
            if len(steps[program.id].instants) > 1:
                reported[program.id] = int(steps[program.id].instants[-1])
        renewed = [name for name in self.state.renewed if name in steps and len(steps[name].instants) < 2]
        retention = Retention(self.folder, self.programs, self.tables, self.all_streams)
        kept_files = retention.after(files, reported, self.state, self.frontier.value)
        for stream, bound in kept_files.bounds.items():
            if bound is not None:
                self.times[stream].forget(bound)
        live, dropped = self.merging.settled(kept_files.files, number, self.frontier.value), kept_files.dropped
        live = self._merged_times(number, live)
        totals = dict(self.state.totals)
        streams = [seen for report in reports for stream, seen in report.streams.items() if stream in self.streams]
        chunks = [f for finished in done.finished.values() for f in finished]
        decisions = [d for p in self.planners.values() for b in p.blocks.values() for d in b.decisions.values()]
        for name, amount in (
            ("elements", sum(s.elements for s in streams)),
            ("late", sum(s.late for s in streams)),
            ("rejected", len(rejected)),
            ("answers", sum(f.answers for f in chunks)),
            ("switches", sum(d.switched for d in decisions)),
            ("batches", 1),
        ):
            totals[name] = totals.get(name, 0) + amount
        state = Commit(
            number,
            live,
            self.frontier.state(),
            self.state.first,
            reported,
            dropped,
            lengths,
            totals,
            self.frontier.ended,
            f"knowledge/{number:08d}.zip",
            self.state.firsts,
            self.state.since,
            renewed,
            self.query,
        )
        write_knowledge(self.folder / state.knowledge, self.planners, self.pending, self._counted)
        gone = {f.path for f in [*self.state.files, *files]} - {f.path for f in live}
        gone |= {f.path for shares in done.shares.values() for report in shares for f in report.fresh}
        gone |= {path for f in chunks for path in (f.path, f.fed) if path} | ({self.state.knowledge} - {""})
        self.log.write(state)
        self.state = state
        self._forget(number, gone)
        if self.population is not None:
            self.population.committed(number)

    def _forget(self, number: int, gone: set[str]) -> None:
        """Deletes files a few commits after they stopped to count: a batch that runs again may need what it expired."""
        self._doomed.append((number, gone))
        while self._doomed and self._doomed[0][0] <= number - 2:
            for path in self._doomed.pop(0)[1]:
                (self.folder / path).unlink(missing_ok=True)


def check_ended(driver: Driver) -> None:
    """After a replay: everything must have been seen."""
    if driver.frontier.finite and not driver.frontier.ended:
        raise RunError("the replay ended before its last element was seen: the checkpoint is damaged; use another folder")
