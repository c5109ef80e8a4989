"""The commands of the command line: each builds an engine and its inputs, runs it, and reports the result."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from cqels_opt.cli.analysis import Inspect, analyzed
from cqels_opt.cli.options import CalibrateOptions, ExplainOptions, LoadOptions, RunOptions
from cqels_opt.cli.planning_mode import mode
from cqels_opt.cli.query_requests import QueryRequest
from cqels_opt.cli.run_parts import (
    input_streams,
    live_options,
    plans_text,
    progress_hidden,
    registered,
    replay,
    replay_options,
    requests_of,
    shown,
    sink_of,
    static_data,
    summary,
    watched,
    workplace,
)
from cqels_opt.cli.run_results import LoadSummary, Summary
from cqels_opt.cli.session_settings import jvm_settings, jvm_settings_of_run
from cqels_opt.cli.store_load import load_by
from cqels_opt.cli.warnings_console import Notices, warn
from cqels_opt.engine import Engine
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.runtime.driver import check_ended
from cqels_opt.runtime.file_streams import finite_frontier, numbered_folders
from cqels_opt.runtime.files_read import FilesRead
from cqels_opt.runtime.interfaces import Sink
from cqels_opt.runtime.live_files import MOST_BYTES, live_files
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.runtime.registered_query import catalog_of
from cqels_opt.runtime.run_factory import external_streams, make_driver
from cqels_opt.spark.calibrate import measure
from cqels_opt.spark.jvm import JvmSettings
from cqels_opt.spark.kafka import KafkaSink, topic_stream
from cqels_opt.spark.load import load as load_store
from cqels_opt.spark.messages import message_stream, reading_of
from cqels_opt.spark.mixed import MixedRunner, machine_of
from cqels_opt.spark.registered_query import CompiledQuery
from cqels_opt.spark.runner import SparkRunner
from cqels_opt.spark.session import AnySession, DeferredSession, SparkSession, in_one_process, session_of
from cqels_opt.spark.stream import StreamRun, folder_stream
from cqels_opt.spark.tasks import freeze_modules
from cqels_opt.spark.waiting import wait
from cqels_opt.spark.warm_up import warm_up
from cqels_opt.trace.progress import Watcher, batches_progress, watching
from cqels_opt.windows.frontier import Frontier


# ------------------------------------------------------------------ run
def run(options: RunOptions, watch: Watcher | None = None, inspect: Inspect | None = None) -> Summary:
    """Runs a query over files to their end, or over folders or topics until stopped. ``watch`` gets each batch's records.

    ``inspect`` gets the driver as well, in a replay.
    """
    watch = watched(watch, options)
    with (
        workplace(options.checkpoint) as folder,
        shown(options) as trace,
        open_session(folder, jvm_settings_of_run(options), True) as session,
    ):
        requests = requests_of(options)  # a mistake in a query is reported without waiting for Spark
        return in_session(session, options, folder, watching(watch, trace.add if trace else None), requests, inspect).summary


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
    queries = _registered(session, options, folder, requests or requests_of(options))
    catalog = catalog_of(queries, folder)
    freeze_modules()
    used, live = input_streams(options, external_streams(catalog), len(catalog.started.members) == 1)
    spark = session_of(session)
    if in_one_process(spark):
        warm_up(spark)
    if options.topics:
        (handle, stopped), unread = _follow_topics(spark, catalog, options, folder, watch), 0
    elif not live:
        handle, stopped, unread = _replay(spark, catalog, options, used, folder, watch, inspect)
    else:
        handle, stopped, unread = _follow(spark, catalog, options, used, folder, watch)
    return _done(handle, options, stopped, unread + queries[0].engine.left_out, began)


def _done(handle: StreamRun, options: RunOptions, stopped: bool, unread: int, began: float) -> FinishedRun:
    found = summary(handle, options, stopped, unread, time.monotonic() - began)
    return FinishedRun(found, handle.milliseconds(), handle.durations(), tuple(handle.runner.settings.items()))


def _replay(
    spark: SparkSession,
    catalog: QueryCatalog,
    options: RunOptions,
    streams: Sequence[tuple[str, Path]],
    folder: Path,
    watch: Watcher | None,
    inspect: Inspect | None,
) -> tuple[StreamRun, bool, int]:
    plan = replay(options, streams, external_streams(catalog), folder)
    frontier = finite_frontier(plan, options.lateness, options.eager)
    driver_options = replay_options(options, catalog, folder, plan, _mode(options, spark))
    runner = _runner(spark, options)
    driver = make_driver(catalog, folder, runner, _sink(spark, options, catalog), frontier, driver_options, options.trace)
    with batches_progress(len(plan.chunks), driver.state.batch + 1, progress_hidden(options)) as advance:
        handle = StreamRun(driver, runner, watching(advance, watch, partial(inspect, driver) if inspect else None))
        handle.chunks = [plan.path(number) for number in range(len(plan.chunks))]
        if driver.streams:
            stopped = wait(handle.start_replay(plan.chunk_folder, folder / "spark"))
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
    numbers = numbered_folders(streams, external_streams(catalog))
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
    given = {iri.strip("<>"): topic for iri, topic in options.topics}
    streams = handle.driver.streams
    topics = {iri: given[iri.strip("<>")] for iri in streams}
    messages = {iri: topic_stream(spark, topic) for iri, topic in topics.items()}
    handle.topics = [*topics.values()]
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
    driver_options = live_options(options, catalog, folder, files, _mode(options, spark))
    runner = _runner(spark, options)
    frontier = Frontier(external_streams(catalog), options.lateness, options.eager, max_ahead=options.max_ahead)
    driver = make_driver(catalog, folder, runner, _sink(spark, options, catalog), frontier, driver_options, options.trace)
    return StreamRun(driver, runner, watching(watch, Notices()))


def _runner(spark: SparkSession, options: RunOptions) -> SparkRunner:
    if options.plan == "spark" or options.joins == "spark":
        from cqels_opt.spark.joins import JoinRunner

        return JoinRunner(spark, by_spark=options.plan == "spark", debug=options.debug)
    return MixedRunner(spark)


def _mode(options: RunOptions, spark: SparkSession) -> PlannerOptions:
    """The optimizer's mode on the machine of a session."""
    return replace(mode(options), machine=machine_of(spark))


