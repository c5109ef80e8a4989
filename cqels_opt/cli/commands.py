"""The commands of the command line: each builds an engine and its inputs, runs it, and reports the result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from cqels_opt.cli.options import CalibrateOptions, ExplainOptions, LoadOptions, RunOptions
from cqels_opt.cli.query_requests import (
    QueryRequest,
    mistakes_as_warnings,
    query_requests,
    registration_options,
    warn_of_absent_graphs,
)
from cqels_opt.cli.run_results import LoadReport, Summary, VerifyReport
from cqels_opt.cli.session_settings import jvm_settings, jvm_settings_of_run
from cqels_opt.cli.void_planning import warn_of_disagreement
from cqels_opt.cli.warnings_console import Notices, warn
from cqels_opt.engine import Engine
from cqels_opt.errors import InputError
from cqels_opt.planner import calibration as operator_constants
from cqels_opt.planner import calibration_store
from cqels_opt.planner.explain import explained, explained_now
from cqels_opt.planner.plan_modes import plan_mode
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.rdf.void import read_description
from cqels_opt.runtime.answer_folder import FolderSink
from cqels_opt.runtime.driver import Driver, check_ended
from cqels_opt.runtime.files_read import FilesRead
from cqels_opt.runtime.interfaces import Sink
from cqels_opt.runtime.limits import Limits
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.spark import calibrate as spark_constants
from cqels_opt.spark import prepare
from cqels_opt.spark.files import live_files
from cqels_opt.spark.jvm import JvmSettings
from cqels_opt.spark.kafka import KafkaSink, topic_stream
from cqels_opt.spark.load import load as load_store
from cqels_opt.spark.messages import message_stream, reading_of
from cqels_opt.spark.mixed import MixedRunner, machine_of
from cqels_opt.spark.registered_query import CompiledQuery, population_of
from cqels_opt.spark.run_factory import check_streams, external_streams, make_driver, rejects_of
from cqels_opt.spark.runner import SparkRunner
from cqels_opt.spark.scratch import scratch_folder
from cqels_opt.spark.session import AnySession, DeferredSession, SparkSession, in_one_process, session_of
from cqels_opt.spark.sinks import FileSink, StreamSink
from cqels_opt.spark.stream import MOST_BYTES, StreamRun, chunk_stream, folder_stream
from cqels_opt.spark.tasks import freeze_modules
from cqels_opt.spark.waiting import wait
from cqels_opt.spark.warm_up import warm_up
from cqels_opt.trace.figures import plural
from cqels_opt.trace.progress import Watcher, batches_progress, bytes_progress, watching
from cqels_opt.trace.records import TraceRecord
from cqels_opt.windows.frontier import Frontier, SourcePartition
from cqels_opt.windows.replay import DEFAULT_BATCH, BatchSize, ReplayPlan, ReplaySource, cut

if TYPE_CHECKING:
    from cqels_opt.trace.live import LiveTrace

Inspect: TypeAlias = Callable[[Driver, Sequence[TraceRecord]], None]
"""Gets the driver and each batch's records when the batch is finished."""


