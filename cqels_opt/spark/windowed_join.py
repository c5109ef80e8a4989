"""A join with windows over a stream: the rows of windows are kept, and each micro-batch adds the terms of the delta rule."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import time as clock_time
from typing import Any, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from cqels_opt.errors import CheckpointError, InputError, LimitError, RunWarning
from cqels_opt.lod.locations import local_path
from cqels_opt.plans.explain import Format, check_request
from cqels_opt.relational.counting import Counted
from cqels_opt.relational.planner import Counts, JoinDecision, JoinPlanner
from cqels_opt.relational.progress import Progress
from cqels_opt.relational.retained_rows import ROWS, RetainedRows, identity_of, merged
from cqels_opt.relational.spec import JoinSpec
from cqels_opt.runtime.output_owner import Owner, claim_file
from cqels_opt.runtime.phase_timer import PhaseTimer
from cqels_opt.spark.batch_jobs import BatchJobs
from cqels_opt.spark.catalyst import analyzed as plan_of
from cqels_opt.spark.hadoop_state import HadoopRetainedRows
from cqels_opt.spark.job_descriptions import described
from cqels_opt.spark.job_descriptions import joined as joins_of
from cqels_opt.spark.join_counts import broadcast_bytes, row_width, spark_cost, spec_keys, static_counts
from cqels_opt.spark.join_inputs import check_names, key_types, satisfying, time_columns, unresolved, with_times
from cqels_opt.spark.join_plans import JoinPlans
from cqels_opt.spark.join_rows import AddedRows, Windows, read_rows, write_rows
from cqels_opt.spark.join_run import JoinOptions, JoinRun, StateFolder, analyzed
from cqels_opt.spark.relation_identity import content_of
from cqels_opt.state.claim import Claim
from cqels_opt.storage.compaction_policy import MERGED
from cqels_opt.trace import display
from cqels_opt.trace.records import Milliseconds, TraceRecord
from cqels_opt.trace.writer import TraceFile
from cqels_opt.windows.binding_slots import SlotFile

Times: TypeAlias = Mapping[str | None, tuple[str, str]]
"""The columns of :func:`time_columns`, by the stream's column of times."""
Versions: TypeAlias = Callable[[int], DataFrame]
"""Maps the id of a micro-batch to a relation's DataFrame."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A declared join: its specification, the DataFrames of its relations without the stream, and the columns of the answers."""

    spec: JoinSpec
    frames: Mapping[str, DataFrame | Versions]
    projection: tuple[str, ...]

    def current(self, name: str, number: int) -> DataFrame:
        """The DataFrame of a relation in a micro-batch."""
        found = self.frames[name]
        if not callable(found):
            return found
        version = found(number)
        if not isinstance(version, DataFrame):
            raise InputError(f"relation({name!r}): the function returned {type(version).__name__}; it must return a DataFrame")
        if version.isStreaming:
            raise InputError(
                f"relation({name!r}): the function returned a stream; it must return a DataFrame of rows that are there"
            )
        return version