def _sink(spark: SparkSession, options: RunOptions, catalog: QueryCatalog) -> Sink:
    if options.out_topic is not None:
        return KafkaSink(spark, options.out_topic, catalog.programs())
    return sink_of(options, catalog)


# ------------------------------------------------------------------ explain, load
def explain(options: ExplainOptions) -> str:
    """The plans of a query, with estimates, before it runs; or those of batches that have run."""
    if options.analyze:
        return analyzed(options, run)
    requests = requests_of(options.run)
    with workplace(None) as folder, open_session(folder, jvm_settings_of_run(options.run)) as session:
        return plans_text(_registered(session, options.run, folder, requests), options, folder)


def constants_of_spark(options: CalibrateOptions) -> dict[str, float]:
    """The constants of the cost model that are measured with Spark."""
    with workplace(None) as folder, open_session(folder, jvm_settings(options.master, options.debug)) as session:
        return measure(session.get())


def load(options: LoadOptions) -> LoadSummary:
    """Loads files into a store."""
    with workplace(None) as folder, open_session(folder, jvm_settings(options.master, options.debug)) as session:
        return load_by(partial(load_store, session), options)


# ------------------------------------------------------------------ shared
def _registered(session: AnySession, options: RunOptions, folder: Path, requests: Sequence[QueryRequest]) -> list[CompiledQuery]:
    return registered(Engine(session, **static_data(options, folder)), options, requests)


@contextmanager
def open_session(folder: Path, settings: JvmSettings, at_once: bool = False) -> Iterator[DeferredSession]:
    """A session for a command, stopped at its end; its JVM starts when it is needed, or ``at_once``."""
    session = DeferredSession(folder, settings)
    if at_once:
        session.begin()
    try:
        yield session
    finally:
        session.stop()