# ------------------------------------------------------------------ run
def run(options: RunOptions, watch: Watcher | None = None) -> Summary:
    """Runs a query over files to their end, or over folders or topics until stopped. ``watch`` gets each batch's records."""
    title, earlier = ", ".join(path.name for path in options.queries), options.trace if options.checkpoint is not None else None
    with (
        _workplace(options.checkpoint) as folder,
        _shown(title, options, earlier) as trace,
        _session(folder, jvm_settings_of_run(options), True) as session,
    ):
        requests = _requests(options)  # a mistake in a query is reported without waiting for Spark
        return in_session(session, options, folder, watching(watch, trace.add if trace else None), requests).summary


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run: its summary, Spark's milliseconds of recent batches, and the effective planner settings.

    ``durations`` are those milliseconds by Spark's phases.
    """

    summary: Summary
    milliseconds: tuple[float, ...]
    durations: tuple[dict[str, float], ...]
    settings: tuple[tuple[str, str], ...]


def in_session(
    session: AnySession,
    options: RunOptions,
    folder: Path,
    watch: Watcher | None = None,
    requests: Sequence[QueryRequest] | None = None,
    inspect: Inspect | None = None,
) -> FinishedRun:
    """:func:`run` in an existing session, with its state in ``folder`` (absolute); reads the queries if none are given.

    ``inspect`` gets the driver and the records of each batch.
    """
    began = time.monotonic()
    catalog = population_of(_registered(session, options, folder, requests or _requests(options)), folder)
    freeze_modules()
    given: dict[str, object] = {iri.strip("<>"): place for iri, place in (*options.streams, *options.topics)}
    needed = external_streams(catalog)
    check_streams(needed, given)
    bare = [s.strip("<>") for s in needed]
    one = len(catalog.started.members) == 1
    for iri in given:
        if iri not in bare:
            warn(f"the query does not read stream <{iri}>" if one else f"no query reads stream <{iri}> from outside")
    used = [(iri.strip("<>"), path) for iri, path in options.streams if iri.strip("<>") in bare]
    if options.follow and not needed:
        raise InputError("the query reads no stream, and is answered once: leave --follow out")
    live = options.follow or any(path.is_dir() for _, path in used)
    spark = session_of(session)
    if in_one_process(spark):
        warm_up(spark)
    if options.topics:
        handle, stopped = _follow_topics(spark, catalog, options, folder, watch)
        return _done(handle, options, stopped, 0, began)
    if live and not all(path.is_dir() for _, path in used):
        raise InputError(
            "a run follows folders or replays files, not both at once: give folders for all streams, or files for all"
        )
    if not live:
        handle, stopped, unread = _replay(spark, catalog, options, used, folder, watch, inspect)
    else:
        handle, stopped, unread = _follow(spark, catalog, options, used, folder, watch)
    return _done(handle, options, stopped, unread, began)


def _done(handle: StreamRun, options: RunOptions, stopped: bool, unread: int, began: float) -> FinishedRun:
    summary = _summary(handle, options, stopped, unread, time.monotonic() - began)
    return FinishedRun(summary, handle.milliseconds(), handle.durations(), tuple(handle.runner.settings.items()))


def _replay(
    spark: SparkSession,
    catalog: QueryCatalog,
    options: RunOptions,
    streams: Sequence[tuple[str, Path]],
    folder: Path,
    watch: Watcher | None,
    inspect: Inspect | None = None,
) -> tuple[StreamRun, bool, int]:
    if options.max_ahead is not None:
        raise InputError("--max-ahead is for a live source; a replay has its files whole: correct the times in them")
    needed = external_streams(catalog)
    names = {s.strip("<>"): s for s in needed}
    sources = [ReplaySource(names[iri], tuple(p for i, p in streams if i == iri)) for iri in dict.fromkeys(i for i, _ in streams)]
    ordered = sorted(sources, key=lambda source: needed.index(source.stream))
    batch = options.batch
    size = DEFAULT_BATCH if batch is None else BatchSize(count=batch.elements or 0, duration=batch.duration or 0)
    plan = cut(ordered, folder / "replay", size, options.lateness, options.on_error or "fail", options.time_predicate)
    frontier = _finite(plan, options)
    driver_options = DriverOptions(
        drain=options.drain,
        skip_bad=options.on_error == "skip",
        plan=_mode(options, spark),
        sources={p.partition: p.path for p in plan.partitions},
        rejects=rejects_of(options.trace, folder),
        refused=plan.rejected_file,
        waiting=lambda number, _: (plan.newest, len(plan.chunks) - number - 1),
        continue_changed=options.continue_changed,
        named=len(catalog.started.members) > 1,
        limits=_limits(options),
    )
    runner = _runner(spark, options)
    driver = make_driver(catalog, folder, runner, _sink(spark, options, catalog), frontier, driver_options, options.trace)
    with batches_progress(len(plan.chunks), driver.state.batch + 1) as advance:
        handle = StreamRun(driver, runner, watching(advance, watch, partial(inspect, driver) if inspect else None))
        handle.chunks = [plan.path(number) for number in range(len(plan.chunks))]
        if driver.streams:
            stopped = wait(handle.start(chunk_stream(spark, plan.chunk_folder), folder / "spark", to_the_end=True))
        else:
            stopped = wait(handle.once())
    if not stopped:
        check_ended(driver)
    return handle, stopped, plan.rejected


def _follow(
    spark: SparkSession,
    catalog: QueryCatalog,
    options: RunOptions,
    streams: Sequence[tuple[str, Path]],
    folder: Path,
    watch: Watcher | None,
) -> tuple[StreamRun, bool, int]:
    needed = external_streams(catalog)
    numbers = [(i, path) for iri, path in streams for i, s in enumerate(needed) if s.strip("<>") == iri]
    files = FilesRead(numbers, folder)
    handle = _live(spark, catalog, options, folder, watch, files)
    driver = handle.driver

    handle.files = live_files(folder / "spark", numbers, driver.frontier, options.time_predicate)
    stopped = wait(handle.start(folder_stream(spark, numbers, options.batch_bytes or MOST_BYTES), folder / "spark"))
    for sentence in files.changed():  # since the last batch
        warn(sentence)
    return handle, stopped, 0


def _follow_topics(
    spark: SparkSession, catalog: QueryCatalog, options: RunOptions, folder: Path, watch: Watcher | None
) -> tuple[StreamRun, bool]:
    handle = _live(spark, catalog, options, folder, watch, None)
    topics = {iri.strip("<>"): topic for iri, topic in options.topics}
    streams = handle.driver.streams
    messages = {iri: topic_stream(spark, topics[iri.strip("<>")]) for iri in streams}
    handle.messages = reading_of([messages[iri].payload for iri in streams], handle.driver.frontier)
    return handle, wait(handle.start(message_stream(messages, streams), folder / "spark"))


def _live(
    spark: SparkSession,
    catalog: QueryCatalog,
    options: RunOptions,
    folder: Path,
    watch: Watcher | None,
    files: FilesRead | None,
) -> StreamRun:
    """A run over live sources; the caller attaches them."""
    for what, given in (("--drain", options.drain), ("--batch", options.batch is not None)):
        if given:
            raise InputError(f"{what} is for a replay of files; a live source has no end and is cut by Spark")
    driver_options = DriverOptions(
        skip_bad=options.on_error != "fail",
        plan=_mode(options, spark),
        rejects=rejects_of(options.trace, folder),
        continue_changed=options.continue_changed,
        named=len(catalog.started.members) > 1,
        limits=_limits(options),
        idle_timeout=options.idle_timeout,
        waiting=None if files is None else lambda *_: (None, files.waiting),
        files=files,
    )
    runner = _runner(spark, options)
    frontier = Frontier(external_streams(catalog), options.lateness, options.eager, max_ahead=options.max_ahead)
    driver = make_driver(catalog, folder, runner, _sink(spark, options, catalog), frontier, driver_options, options.trace)
    return StreamRun(driver, runner, watching(watch, Notices()))


def _finite(plan: ReplayPlan, options: RunOptions) -> Frontier:
    frontier = Frontier(plan.streams, options.lateness, options.eager, finite=True)
    for p in plan.partitions:
        frontier.partitions[p.partition] = SourcePartition(
            plan.streams[p.stream], first_known=p.first if p.elements else None, elements=p.elements
        )
    return frontier


def _runner(spark: SparkSession, options: RunOptions) -> SparkRunner:
    if options.plan == "spark" or options.joins == "spark":
        from cqels_opt.spark.joins import JoinRunner

        return JoinRunner(spark, by_spark=options.plan == "spark", debug=options.debug)
    return MixedRunner(spark)


def _mode(options: RunOptions, spark: SparkSession | None = None) -> PlannerOptions:
    """The optimizer's mode. Without a session, the machine that joins is unknown."""
    mode = plan_mode(options.plan, options.fixed, options.cost_model, options.constants, options.joins, options.filters)
    return mode if spark is None else replace(mode, machine=machine_of(spark))


