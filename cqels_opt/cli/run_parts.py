"""The parts of a run that do not depend on the engine: its queries, streams, driver options, sink, folder and summary."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cqels_opt.cli.answer_text import AnswerText, answer_text, check_format
from cqels_opt.cli.options import ExplainOptions, RunOptions
from cqels_opt.cli.planning_mode import mode
from cqels_opt.cli.query_requests import (
    QueryRequest,
    mistakes_as_warnings,
    places_as_written,
    query_requests,
    registration_options,
    warn_of_absent_graphs,
)
from cqels_opt.cli.run_results import Summary
from cqels_opt.cli.void_planning import warn_of_disagreement
from cqels_opt.cli.warnings_console import show_batch, silence, warn
from cqels_opt.errors import InputError
from cqels_opt.planner.explain import explained
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.rdf.void import read_description
from cqels_opt.runtime.answer_folder import FolderSink
from cqels_opt.runtime.file_streams import are_live, replay_of, used_streams, with_replay
from cqels_opt.runtime.files_read import FilesRead
from cqels_opt.runtime.interfaces import Sink
from cqels_opt.runtime.limits import Limits
from cqels_opt.runtime.line_sinks import FileSink, StreamSink
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.runtime.query_registry import QueryRegistry
from cqels_opt.runtime.registered_query import RegisteredQuery, catalog_of
from cqels_opt.runtime.run_factory import check_streams, rejects_of
from cqels_opt.runtime.run_handle import RunHandle
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.runtime.static_data import REJECTED, STATIC
from cqels_opt.spark.scratch import scratch_folder
from cqels_opt.state.remote_checkpoint import checkpoint_folder
from cqels_opt.trace.progress import Watcher, watching
from cqels_opt.windows.batch_size import DEFAULT_BATCH
from cqels_opt.windows.replay import ReplayPlan

if TYPE_CHECKING:
    from cqels_opt.trace.live import LiveTrace

Q = TypeVar("Q", bound=RegisteredQuery)


def requests_of(options: RunOptions) -> list[QueryRequest]:
    """The queries of a run, parsed."""
    requests = query_requests(options)
    check_format(options, [request.query for request in requests])
    return requests


def static_data(options: RunOptions, folder: Path) -> dict[str, Any]:
    """The keywords of an engine, on Spark or local: the static data of a run, and the folder of what it registers."""
    graphs: dict[str, list[Path]] = {}
    for iri, path in options.graphs:
        graphs.setdefault(iri, []).append(path)
    return {
        "static": options.static or None,
        "graphs": graphs or None,
        "store": options.store,
        "folder": _registered_in(folder),
        "on_error": options.on_error or "fail",
    }


def _registered_in(folder: Path) -> Path:
    """What an engine loads and registers for a run with its state in ``folder``."""
    return folder / "registered"


def plans_text(queries: Sequence[RegisteredQuery], options: ExplainOptions, folder: Path) -> str:
    """EXPLAIN of registered queries before they run."""
    if options.void is not None:
        warn_of_disagreement(queries[0].engine.store, read_description(options.void), str(options.void))
    return explained(catalog_of(queries, folder).programs(), mode(options.run), options.format, 1000 if options.all else 3)


def registered(engine: QueryRegistry[Q], options: RunOptions, requests: Sequence[QueryRequest]) -> list[Q]:
    """Registers the queries of a run; warns of likely mistakes."""
    warn_of_disagreement(engine.store)
    with places_as_written(options), mistakes_as_warnings(requests):
        found = [engine.register(query.text, **registration_options(query, options)) for query in requests]
    warn_of_absent_graphs(requests, engine.store, options.store is not None)
    return found


def input_streams(options: RunOptions, needed: Sequence[str], one: bool) -> tuple[list[tuple[str, Path]], bool]:
    """The files and folders that a run reads, and whether it follows them. Warns of streams that no query reads."""
    given: dict[str, object] = {iri.strip("<>"): place for iri, place in (*options.streams, *options.topics)}
    check_streams(needed, given)
    bare = [s.strip("<>") for s in needed]
    for iri in given:
        if iri not in bare:
            warn(f"the query does not read stream <{iri}>" if one else f"no query reads stream <{iri}> from outside")
    if options.follow and not needed:
        raise InputError("the query reads no stream, and is answered once: leave --follow out")
    used = used_streams(options.streams, needed)
    if options.engine == "local" and options.follow and all(path.is_file() for _, path in used):
        return used, True  # files that grow
    return used, not options.topics and are_live(used, options.follow)


def replay(options: RunOptions, streams: Sequence[tuple[str, Path]], needed: Sequence[str], folder: Path) -> ReplayPlan:
    """Cuts the files of a run into the chunks of its micro-batches."""
    if options.max_ahead is not None:
        raise InputError("--max-ahead is for a live source; a replay has its files whole: correct the times in them")
    size = options.batch or DEFAULT_BATCH
    return replay_of(streams, needed, folder, options.lateness, options.on_error or "fail", options.time_predicate, size)


def _are_named(options: RunOptions, catalog: QueryCatalog) -> bool:
    """Whether lines of answers name their query."""
    return len(catalog.started.members) > 1 or options.instances is not None


def replay_options(
    options: RunOptions, catalog: QueryCatalog, folder: Path, plan: ReplayPlan, mode: PlannerOptions
) -> DriverOptions:
    """The options of the driver of a replay."""
    found = replace(_driver_options(options, catalog, folder, mode), drain=options.drain, skip_bad=options.on_error == "skip")
    return with_replay(found, plan)


def live_options(
    options: RunOptions, catalog: QueryCatalog, folder: Path, files: FilesRead | None, mode: PlannerOptions
) -> DriverOptions:
    """The options of the driver of live sources; ``files`` are those of folders."""
    for what, given in (("--drain", options.drain), ("--batch", options.batch is not None)):
        if given:
            raise InputError(f"{what} is for a replay of files; a live source has no end and is cut by the engine")
    return replace(
        _driver_options(options, catalog, folder, mode),
        skip_bad=options.on_error != "fail",
        idle_timeout=options.idle_timeout,
        waiting=None if files is None else lambda *_: (None, files.waiting),
        files=files,
    )


def _driver_options(options: RunOptions, catalog: QueryCatalog, folder: Path, mode: PlannerOptions) -> DriverOptions:
    """What replays and live sources have in common."""
    return DriverOptions(
        plan=mode,
        rejects=rejects_of(options.trace, folder),
        refused=(_registered_in(folder) / STATIC / REJECTED,),
        continue_changed=options.continue_changed,
        named=_are_named(options, catalog),
        limits=_limits(options),
    )


def sink_of(options: RunOptions, catalog: QueryCatalog) -> Sink:
    """The sink of a run that is no topic."""
    if options.out is None or str(options.out) == "-":
        return StreamSink(answer_text(options, catalog.started.members[0].query))
    if not options.out_folder:
        return FileSink(options.out)
    return FolderSink(options.out.absolute(), catalog.programs if len(catalog.started.members) > 1 else None)


def _limits(options: RunOptions) -> Limits:
    seconds = None if options.max_time is None else options.max_time / 1000
    return Limits(options.max_rows, seconds, options.max_state, options.max_memory, options.max_bound)


def summary(handle: RunHandle, options: RunOptions, stopped: bool, unread: int, seconds: float) -> Summary:
    """The summary of a run; ``unread`` are elements and lines of static data that were rejected before its first batch."""
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
        printed=None if options.limit is None else _printed(handle.driver.sink),
    )


def _printed(sink: Sink) -> int | None:
    """How many answers were printed; None if nothing counts them."""
    to: object = sink.to if isinstance(sink, StreamSink) else None
    return to.printed if isinstance(to, AnswerText) else None


def watched(watch: Watcher | None, options: RunOptions) -> Watcher | None:
    """What observes the batches, with ``--verbose``; no warnings with ``--quiet``."""
    if options.quiet:
        silence()
    return watching(watch, show_batch) if options.verbose else watch


def progress_hidden(options: RunOptions) -> bool:
    """Whether there is no progress bar: ``--quiet``, or the answers appear on the terminal."""
    return options.quiet or (options.out is None and sys.stdout.isatty())


def shown(options: RunOptions) -> AbstractContextManager[LiveTrace | None]:
    """The page of a run, if it has one; a run that continues from a checkpoint has its earlier batches on it."""
    if options.ui is None:
        return nullcontext()
    from cqels_opt.trace.server import shown as served  # with an HTTP server and prometheus_client

    title = ", ".join(path.name for path in options.queries)
    return served(title, options.ui, options.trace if options.checkpoint is not None else None)


@contextmanager
def workplace(checkpoint: Path | str | None) -> Iterator[Path]:
    """The checkpoint, of one at a URI its local copy, or a temporary folder for this run."""
    if checkpoint is not None:
        folder = checkpoint_folder(checkpoint, "--checkpoint")
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with scratch_folder() as folder:
        yield folder
