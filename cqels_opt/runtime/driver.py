"""The micro-batch, from counts to commit: the one place that decides; rows are read and made by the runner's tasks.

A batch is: ingest (elements into slots), move the frontier, statistics, plans, evaluate and put out, commit. A batch that runs again
overwrites what it wrote. The driver sees counts, plans and the names of files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cqels_opt.errors import CheckpointError, DataError, RunError
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.evaluation_step import NOWHEN, EvaluationStep
from cqels_opt.operators.observed import Observed
from cqels_opt.planner.background_jobs import BackgroundJobs, Start, at_once
from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.rdf.ids import CollisionError
from cqels_opt.runtime.ingest import IngestReport, IngestTask, RejectSpool
from cqels_opt.runtime.ingest_state import IngestState
from cqels_opt.runtime.interfaces import Evaluated, Runner, Sink, TraceLog
from cqels_opt.runtime.optimizer_checkpoint import read_knowledge, write_knowledge
from cqels_opt.runtime.phase_timer import PhaseTimer
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.runtime.quotas import Quotas, ResourceUsage
from cqels_opt.runtime.reconfiguration import Reconfiguration
from cqels_opt.runtime.rejected_elements import SAMPLE
from cqels_opt.runtime.run_state import DEFAULTS, FOLDERS, DriverOptions, RunState
from cqels_opt.runtime.trace_builder import trace_record
from cqels_opt.state.commit_log import ANONYMOUS, Commit, Identity
from cqels_opt.state.pending_counts import LostKnowledgeError
from cqels_opt.state.retention import Retention
from cqels_opt.stats import SlotCounts
from cqels_opt.storage import disk
from cqels_opt.trace.records import Lag, TraceRecord
from cqels_opt.windows.binding_slots import SlotFile
from cqels_opt.windows.frontier import Frontier
from cqels_opt.windows.instants import drained, instants
from cqels_opt.windows.intervals import BEFORE_TIME

MOST_NOTICES = 20  # a batch


class Driver(RunState):
    """One run over one checkpoint."""

    def __init__(
        self,
        folder: Path,
        programs: Sequence[CompiledProgram],
        runner: Runner,
        sink: Sink,
        frontier: Frontier,
        options: DriverOptions = DEFAULTS,
        identity: Identity = ANONYMOUS,
        pages: Sequence[SlotFile] = (),
        trace: TraceLog | None = None,
        workshop: BackgroundJobs | None = None,
        merging: Start = at_once,
        population: QueryCatalog | None = None,
    ) -> None:
        """``merging`` says when and where small files are merged: at once, within the batch, or in a thread. With a ``population``
        ``programs`` are those that the run began with; those of now are the population's."""
        super().__init__(folder, programs, runner, sink, frontier, options, identity, pages, trace, workshop, merging, population)
        self.reconfiguration = Reconfiguration(self)
        self.guard = Quotas(options.limits, folder, population)
        self.restore(None)
        self.guard.resume(self.state.batch)
        if self._changed and population is not None and population.changed:
            raise CheckpointError(
                f"{folder}: queries came or went while the run went on: start it with those that it was first started with; "
                "run.add and run.remove change them"
            )
        self.log.sweep(FOLDERS)

    def restore(self, batch: int | None) -> None:
        """Takes up the state before a batch (None: the last one): also what a killed process left half done is cut back."""
        if batch is not None:
            self.log.check_back(batch)
        found = self.log.last() if batch is None else self.log.before(batch)
        if batch is not None:
            self.log.forget_from(batch)  # before the outputs are cut: a record never names more of them than there is
        self.state = found or Commit(-1)
        if self.state.first is not None and not self.state.firsts:  # a checkpoint from before there were several
            self.state.firsts = dict.fromkeys(self.streams, self.state.first)
        self.frontier.restore(self.state.frontier or self._fresh_frontier)
        self.sink.restore(self.state.lengths, self.state.digests)
        if self.trace is not None:
            self.trace.restore(self.state.lengths.get("trace", 0), self.state.digests.get("trace", ""))
        self.rejects.restore(self.state.lengths)
        if self.options.files is not None:
            self.options.files.restore(self.state.lengths)
        if self.population is not None:
            self.population.know(self.state.displaced, self.term_pages(self.state.files))
        self.set_programs([*self.compiled.values()] if self.population is None else self.population.before(self.state.batch + 1))
        self.arrivals = IngestState(self.folder, self.all_streams, self.options.tiers, self.state.files)
        self.planners = {program.id: QueryPlanner(program, self.options.plan, self.workshop) for program in self.programs}
        self._changed = self.state.batch >= 0 and self.state.query != self.query
        if self.state.knowledge:
            told = {} if self._changed else self.planners  # the statistics of another query are of other relations
            try:
                self.arrivals.resume(self.state.files, self.frontier.value)
                self.arrivals.counted = read_knowledge(self.folder / self.state.knowledge, told)
            except LostKnowledgeError as error:
                self.note(f"statistics of the optimizer are lost and are counted again: {error}")
                self.reconfiguration.forget_statistics()

    def batch(self, number: int, rows: Any) -> list[TraceRecord]:
        """Does a micro-batch, from its elements to its commit record; returns its trace records.

        ``rows`` is what the runner reads, or a function that gives it: for a batch that was done already, or begun, the state first goes
        back to where it began, and how its input is read may depend on that.

        Queries that read no stream are answered once, by their first batch, which has no rows.
        """
        if self.log.begin(number, self.state.batch, self.options.allow_gap):
            self.restore(number)
        if callable(rows):
            rows = rows()
        clock = PhaseTimer()
        self.runner.begin(number)
        self.log.persist_identity()
        if self._changed:
            self.reconfiguration.take_over(number)
            self._changed = False
        if self.population is not None:
            self.reconfiguration.population(number, self.population)
        after = self.frontier.value
        first = self.programs[0]
        pages = tuple(map(str, self.term_pages(self.state.files)))
        task = IngestTask(
            str(self.folder), number, self.all_streams, self.shapes, first.store, self.scheme, after, self.tables, pages
        )
        reports = self._ingested(rows, task) if self.streams else []
        rejected = [report.rejected for report in reports]
        if any(rejected) and not self.options.skip_bad:
            raise DataError(self.rejects.first(rejected))
        files = [*self.state.files, *(f for report in reports for f in report.files)]
        self._seen(reports)
        files += self.arrivals.add(reports, number)
        self._reached = self.frontier.advance(self._idle(number, reports))
        if not self.streams:
            self._reached = self.frontier.value = max(after, *(p.report.origin("") for p in self.programs))
        new: dict[str, list[SlotCounts]] = {}
        steps: dict[str, EvaluationStep] = {}
        done = Evaluated()
        for place, stage in enumerate(self.network.stages):
            fed = self._fed(task, stage, done, place, [*files, *done.kept]) if place else reports
            if place:
                files += [f for report in fed for f in report.files]
                self._seen(fed)
                files += self.arrivals.add(fed, number, f"n{place}-")
                reports += fed
            upto = {p.id: self._upto(p) for p in stage}
            self.frontier.value = max(self.frontier.value, *upto.values())
            clock.lap("ingest")
            new |= self.arrivals.released(fed, self.frontier.value)
            self._tell_elements(files)
            for name, end in upto.items():
                self.planners[name].advance(new, after, end)
            clock.lap("statistics")
            known = [*files, *(f for f in done.kept if f.kind == "terms")]  # what earlier stages have made
            mine = {p.id: self._step(p, number, after, upto[p.id], known) for p in stage}
            clock.lap("optimize")
            if max(upto.values()) > after:
                size = sum(c.total for parts in new.values() for c in parts)
                parts = self.options.parts or self.shares(size)
                mine = {name: replace(step, joins=self.planners[name].physical(parts)) for name, step in mine.items()}
                found = self.evaluate([self.task_of(p, mine[p.id]) for p in stage], parts)
                done.shares |= found.shares
                done.finished |= found.finished
            steps |= mine
            clock.lap("execute")
        jobs = self.runner.jobs  # before the sink, whose own jobs are the user's
        clock.lap("execute")
        observed = self._observed(done)
        taken = ResourceUsage(done.shares, done.finished, done.after(files), self.folder)
        self.guard.within(number, self.programs, taken, self.sink.format, self.network.feeds)
        chunks = [(p, f) for p in self.programs for f in done.finished.get(p.id, []) if f.answers]
        # What this run does not write is as long as before, for one that writes it again.
        lengths = {**self.state.lengths, **self.sink.put(number, chunks, self.folder), **self.rejects.put(rejected)}
        notices = (*self.notices, *self._notices(reports))
        if self.options.files is not None:
            lengths |= self.options.files.put()
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
        if notices:
            records = [replace(record, notices=notices) for record in records]
        if self.trace is not None:
            lengths["trace"] = self.trace.put(records)
        self.notices.clear()
        self._commit(number, files, done, steps, rejected, reports, lengths)
        return records

    def _notices(self, reports: Sequence[IngestReport]) -> tuple[str, ...]:
        """What whoever runs this should hear of the input: files that have changed, and the first of what was rejected."""
        changed = self.options.files.take(reports) if self.options.files is not None else []
        more = [f"{len(changed) - MOST_NOTICES:,} more files have changed since they were read"] if changed[MOST_NOTICES:] else []
        bad = [r for report in reports for r in report.rejected.sample]
        return (*changed[:MOST_NOTICES], *more, *(f"rejected: {self.rejects.said(r)}" for r in bad[:SAMPLE]))

    def _idle(self, number: int, reports: Sequence[IngestReport]) -> Collection[str | int]:
        """The streams and partitions that are let go in a batch."""
        if self.idle is None:
            return ()
        brought: set[str | int] = {stream for report in reports for stream in report.streams}
        brought |= {partition for report in reports for seen in report.streams.values() for partition in seen.last}
        return self.idle.decide(number, brought, {n: p.stream for n, p in self.frontier.partitions.items()})

    def _upto(self, program: CompiledProgram) -> int:
        """Up to where a query is looked at: the frontier, or at the end with ``--drain`` until its windows are empty."""
        if self.options.drain and self.frontier.ended and (greatest := self.frontier.greatest) is not None:
            times = self.arrivals.in_order()
            greatest = max([greatest, *(int(times[s][-1]) for s in program.streams if len(times[s]))])
            return max(self._reached, drained(program.windows, program.report, times, greatest))
        return self._reached

    def _fed(
        self, task: IngestTask, stage: Sequence[CompiledProgram], done: Evaluated, place: int, files: Sequence[SlotFile]
    ) -> list[IngestReport]:
        """Takes in what queries of earlier stages have put out in this batch and queries of a stage are the first to read."""
        before = {s for programs in self.network.stages[:place] for program in programs for s in program.streams}
        read = {s for program in stage for s in program.streams} - before
        makers = [name for name, stream in self.network.feeds.items() if stream in read]
        paths = [report.fed for name in makers for report in done.finished.get(name, []) if report.fed]
        reports: list[IngestReport] = []
        for number, path in enumerate(paths):
            pages = self.term_pages([*files, *(f for report in reports for f in report.files)])
            mine = replace(task, stage=f"n{place}-{number}-", pages=tuple(map(str, pages)))
            reports += self._ingested(self.folder / path, mine)
        return reports

    def _ingested(self, rows: Any, task: IngestTask) -> list[IngestReport]:
        """The first stage; where terms collide it runs again, with second ids for some of them."""
        while True:
            reports = list(self.runner.ingest(rows, replace(task, scheme=self.scheme)))
            try:
                if losers := [text for report in reports for text in report.losers]:
                    raise CollisionError(losers)
                self._compare([f for report in reports for f in report.files])
            except CollisionError as error:
                self.displace(error)
            else:
                return reports

    def _lag(self, number: int, reports: Sequence[IngestReport]) -> Lag:
        """How far the frontier is behind the newest input; where that cannot be known, behind what has been read."""
        known = self.options.waiting if self.trace is not None else None
        newest, waiting = known(number, reports) if known else (None, None)
        newest = self.frontier.greatest if newest is None else newest
        behind = newest - self.frontier.value if newest is not None and self.frontier.value > BEFORE_TIME else None
        return Lag(max(0, behind) if behind is not None else None, waiting)

    def _seen(self, reports: Sequence[IngestReport]) -> None:
        """Takes note of what came: partitions, and the first time of each stream and of all."""
        for report in reports:
            for stream, seen in report.streams.items():
                for partition, (last_time, last_offset) in seen.last.items() if stream in self.streams else ():
                    self.frontier.seen(partition, stream, last_time, last_offset)
                if seen.first is not None:
                    self.state.firsts[stream] = min(seen.first, self.state.firsts.get(stream, seen.first))
                    self.state.first = seen.first if self.state.first is None else min(self.state.first, seen.first)
            self.frontier.suspected(report.suspects)

    def _tell_elements(self, files: Sequence[SlotFile]) -> None:
        """The times of the elements up to the frontier: where rows of last-n windows end, which the statistics must know."""
        for stream in self.tables:
            times = self.elements(stream, files)
            for planner in self.planners.values():
                planner.elements[stream] = times

    def _step(self, program: CompiledProgram, number: int, after: int, upto: int, files: Sequence[SlotFile]) -> EvaluationStep:
        renewed = program.id in self.state.renewed  # what was answered then is in a file, and all else begins anew
        previous = int(NOWHEN) if renewed else self.state.reported.get(program.id, int(NOWHEN))
        found = np.empty(0, np.int64)
        first = min((self.state.firsts[s] for s in program.streams if s in self.state.firsts), default=None)
        if not program.windows and after < program.report.origin("") <= upto:
            found = np.array([program.report.origin("")], np.int64)
        elif first is not None and upto > after:
            times = self.arrivals.in_order()
            moves = {w.name: self.moves(w, files, upto) for w in program.windows if w.every}
            found = instants(program.windows, program.report, times, first, after, upto, moves)
        step = self.bare_step(program, number, after, upto, np.concatenate([np.array([previous], np.int64), found]), files)
        return self.planned(program, step, walk=upto > after)

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

    def _commit(
        self,
        number: int,
        files: list[SlotFile],
        done: Evaluated,
        steps: Mapping[str, EvaluationStep],
        rejected: Sequence[RejectSpool],
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
                self.arrivals.times[stream].forget(bound)
        failures = self.merging.failures
        live, dropped = self.merging.absorb_finished(kept_files.files, number, self.frontier.value), kept_files.dropped
        live = [*self.arrivals.merged(number, live), *self.arrivals.write_waiting(number, self.frontier.value)]
        totals = dict(self.state.totals)
        streams = [seen for report in reports for stream, seen in report.streams.items() if stream in self.streams]
        chunks = [f for finished in done.finished.values() for f in finished]
        decisions = [d for p in self.planners.values() for b in p.blocks.values() for d in b.decisions.values()]
        for name, amount in (
            ("elements", sum(s.elements for s in streams)),
            ("late", sum(s.late for s in streams)),
            ("rejected", sum(map(len, rejected))),
            ("answers", sum(f.answers for f in chunks)),
            ("switches", sum(d.switched for d in decisions)),
            ("batches", 1),
            ("failed merges", self.merging.failures - failures),
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
            list(self.scheme.displaced),
            self.query,
            {**self.state.digests, **self.sink.digests, **({"trace": self.trace.digest} if self.trace is not None else {})},
        )
        write_knowledge(self.folder / state.knowledge, self.planners, self.arrivals.counted)
        gone = {f.path for f in [*self.state.files, *files]} - {f.path for f in live}
        gone |= {f.path for shares in done.shares.values() for report in shares for f in report.fresh}
        gone |= {path for f in chunks for path in (f.path, f.fed) if path} | ({self.state.knowledge} - {""})
        gone |= {r.path for r in rejected if r.spooled}
        self.log.write(state)
        self.state = state
        self.schedule_deletion(number, gone)
        self._forget(number)
        if self.population is not None:
            self.population.committed(number)

    def _forget(self, number: int) -> None:
        reading = self.merging.reading
        ready = [paths for doomed, paths in self.scheduled_deletions if doomed <= number - 2]
        for path in set().union(*ready) - reading:
            disk.delete(self.folder / path)
        kept = [(number, paths & reading) for paths in ready if paths & reading]  # as long as a merge reads them
        self.scheduled_deletions = [*kept, *self.scheduled_deletions[len(ready) :]]


def check_ended(driver: Driver) -> None:
    """After a replay: everything must have been seen."""
    if driver.frontier.finite and not driver.frontier.ended:
        raise RunError("the replay ended before its last element was seen: the checkpoint is damaged; use another folder")