def _sink(spark: SparkSession, options: RunOptions, catalog: QueryCatalog) -> Sink:
    if options.out_topic is not None:
        return KafkaSink(spark, options.out_topic, catalog.programs())
    if options.out is None or str(options.out) == "-":
        return StreamSink()
    if not options.out_folder:
        return FileSink(options.out)
    return FolderSink(options.out.absolute(), catalog.programs if len(catalog.started.members) > 1 else None)


def _limits(options: RunOptions) -> Limits:
    seconds = None if options.max_time is None else options.max_time / 1000
    return Limits(options.max_rows, seconds, options.max_state, options.max_memory)


def _summary(handle: StreamRun, options: RunOptions, stopped: bool, unread: int, seconds: float) -> Summary:
    totals = handle.driver.state.totals
    return Summary(
        batches=totals.get("batches", 0),
        elements=totals.get("elements", 0),
        answers=totals.get("answers", 0),
        late=totals.get("late", 0),
        rejected=totals.get("rejected", 0) + unread,
        switches=totals.get("switches", 0),
        seconds=seconds,
        trace=options.trace,
        rejects=rejects if options.trace is not None and (rejects := rejects_of(options.trace, Path())).exists() else None,
        stopped=stopped,
    )


# ------------------------------------------------------------------ explain, verify, load
def explain(options: ExplainOptions) -> str:
    """The plans of a query, with estimates, before it runs; or those of batches that have run."""
    if options.analyze:
        return _analyzed(options)
    requests = _requests(options.run)
    with _workplace(None) as folder, _session(folder, jvm_settings_of_run(options.run)) as session:
        queries = _registered(session, options.run, folder, requests)
        if options.void is not None:
            warn_of_disagreement(queries[0].engine.store, read_description(options.void), str(options.void))
        programs = population_of(queries, folder).programs()
        return explained(programs, _mode(options.run), options.format, 1000 if options.all else 3)


