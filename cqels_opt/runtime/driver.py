"""The micro-batch, from its elements to its commit record. The runner's tasks read and compute rows; the driver makes all decisions.

A batch ingests elements into slots, moves the frontier, updates the statistics, chooses plans, evaluates them, writes the answers and
commits. A batch that runs again overwrites what it wrote. The driver handles counts, plans and file names, never rows.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cqels_opt.errors import CheckpointError, DataError, RunError
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.evaluation_step import NO_INSTANT, EvaluationStep, StepFiles
from cqels_opt.operators.observed import Observed
from cqels_opt.operators.rows import Ints
from cqels_opt.rdf.ids import CollisionError
from cqels_opt.rdf.streams import how_to_skip
from cqels_opt.runtime.batch_commits import BETWEEN_RECORDS, BatchCommits
from cqels_opt.runtime.batch_records import BatchRecords
from cqels_opt.runtime.ingest import IngestReport, IngestTask
from cqels_opt.runtime.ingest_state import IngestState
from cqels_opt.runtime.interfaces import ReadsByQuery
from cqels_opt.runtime.limits import NO_LIMITS
from cqels_opt.runtime.micro_batch import MicroBatch
from cqels_opt.runtime.mid_batch_planning import evaluate_in_attempts
from cqels_opt.runtime.optimizer_checkpoint import read_optimizer_state
from cqels_opt.runtime.phase_timer import PhaseTimer
from cqels_opt.runtime.quotas import Quotas, ResourceUsage
from cqels_opt.runtime.reconfiguration import Reconfiguration
from cqels_opt.runtime.run_state import FOLDERS, RunState
from cqels_opt.state.commit_log import Commit
from cqels_opt.state.pending_counts import LostOptimizerStateError
from cqels_opt.state.slot_indexes import INDEXED_FROM
from cqels_opt.state.task_files import task_path
from cqels_opt.storage import sealed_files
from cqels_opt.trace.records import TraceRecord
from cqels_opt.windows.instants import drained, instants

MERGE_TIMEOUT = 30.0
"""Seconds to wait at the end for merges, which would fail if the session stopped."""


class Driver(RunState):
    """One run over one checkpoint."""

    def open(self) -> None:
        """See :meth:`RunState.open`."""
        self.reconfiguration, self.records = Reconfiguration(self), BatchRecords(self)
        self.quotas = Quotas(self.options.limits, self.folder, self.catalog)
        self.commits = BatchCommits(self, self.quotas)
        self._rows = 0  # of the last delta
        self._instants: dict[Hashable, Ints] = {}  # of the stage, by windows and report policies
        keep = sealed_files.hold if self.options.commit_every else sealed_files.release  # also after a run that could not begin
        for part in BETWEEN_RECORDS:
            keep(self.folder / part)
        self.restore(None)
        self.quotas.resume(self.state.batch)
        if self._changed and self.catalog is not None and self.catalog.changed:
            raise CheckpointError(
                f"{self.folder}: queries were added or removed during the run: start it with the queries of its first start; "
                "run.add and run.remove change them"
            )
        self.log.sweep(FOLDERS)

    def restore(self, batch: int | None) -> None:
        """Restores the state before a batch (None: after the last one), and cuts back what a killed process left half done."""
        if batch is not None:
            self.log.check_back(batch)
        found = self.log.last() if batch is None else self.log.before(batch)
        if batch is not None:
            self.log.forget_from(batch)  # before the outputs are cut: a record never names more of them than there is
            self.scheduled_deletions = [(number, paths) for number, paths in self.scheduled_deletions if number < batch]
        self.state = found or Commit(-1)
        self.frontier.restore(self.state.frontier or self._fresh_frontier)
        self.sink.restore(self.state.lengths, self.state.digests)
        self.records.forget()
        if self.trace is not None:
            self.trace.restore(self.state.lengths.get("trace", 0), self.state.digests.get("trace", ""))
        self.rejects.restore(self.state.lengths)
        if self.options.files is not None:
            self.options.files.restore(self.state.lengths)
        if self.catalog is not None:
            self.catalog.know(self.state.displaced, self.term_pages(self.state.files))
        self.set_programs(
            [*self.compiled.values()] if self.catalog is None else self.catalog.before(self.state.batch + 1, self.log.oldest)
        )
        self.ingest_state = IngestState(self.folder, self.all_streams, self.options.tiers, self.state.files, self.note)
        self.new_planners()
        self._changed = self.state.batch >= 0 and self.state.query != self.identity_digest
        if self.state.optimizer:
            readers = {} if self._changed else self.planners  # the statistics of another query are of other relations
            try:
                self.ingest_state.resume(self.state.files, self.frontier.value)
                self.ingest_state.counted = read_optimizer_state(self.folder, self.state.optimizer, readers)
            except LostOptimizerStateError as error:
                self.note(f"statistics of the optimizer are lost and are counted again: {error}")
                self.reconfiguration.forget_statistics()

    def batch(self, number: int, rows: Any) -> list[TraceRecord]:
        """Runs a micro-batch, from its elements to its commit record; returns its trace records.

        ``rows`` is what the runner reads, or a function that returns it. If the batch was done or begun before, the state first goes back
        to the beginning of the batch, and how its input is read may depend on that. Queries that read no stream are answered once, by
        their first batch, which has no rows. CheckpointError if a newer run of this process has taken the checkpoint.
        """
        with self.log.working():
            return self._whole_batch(number, rows)

    def _whole_batch(self, number: int, rows: Any) -> list[TraceRecord]:
        self.deletion.wait()  # a batch that runs again may write files of the same names
        if self.catalog is not None and self.catalog.has_changes() and self.has_caught_up and self.log.has_waiting_record:
            self.commits.write_record()  # a batch that makes changes is the first that a kill repeats
        if self.log.begin(number, self.state.batch, self.options.allow_gap):
            self.restore(number)
        rows = rows() if callable(rows) else rows
        try:
            batch = self._begin(number)
            self._ingest(batch, rows)
            for place in range(len(self.network.stages)):
                self._evaluate_stage(batch, place)
        finally:
            self.runner.end()
        jobs = self.runner.jobs  # before the sink, whose own jobs are the user's
        batch.clock.lap("execute")
        observed = self._observe(batch)
        self._emit(batch)
        batch.clock.lap("commit")
        for planner in self.planners.values():
            planner.price_designs()
        batch.clock.lap("optimize")
        notices = self.records.notices(batch)
        if self.options.files is not None:
            batch.lengths |= self.options.files.put()
        batch.clock.lap("commit")
        records = self.records.of(batch, observed, jobs, notices, self.quotas.failed_with(number, self.programs))
        if self.trace is not None:
            batch.lengths["trace"] = self.trace.put(records)
        self.notices.clear()
        self.commits.commit(batch)
        self._rows = batch.rows
        return records

    # -------------------------------------------------------------- the phases of a batch
    def _begin(self, number: int) -> MicroBatch:
        """Starts a batch: queries that were added or removed, and another version of the static data, count from here on."""
        clock, changed = PhaseTimer(), False
        self.runner.begin(number, self.catalog.names() if self.catalog is not None else list(self.planners))
        for part in BETWEEN_RECORDS if self.runner.parallelism > 1 else ():  # other processes read the files from now on
            sealed_files.settle(self.folder / part)
            sealed_files.release(self.folder / part)
        self.log.persist_identity()
        if self._changed:
            self.reconfiguration.rebuild_state(number)
            self.runner.end()  # queries that are registered now need the slots of these tasks
            self._changed = False
        if self.catalog is not None:
            changed = self.reconfiguration.apply_catalog(number, self.catalog)
        after, store = self.frontier.value, self.programs[0].store
        pages = tuple(map(task_path, self.term_pages(self.state.files)))
        keys = self.index_keys() if self._rows >= INDEXED_FROM else {}
        task = IngestTask(
            folder=task_path(self.folder),
            batch=number,
            streams=self.all_streams,
            shapes=self.shapes,
            store=store,
            scheme=self.scheme,
            frontier=after,
            tables=self.tables,
            pages=pages,
            keys=keys,
            momentary=self.momentary,
            lateness=self.frontier.lateness,
        )
        # a batch that runs again, also on another machine, begins with the same decisions
        if changed or not self.options.commit_every:
            self.log.save()
        refused = self.options.refused_in(number) if self.options.refused_in is not None else {}
        return MicroBatch(number, after, task, [*self.state.files], clock, refused=refused)

    def _ingest(self, batch: MicroBatch, rows: Any) -> None:
        """Reads the elements into slots and moves the frontier."""
        batch.reports = self._ingested(rows, batch.task) if self.streams else []
        batch.rejected = [report.rejected for report in batch.reports]
        if any(batch.rejected) and not self.options.skip_bad:
            raise DataError(f"{self.rejects.first(batch.rejected)}; {how_to_skip()}")
        self._add_slots(batch, batch.reports)
        self._reached = self.frontier.advance(self._idle(batch.number, batch.reports))
        if not self.streams:
            self._reached = self.frontier.value = max(batch.after, *(p.report.origin("") for p in self.programs))
        elif self.catalog is not None:
            self.log.note_reached(self._reached)

    def _add_slots(self, batch: MicroBatch, reports: Sequence[IngestReport]) -> None:
        batch.files += [f for report in reports for f in report.files]
        self._seen(reports)
        self.ingest_state.add(reports)

    def _evaluate_stage(self, batch: MicroBatch, place: int) -> None:
        """Plans and evaluates the queries of one stage of the network, over what earlier stages emitted."""
        stage, number, reports = self.network.stages[place], batch.number, batch.reports
        if place:
            reports = self._fed(batch, stage, place)
            self._add_slots(batch, reports)
            batch.reports += reports
        upto = {p.id: self._upto(p) for p in stage}
        self.frontier.value = max(self.frontier.value, *upto.values())
        batch.clock.lap("ingest")
        batch.counts |= self.ingest_state.released(reports, self.frontier.value)
        self.shared_windows.begun = None if self.ingest_state.counts_lost else self.ingest_state.begun(self.frontier.value)
        self.update_elements(batch.files)
        for name, end in upto.items():
            self.planners[name].advance(batch.counts, batch.after, end)
        batch.clock.lap("statistics")
        terms = [f for f in batch.done.kept if f.kind == "terms"]  # of earlier stages
        files = self.step_files([*batch.files, *terms])
        self._instants.clear()
        bare = {p.id: self._step(p, number, batch.after, upto[p.id], files) for p in stage}
        batch.clock.lap("execute")
        steps = {p.id: self.planned(p, bare[p.id], sample=upto[p.id] > batch.after) for p in stage}
        batch.clock.lap("optimize")
        if max(upto.values()) > batch.after:
            parts = self.options.parts or self.shares(batch.rows)
            methods = {name: self.planners[name].physical(parts) for name in steps}
            steps |= {name: replace(steps[name], joins=joins) for name, joins in methods.items() if joins}
            joint = self._answers_together(number)
            found = evaluate_in_attempts(self, [self.task_of(p, steps[p.id], joint) for p in stage], parts)
            batch.done.shares |= found.shares
            batch.done.finished |= found.finished
        batch.steps |= steps
        batch.clock.lap("execute")

    def _answers_together(self, number: int) -> bool:
        """Whether the answers are lines that need not be withheld or sent by query."""
        free = self.options.limits == NO_LIMITS and not self.quotas.failed_until(number)
        return free and self.sink.format == "jsonl" and not isinstance(self.sink, ReadsByQuery)

    def _observe(self, batch: MicroBatch) -> dict[str, dict[str, Observed]]:
        """Gives the planners what their operators did in the batch."""
        observed = batch.observed(self.planners)
        for program, blocks in observed.items():
            for block, total in blocks.items():
                planner = self.planners[program].blocks[block]
                planner.observe(total)
                if self.trace is not None:
                    planner.look_back()
        batch.clock.lap("optimize")
        return observed

    def _emit(self, batch: MicroBatch) -> None:
        """Writes the answers of the queries that are within their limits, and the rejected elements."""
        # at once: the commit makes all files durable that exist
        self.deletion.begin(f.path for reports in batch.done.shares.values() for report in reports for f in report.fresh)
        usage = ResourceUsage(batch.done.shares, batch.done.finished, batch.done.after(batch.files), self.folder)
        self.quotas.within(batch.number, self.programs, usage, self.sink.format, self.network.feeds)
        chunks = [(p, f) for p in self.programs for f in batch.done.finished.get(p.id, []) if f.answers and (f.path or f.lines)]
        batch.clock.lap("commit")
        put = self.sink.put(batch.number, chunks, self.folder)
        batch.clock.lap("sink")
        # outputs that this run does not write keep their lengths, for a run that writes them again
        batch.lengths = {**self.state.lengths, **put, **self.rejects.put(batch.rejected)}
        if self.sink.format == "jsonl":  # it has read the lines; frames may be read later
            self.deletion.begin(f.path for _, f in chunks if f.path)

    def _idle(self, number: int, reports: Sequence[IngestReport]) -> Collection[str | int]:
        """The streams and partitions that no longer hold the frontier back from this batch on."""
        if self.idle is None:
            return ()
        brought: set[str | int] = {stream for report in reports for stream in report.streams}
        brought |= {partition for report in reports for seen in report.streams.values() for partition in seen.last}
        decided = self.idle.decide(number, brought, {n: p.stream for n, p in self.frontier.partitions.items()})
        if decided:
            self.log.save()  # before answers leave that depend on it
        return decided

    def _upto(self, program: CompiledProgram) -> int:
        """The end of a query's step: the frontier, or at the end of input with ``--drain`` the instant when its windows are empty."""
        if self.options.drain and self.frontier.ended and (greatest := self.frontier.greatest) is not None:
            times = self.ingest_state.in_order()
            greatest = max([greatest, *(int(times[s][-1]) for s in program.streams if len(times[s]))])
            return max(self._reached, drained(program.windows, program.report, times, greatest))
        return self._reached

    def _fed(self, batch: MicroBatch, stage: Sequence[CompiledProgram], place: int) -> list[IngestReport]:
        """Ingests what queries of earlier stages have emitted in this batch and queries of this stage are the first to read."""
        files = [*batch.files, *batch.done.kept]
        before = {s for programs in self.network.stages[:place] for program in programs for s in program.streams}
        read = {s for program in stage for s in program.streams} - before
        makers = [name for name, stream in self.network.feeds.items() if stream in read]
        paths = [report.fed for name in makers for report in batch.done.finished.get(name, []) if report.fed]
        reports: list[IngestReport] = []
        for number, path in enumerate(paths):
            pages = self.term_pages([*files, *(f for report in reports for f in report.files)])
            mine = replace(batch.task, stage=f"n{place}-{number}-", pages=tuple(map(task_path, pages)))
            reports += self._ingested(self.folder / path, mine)
        return reports

    def _ingested(self, rows: Any, task: IngestTask) -> list[IngestReport]:
        """The first stage. If ids of terms collide it runs again, with second ids for some terms."""
        while True:
            reports = list(self.runner.ingest(rows, replace(task, scheme=self.scheme)))
            try:
                if losers := [text for report in reports for text in report.losers]:
                    raise CollisionError(losers)
                if len(reports) > 1:  # a task compares its own terms
                    self._compare([f for report in reports for f in report.files])
            except CollisionError as error:
                self.displace(error)
            else:
                return reports

    def _seen(self, reports: Sequence[IngestReport]) -> None:
        """Records the partitions of the input, and the first time of each stream and of all streams."""
        for report in reports:
            for stream, seen in report.streams.items():
                for partition, (last_time, last_offset) in seen.last.items() if stream in self.streams else ():
                    self.frontier.seen(partition, stream, last_time, last_offset)
                if seen.first is not None:
                    self.state.firsts[stream] = min(seen.first, self.state.firsts.get(stream, seen.first))
                    self.state.first = seen.first if self.state.first is None else min(self.state.first, seen.first)
            self.frontier.suspected(report.suspects)

    def _step(self, program: CompiledProgram, number: int, after: int, upto: int, files: StepFiles) -> EvaluationStep:
        """The step of a program's windows, and its instants, without plans."""
        renewed = program.id in self.state.renewed  # its last answers are in a file; everything else starts again
        previous = int(NO_INSTANT) if renewed else self.state.reported.get(program.id, int(NO_INSTANT))
        found = np.empty(0, np.int64)
        first, since = self._first(program, upto), self.state.since.get(program.id)
        if not program.windows and after < program.report.origin("") <= upto:
            found = np.array([program.report.origin("")], np.int64)
        elif first is not None and upto > after:
            key = (program.windows, program.report.key, first, after, upto, since)
            if key not in self._instants:
                times = self.ingest_state.in_order()
                moves = {w.name: self.moves(w, files, upto) for w in program.windows if w.every}
                if since is not None:
                    times, moves = ({name: _later(line, since) for name, line in of.items()} for of in (times, moves))
                self._instants[key] = instants(program.windows, program.report, times, first, after, upto, moves)
            found = self._instants[key]
        return self.bare_step(program, number, after, upto, np.concatenate([np.array([previous], np.int64), found]), files)

    def _first(self, program: CompiledProgram, upto: int) -> int | None:
        """The time of the first element that a program sees; None before there is one (up to ``upto``, if it began with empty windows)."""
        state = self.state
        if (since := state.since.get(program.id)) is None:
            return min((state.firsts[s] for s in program.streams if s in state.firsts), default=None)
        if program.id not in state.began:
            times = self.ingest_state.in_order()
            first = min((int(own[0]) for s in program.streams if len(own := _later(times[s], since))), default=None)
            if first is None or first > upto:
                return None
            state.began[program.id] = first
        return state.began[program.id]

    def close(self) -> None:
        """The run has ended."""
        self.compaction.wait(MERGE_TIMEOUT)
        self.deletion.wait()
        for part in BETWEEN_RECORDS if self.log.is_newest else ():
            sealed_files.release(self.folder / part)
        self.runner.close()


def check_ended(driver: Driver) -> None:
    """Raises RunError if a replay ended before its last element was read."""
    if driver.frontier.finite and not driver.frontier.ended:
        raise RunError("the replay ended before its last element was seen: the checkpoint is damaged; use another folder")


def _later(times: Ints, after: int) -> Ints:
    """Those of sorted times that are after another one."""
    return times[np.searchsorted(times, after, "right") :]