class WindowedJoin(JoinRun):
    """A join of windows over a stream, whose rows expire or are late, or of a stream with event times alone."""

    _again = "run again in the order of the query, without hints"
    _runner: BatchJobs

    def __init__(self, spark: SparkSession, declared: Declared, options: JoinOptions) -> None:
        if (declared.spec.windowed or declared.spec.stateful) and spark.conf.get("spark.sql.caseSensitive") == "true":
            raise InputError("joins with windows ignore the case of names: set spark.sql.caseSensitive to false")
        self._session, self._declared, self.spec, self.then = spark, declared, declared.spec, options.then
        self._mode, self._streams = options.mode, self.spec.event_times(options.lateness)
        self._needs_all = self.spec.stateful and not options.allow_gap
        self._given, trace = options.state is not None, options.trace
        self._state = StateFolder(options.state, temporary=True)
        folder, uri = self._state.folder, self._state.uri
        assert folder is not None
        claim, identity = Claim(folder if self._given else None, uri), identity_of(self.spec, options.lateness)
        self.kept = RetainedRows(folder, identity) if uri is None else HadoopRetainedRows(spark, uri, folder, identity)
        self._trace = TraceFile(local_path(trace, "trace").absolute(), folder) if trace is not None else None
        self._earlier = 0, ""  # without a state, the trace of a run before is continued
        if self._trace is not None:
            committed = self.kept.state.lengths.get("trace", 0)
            self._trace_hold = claim_file(self._trace.path, Owner(self.kept.run, folder), committed)
            if not self._given:
                self._earlier = self._trace.written()
        self._restore_trace()
        self._runner = self._runner_on(spark)
        self._planner: JoinPlanner | None = None
        self._types: tuple[tuple[object, ...], Mapping[str, t.DataType]] = (), {}
        self._plans, self._number = JoinPlans(self.spec, declared.projection), -1
        self._counts: dict[str, Counts] = {}
        self._versions: dict[str, DataFrame] = {}
        self._statics: dict[str, DataFrame] = {}
        self._contents: dict[str, tuple[object, ...]] = {}  # what was counted
        self._notes: tuple[str, ...] = ()  # for the next trace record
        super().__init__(options.name, claim, options.limits, options.listener)

    @property
    def _last_planner(self) -> JoinPlanner | None:
        """See :class:`JoinRun`."""
        return self._planner

    # ------------------------------------------------------------------ inspection
    def statistics(self) -> dict[str, Any]:
        """Rows, distinct keys and join sizes after the last micro-batch."""
        with self._lock:
            return self._ready(0, self._session).summary()

    def explain(self, format: Format = "text", alternatives: int = 0, analyze: bool = False) -> str:
        """See :class:`JoinRun`; before a micro-batch, from the statistics of the static relations."""
        check_request(format, alternatives)
        with self._lock:
            planner = self._ready(0, self._session)
            if not planner.decisions:
                self._decided(planner, self._session)
            return (
                analyzed(planner, format, alternatives, self.last, self._runner)
                if analyze
                else planner.explain(format, alternatives)
            )

    def _repr_html_(self) -> str:
        with self._lock:
            plans = self.explain("json") if self._planner is not None else ""  # no table is read to display this
            return display.live(self.name, self.last, self.switches, self.kept.state.totals, self.failure, plans)

    # ------------------------------------------------------------------ a batch
    def _fail(self, batch_id: int, error: LimitError) -> None:
        try:
            super()._fail(batch_id, error)
        finally:
            self.kept.publish()

    def _batch(self, frame: DataFrame, number: int) -> None:
        if not self._given and self._needs_all and self.kept.state.batch < 0 and number != 0:
            raise CheckpointError(
                f"the job continues at batch {number}, but the join has no state of the batches before: give it state=FOLDER; "
                "allow_gap=True continues without them"
            )
        if self.kept.begin(number, allow_gap=not self._needs_all):
            self._planner = None
            self._restore_trace()
        if number <= self._number:  # its files are others now, and Spark takes plans over one folder for equal
            self._plans = JoinPlans(self.spec, self._declared.projection)
        self._number = number
        clock, session = PhaseTimer(), frame.sparkSession
        self._begin(self._runner, session, number)
        planner = self._ready(number, session, frame)
        windowed = self.spec.widest > 0
        progress, times = self.kept.progress, time_columns(frame.columns, (stream.column for stream in self._streams))
        before = progress.frontier if windowed else number
        timed = with_times(frame, times, number, before if windowed and progress.begun else None)
        self.kept.check_columns(frame.dtypes, _names(times))
        if self.spec.stateful:
            path = self.kept.path(number)
            with self._runner.described("write the rows of windows"):
                write_rows(timed, self.kept.place(path))
            new = read_rows(session, timed.schema, [self.kept.place(path)])
        else:
            new = timed.persist()
        try:
            self._joined(frame, new, times, number, before, planner, clock)
        finally:
            if not self.spec.stateful:
                new.unpersist()

    def _joined(
        self, frame: DataFrame, new: DataFrame, times: Times, number: int, before: int, planner: JoinPlanner, clock: PhaseTimer
    ) -> None:
        """Counts the new rows, plans, computes the added rows, and commits."""
        spec, windowed = self.spec, self.spec.widest > 0
        types = self._types_of(frame, self._versions)
        with self._resolved(frame):
            counting = self._plans.counting(Windows(new, times), frame.columns, types, number)
        with self._runner.described("count the join keys of the stream"):
            counted = counting.take(number)
        clock.lap("ingest")
        latest = {
            str(time): last for time, last in zip(times, counted.latest, strict=True) if time is not None and last is not None
        }
        progress = self.kept.progress.after(self._streams, latest if windowed else {}, round(1000 * clock_time()))
        after = progress.frontier if windowed else number + 1
        self._notes += tuple(
            f"the stream with the time {name} is idle: the others continue without it"
            for name in progress.idle
            if name not in self.kept.progress.idle
        )
        chunks = self.kept.live(before, spec.widest)
        planner.advance(counted, before, after)
        clock.lap("statistics")
        decisions = self._decided(planner, frame.sparkSession)
        clock.lap("optimize")
        old = read_rows(new.sparkSession, new.schema, [self.kept.place(c.path) for c in chunks]) if chunks else None
        windows = Windows(new, times, old, before)
        jobs = self._runner.jobs  # before the function, whose own jobs are the user's
        with self._resolved(frame):
            found = self._plans.added(windows, frame.columns, self._statics, decisions, planner.rule.order)
        clock.lap("execute")

        def as_written() -> AddedRows | None:
            others = planner.as_written()
            if _same(decisions, others):
                return None
            return self._plans.added(windows, frame.columns, self._statics, others, planner.rule.order)

        with (
            self._runner.described(joins_of(d.choice.plan for d in decisions.values())),
            self._answered(found, number, as_written) as (found, fallback),
        ):
            rows, observed = found.observed()
        clock.lap("sink")
        planner.observe(observed, chosen=fallback is None)
        with self._runner.described("merge the rows of windows"):
            chunks = self._with_new(number, chunks, counted, new)
        clock.lap("commit")
        record = self._record(number, counted, progress, planner, clock.done(), jobs, rows, fallback)
        lengths = {"trace": self._trace.put([record])} if self._trace is not None else {}
        totals = {
            "batches": 1,
            "elements": counted.elements,
            "late": counted.late,
            "rejected": counted.rejected,
            "answers": rows,
        }
        digests = {"trace": self._trace.digest} if self._trace is not None else {}
        self.kept.commit(number, chunks, progress, frame.dtypes, _names(times), planner, totals, lengths, digests)
        self.last = record
        self._recorded(record)
        if why := self.limits.broken(bytes=self.kept.bytes if self.limits.bytes is not None else 0):
            raise LimitError(why)

    def _decided(self, planner: JoinPlanner, session: SparkSession) -> Mapping[str, JoinDecision]:
        """The plans for this batch, whose broadcasts are those below Spark's threshold by the estimated bytes of each side."""
        planner.choose()
        if all(relation.name in planner.widths for relation in self.spec.relations):  # not before a micro-batch
            for source in planner.sources:
                planner.broadcast_below(source, broadcast_bytes(session))
        return planner.decisions

    @contextmanager
    def _resolved(self, frame: DataFrame | None) -> Iterator[None]:
        """Texts of the user that Spark cannot resolve are an InputError with the columns that there are."""
        try:
            yield
        except AnalysisException as error:
            columns = {r.name: frame.columns for r in self.spec.streams} if frame is not None else {}
            raise unresolved(error, columns | {name: version.columns for name, version in self._versions.items()}) from error

    def _with_new(self, number: int, chunks: list[SlotFile], counted: Counted, new: DataFrame) -> list[SlotFile]:
        """The rows that later batches can join with; merges many small folders."""
        if not self.spec.stateful or counted.times is None:
            return chunks
        rows = max(extent.rows for extent in counted.extents.values())
        chunks = [
            *chunks,
            SlotFile(ROWS, self.kept.path(number), rows=rows, least=counted.times[0], greatest=counted.times[1]),
        ]
        if some := self.kept.due(chunks):
            path = self.kept.path(number, MERGED)
            frame = read_rows(new.sparkSession, new.schema, [self.kept.place(chunk.path) for chunk in some])
            write_rows(frame, self.kept.place(path), sum(chunk.rows for chunk in some))
            chunks = [merged(path, some), *(chunk for chunk in chunks if chunk not in some)]
        return chunks

    def _record(
        self,
        number: int,
        counted: Counted,
        progress: Progress,
        planner: JoinPlanner,
        ms: Milliseconds,
        jobs: int,
        answers: int,
        fallback: str | None,
    ) -> TraceRecord:
        windowed = self.spec.widest > 0
        notes, self._notes = self._notes, ()
        windows = {r.name: int(planner.statistics.windows[r.name].card()) for r in self.spec.streams}
        return TraceRecord(
            number,
            self.name,
            counted.times if windowed else None,
            progress.frontier if windowed and progress.begun else None,
            counted.elements,
            late=counted.late,
            rejected=counted.rejected,
            windows=windows,
            deltas=planner.deltas(),
            epoch=planner.statistics.epoch,
            ms=ms,
            jobs=jobs,
            fallback=fallback or planner.fallback,
            notices=notes,
            answers=answers,
            cost_unit=planner.model.unit,
        )

    # ------------------------------------------------------------------ static relations
    def _ready(self, number: int, session: SparkSession, frame: DataFrame | None = None) -> JoinPlanner:
        """The planner, with the current versions of static relations."""
        spec = self.spec
        if self._planner is not None and frame is None:
            return self._planner
        versions = {relation.name: self._declared.current(relation.name, number) for relation in spec.statics}
        types = self._types_of(frame, versions)
        named = {relation.name: relation for relation in spec.statics}
        for name, version in versions.items():
            if version is not self._versions.get(name):
                with self._resolved(frame):
                    self._versions[name], self._statics[name] = version, satisfying(version, named[name], spec)
            keys = {variable: types[variable] for variable in spec.joins_on(named[name].key)}
            if (content := (*content_of(plan_of(version)), *keys.items())) == self._contents.get(name):
                continue
            with described(session.sparkContext, f"{self.name}: count the join keys of {name}", self._runner.page):
                self._counts[name] = static_counts(self._statics[name], spec_keys(named[name], spec, types))
            if self._planner is not None:
                self._planner.replace(name, self._counts[name])
                self._planner.widths[name] = row_width(plan_of(version), self._counts[name])
            self._contents[name] = content
        if self._planner is None:
            slots = self._runner.parallelism
            counts = {name: self._counts[name] for name in named}
            widths = {name: row_width(plan_of(rows), counts[name]) for name, rows in versions.items()}
            of_stream = row_width(plan_of(frame)) if frame is not None else 1.0
            model = spark_cost(session, slots, max([of_stream, *widths.values()]))
            self._planner = JoinPlanner(spec.layout, counts, model, self._mode)
            if (problem := self.kept.restore_planner(self._planner)) is not None:
                self._planner, self._notes = JoinPlanner(spec.layout, counts, model, self._mode), (problem,)
                warnings.warn(problem, RunWarning, stacklevel=4)
            self._planner.widths = widths
        if frame is not None:
            self._planner.widths |= dict.fromkeys((r.name for r in spec.streams), row_width(plan_of(frame)))
        return self._planner

    def _types_of(self, frame: DataFrame | None, versions: Mapping[str, DataFrame]) -> Mapping[str, t.DataType]:
        """The types of join keys; names are not resolved again while columns and static relations stay the same."""
        key = (None if frame is None else tuple(frame.dtypes), *versions.values())
        if key != self._types[0]:
            frames = {r.key: versions[r.name] for r in self.spec.statics}
            if frame is not None:
                frames |= {r.key: frame for r in self.spec.streams}
            for relation in self.spec.relations:
                if relation.key in frames:
                    check_names(relation.name, frames[relation.key])
            self._types = key, key_types(self.spec, frames)
        return self._types[1]

    def _restore_trace(self) -> None:
        if self._trace is not None:
            state = self.kept.state
            length, digest = self._earlier
            self._trace.restore(state.lengths.get("trace", length), state.digests.get("trace", digest))


def _same(decisions: Mapping[str, JoinDecision], others: Mapping[str, JoinDecision]) -> bool:
    """Whether the decisions are the same plans, and have no hints."""
    return all(str(others[s].choice.plan) == str(d.choice.plan) and not d.broadcasts for s, d in decisions.items())


def _names(times: Times) -> list[str]:
    """The names of internal columns."""
    return [name for pair in times.values() for name in pair]