def _analyzed(options: ExplainOptions) -> str:
    """EXPLAIN ANALYZE: runs the query over its streams without writing answers, and shows the plans of some batches, or of the last."""
    given, alternatives = options.run, 1000 if options.all else 3
    if given.topics or given.follow or any(path.is_dir() for _, path in given.streams):
        raise InputError(
            "explain --analyze reads files from beginning to end: a live source (--follow, a folder, a topic) has no end"
        )
    found: list[str] = []

    def keep(driver: Driver, records: Sequence[TraceRecord]) -> None:
        number = driver.state.batch
        if options.at is None and options.every is None:
            found.clear()
        elif number != options.at and (options.every is None or number % options.every):
            return
        planners, mode = list(driver.planners.values()), driver.options.plan
        found.append(explained_now(planners, mode, options.format, alternatives, records))

    requests = _requests(given)
    with _workplace(None) as folder, _session(folder, jvm_settings_of_run(given), True) as session:
        summary = in_session(session, replace(given, out=folder / "analyzed.jsonl"), folder, None, requests, keep).summary
    if not found:
        raise InputError(f"--at {options.at}: the run has {plural(summary.batches, 'batch')}, numbered from 0")
    if options.format == "json" and (options.every is not None):
        return "[" + ",\n".join(found) + "]"
    return "\n\n".join(found)


