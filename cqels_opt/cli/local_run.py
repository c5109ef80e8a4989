"""``cqels-opt run --engine local``: a run in this process, without Spark and without Java."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from cqels_opt.cli.analysis import Inspect, analyzed
from cqels_opt.cli.options import JOINS, LOCAL_JOINS, ExplainOptions, RunOptions
from cqels_opt.cli.planning_mode import mode
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
from cqels_opt.cli.run_results import Summary
from cqels_opt.cli.warnings_console import Notices, warn
from cqels_opt.errors import InputError
from cqels_opt.local.engine import Engine
from cqels_opt.local.inputs import live_input
from cqels_opt.local.jobs import chunks_of, interval, local_driver
from cqels_opt.local.run import LocalRun
from cqels_opt.runtime.driver import check_ended
from cqels_opt.runtime.file_streams import finite_frontier, numbered_folders
from cqels_opt.runtime.files_read import FilesRead
from cqels_opt.runtime.growing_files import are_growing
from cqels_opt.runtime.interruptions import interruptions
from cqels_opt.runtime.live_files import MOST_BYTES
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.runtime.registered_query import catalog_of
from cqels_opt.runtime.run_factory import external_streams
from cqels_opt.trace.progress import Watcher, batches_progress, watching
from cqels_opt.windows.frontier import Frontier


def run(options: RunOptions, watch: Watcher | None = None, inspect: Inspect | None = None) -> Summary:
    """Runs a query over files to their end, or over folders and files that grow until stopped. ``watch`` gets each batch's records.

    ``inspect`` gets the driver as well, in a replay.
    """
    check(options)
    began = time.monotonic()
    watch = watched(watch, options)
    with interruptions() as stop, workplace(options.checkpoint) as folder, shown(options) as trace:
        requests = requests_of(options)
        queries = registered(Engine(**static_data(options, folder)), options, requests)
        catalog = catalog_of(queries, folder)
        streams, live = input_streams(options, external_streams(catalog), len(catalog.started.members) == 1)
        watcher = watching(watch, trace.add if trace else None)
        if live:
            handle, stopped, unread = _follow(catalog, options, streams, folder, watcher, stop)
        else:
            handle, stopped, unread = _replay(catalog, options, streams, folder, watcher, stop, inspect)
        return summary(handle, options, stopped, unread + queries[0].engine.left_out, time.monotonic() - began)


def explain(options: ExplainOptions) -> str:
    """The plans of a query, with estimates, before it runs; or those of batches that have run."""
    check(options.run)
    if options.analyze:
        return analyzed(options, run)
    requests = requests_of(options.run)
    with workplace(None) as folder:
        queries = registered(Engine(**static_data(options.run, folder)), options.run, requests)
        return plans_text(queries, options, folder)


def check(options: RunOptions) -> None:
    """InputError for options that need Spark."""
    wrong = {
        "--master": options.master is not None,
        "--packages": options.packages is not None,
        "--conf": bool(options.conf),
        "--plan spark": options.plan == "spark",
        f"--joins {options.joins}": options.joins in JOINS and options.joins not in LOCAL_JOINS,
        "--stream": bool(options.topics),
        "--out": options.out_topic is not None,
    }
    for option, given in wrong.items():
        if given:
            what = f"{option}: a topic of Kafka needs Spark" if option in ("--stream", "--out") else f"{option} needs Spark"
            raise InputError(f"{what}; leave out --engine local" + ("" if option.startswith("--o") else f", or {option}"))


def _replay(
    catalog: QueryCatalog,
    options: RunOptions,
    streams: list[tuple[str, Path]],
    folder: Path,
    watch: Watcher | None,
    stop: threading.Event,
    inspect: Inspect | None,
) -> tuple[LocalRun, bool, int]:
    plan = replay(options, streams, external_streams(catalog), folder)
    frontier = finite_frontier(plan, options.lateness, options.eager)
    sink, driver_options = sink_of(options, catalog), replay_options(options, catalog, folder, plan, mode(options))
    driver_options = replace(driver_options, commit_every=interval(sink, live=False, growing=False))
    driver = local_driver(catalog, folder, options.processes, sink, frontier, options.trace, driver_options)
    with batches_progress(len(plan.chunks), driver.state.batch + 1, progress_hidden(options)) as advance:
        handle = LocalRun(
            driver, chunks_of(driver, plan), watching(advance, watch, partial(inspect, driver) if inspect else None)
        )
        stopped = handle.work(stop)
    if not stopped:
        check_ended(driver)
    return handle, stopped, plan.rejected


def _follow(
    catalog: QueryCatalog,
    options: RunOptions,
    streams: list[tuple[str, Path]],
    folder: Path,
    watch: Watcher | None,
    stop: threading.Event,
) -> tuple[LocalRun, bool, int]:
    needed = external_streams(catalog)
    places, sink = numbered_folders(streams, needed), sink_of(options, catalog)
    frontier = Frontier(needed, options.lateness, options.eager, max_ahead=options.max_ahead)
    make = partial(local_driver, catalog, folder, options.processes, sink, frontier, options.trace)
    commit_every = interval(sink, live=True, growing=are_growing(places), timeout=options.idle_timeout)
    driver_options = replace(live_options(options, catalog, folder, None, mode(options)), commit_every=commit_every)
    driver, source = live_input(
        places, make, folder, driver_options, options.time_predicate, most=options.batch_bytes or MOST_BYTES
    )
    handle = LocalRun(driver, source, watching(watch, Notices()))
    stopped = handle.work(stop)
    if isinstance(files := driver.options.files, FilesRead):
        for sentence in files.changed():  # since the last batch
            warn(sentence)
    return handle, stopped, 0