def verify(options: RunOptions) -> VerifyReport:
    """Runs a query and compares every answer with an independent evaluation, instant by instant."""
    from cqels_opt import verify as checking  # with rdflib and networkx, which no other command needs
    from cqels_opt.cli.verification import judged

    if options.topics or options.out_topic is not None:
        raise InputError("verify reads files from beginning to end: a topic of Kafka has no end; keep its messages in a file")
    if options.follow or any(path.is_dir() for _, path in options.streams):
        raise InputError("verify reads files from beginning to end: a live source (--follow, or a folder) has no end")
    if options.out_folder:
        raise InputError(f"--out {options.out}: verify reads answers as lines: name a file, or leave --out out")
    with scratch_folder("verify") as scratch:
        out = options.out if options.out is not None and str(options.out) != "-" else scratch / "answers.jsonl"
        run(replace(options, out=out))
        reading = checking.read_inputs(
            options.streams,
            options.static,
            options.graphs,
            lateness=options.lateness,
            time_predicate=options.time_predicate,
            on_error=options.on_error or "fail",
        )
        verdicts, got = judged(options, reading.inputs, out)
    lines = [line for verdict in verdicts if not verdict.equal for line in verdict.text().splitlines()]
    differences = sum(len(verdict.differences) for verdict in verdicts)
    return VerifyReport(len({time for time, _, _ in got}), sum(got.values()), differences, tuple(lines))


def calibrate(options: CalibrateOptions) -> str:
    """Measures the constants of the cost model on this machine and stores them; returns them and the file as text."""
    if not options.show:
        found = operator_constants.measure()
        if options.spark:
            with _workplace(None) as folder, _session(folder, jvm_settings(options.master, options.debug)) as session:
                found |= spark_constants.measure(session.get())
        calibration_store.keep(found, datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"))
    return f"{calibration_store.known().text()}\n  kept in {calibration_store.cache_file()}"


def load(options: LoadOptions) -> LoadReport:
    """Loads files into a store."""
    began = time.monotonic()
    with _workplace(None) as folder, _session(folder, jvm_settings(options.master, options.debug)) as session:
        sources = prepare.static_sources(options.paths, options.graphs)
        with bytes_progress() as progress:
            report = load_store(session, sources, options.store, on_error=options.on_error, progress=progress)
    warn_of_disagreement(options.store)
    for reason in report.reasons:
        warn(reason)
    return LoadReport(options.store, report.triples, report.skipped, time.monotonic() - began)


# ------------------------------------------------------------------ shared
def _shown(title: str, options: RunOptions, earlier: Path | None) -> AbstractContextManager[LiveTrace | None]:
    if options.ui is None:
        return nullcontext()
    from cqels_opt.trace.server import shown  # with an HTTP server and prometheus_client

    return shown(title, options.ui, earlier)


def _requests(options: RunOptions) -> list[QueryRequest]:
    if options.store is not None and (options.static or options.graphs):
        raise InputError(
            "--store does not combine with --static and --graph yet: load those files into the store with cqels-opt load"
        )
    return query_requests(options)


def _registered(session: AnySession, options: RunOptions, folder: Path, requests: Sequence[QueryRequest]) -> list[CompiledQuery]:
    engine = Engine(
        session,
        static=options.static or None,
        graphs=dict(options.graphs) or None,
        store=options.store,
        folder=folder / "registered",
        on_error=options.on_error or "fail",
    )
    warn_of_disagreement(engine.store)
    with mistakes_as_warnings(requests):
        registered = [engine.register(query.text, **registration_options(query, options)) for query in requests]
    warn_of_absent_graphs(requests, engine.store)
    return registered


@contextmanager
def _workplace(checkpoint: Path | None) -> Iterator[Path]:
    """The checkpoint, or a temporary folder for this run."""
    if checkpoint is not None:
        if checkpoint.exists() and not checkpoint.is_dir():
            raise InputError(f"--checkpoint {checkpoint}: not a folder")
        checkpoint.mkdir(parents=True, exist_ok=True)
        yield checkpoint.absolute()
        return
    with scratch_folder() as folder:
        yield folder


@contextmanager
def _session(folder: Path, settings: JvmSettings, at_once: bool = False) -> Iterator[DeferredSession]:
    session = DeferredSession(folder, settings)
    if at_once:
        session.begin()
    try:
        yield session
    finally:
        session.stop()
