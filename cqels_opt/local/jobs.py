"""Starts registered queries as one run of the local engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict

import pyarrow as pa

from cqels_opt.errors import InputError, check_choice, check_flags
from cqels_opt.local.inputs import Chunks, live_input
from cqels_opt.local.run import LocalRun
from cqels_opt.local.worker_pool import PoolRunner, available_cores
from cqels_opt.lod.locations import local_path, new_folder
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.planner.plan_modes import plan_mode
from cqels_opt.query.durations import duration_of
from cqels_opt.rdf.graphs import GENERATED_AT
from cqels_opt.runtime.answer_folder import FolderSink
from cqels_opt.runtime.answer_tables import answers_table
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.file_streams import are_live, finite_frontier, numbered_folders, replay_of, used_streams, with_replay
from cqels_opt.runtime.function_sink import FunctionSink
from cqels_opt.runtime.growing_files import are_growing
from cqels_opt.runtime.interfaces import Sink
from cqels_opt.runtime.limits import NO_LIMITS, Limits, checked
from cqels_opt.runtime.line_sinks import FileSink
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.runtime.query_registry import ON_ERROR
from cqels_opt.runtime.run_factory import (
    check_streams,
    external_streams,
    frontier_of,
    idle_milliseconds,
    make_driver,
    rejects_of,
    streams_by_iri,
)
from cqels_opt.runtime.run_handle import RegisterFor
from cqels_opt.runtime.run_state import COMMIT_EVERY, DriverOptions
from cqels_opt.trace.listener import BatchReporter, ListenerLike
from cqels_opt.windows.batch_size import DEFAULT_BATCH, BatchSize
from cqels_opt.windows.frontier import Frontier
from cqels_opt.windows.replay import ReplayPlan

PathLike: TypeAlias = str | Path
TableFunction = Callable[[pa.Table, int], object]
Files: TypeAlias = PathLike | Sequence[PathLike]
"""A file or several, which are replayed merged by time, or a folder, which is followed."""
LINES = (".jsonl", ".ndjson")


class LocalOptions(TypedDict, total=False):
    """The keywords of ``cq.local.Engine.start`` and of its queries' ``start``."""

    plan: str
    """``adaptive``, ``first``, ``static`` or ``worst``, or ``fixed:`` and plans."""
    filters: str
    """Where filters are evaluated: ``cost``, ``early``, ``late`` or a heuristic (docs/uncertainty.md)."""
    batch: int | str | None
    """Of a replay: elements, or stream time such as ``"500ms"``, per micro-batch. It changes speed, never answers."""
    lateness: int | str
    """How far an element may be behind the latest time before it: a duration such as ``"10s"``, or milliseconds."""
    eager: bool
    """Answers for the latest time after each batch, for a source whose batches never split an instant."""
    drain: bool
    """Of a replay: at the end of input the windows empty."""
    idle_timeout: int | str | None
    """Of live folders: the wall clock time after which the run stops waiting for an idle stream."""
    max_ahead: int | str | None
    """Of live folders: elements further ahead of the latest time before them are rejected (docs/semantics.md)."""
    on_error: Literal["fail", "skip"] | None
    """Whether a bad element ends the run, or is counted and kept with its reason. None: it ends a replay only."""
    time_predicate: str
    """The predicate of the time of a named graph in N-Quads and TriG."""
    follow: bool
    """The streams are files of lines that grow, or folders: new lines are read within milliseconds (docs/local-engine.md)."""
    commit_every: int | str | None
    """The time between two commit records; a run that fails or is killed repeats the batches since the last one. By default 10 s for files
    that grow and for replays into a file of lines; otherwise 0, a record per batch."""
    to_the_end: bool
    """Of live streams: the run ends after the current input; otherwise it follows them."""
    continue_changed: bool
    """The queries may differ from those of the checkpoint (docs/checkpoints.md)."""
    limits: Limits
    """Per query: a query that exceeds one ends, see ``LocalRun.failures``, and the others continue."""
    processes: int
    """Processes for large batches, this one included (default: as many as there are cores)."""
    listener: ListenerLike | None
    """A function of each batch's trace record, a :class:`Listener`, or a list of these."""


def sink_of(sink: TableFunction | PathLike, programs: Callable[[], Sequence[CompiledProgram]], with_query: bool) -> Sink:
    """The sink that a user names. ``with_query``: the run may have several queries, and answers say of which they are."""
    if callable(sink):
        return FunctionSink(sink, programs, partial(answers_table, with_query=with_query))
    if not isinstance(sink, str | Path):
        raise InputError(f"sink={sink!r}: give a function of a table and the number of its batch, a file NAME.jsonl, or a folder")
    path = local_path(sink, "sink")
    if path.suffix.lower() in LINES and not path.is_dir():
        new_folder(path.parent, "sink")
        return FileSink(path.absolute())
    return FolderSink(new_folder(path, "sink").absolute(), programs if with_query else None)


def interval(sink: Sink, live: bool, growing: bool, timeout: int | None = None) -> float:
    """Seconds between two commit records: those of :data:`COMMIT_EVERY` for files that grow, and for replays into a file, which is cut
    back when batches run again; 0, a record per batch, for other replays and for folders, and with a ``timeout`` of idle streams, because
    of which answers depend on what is in a batch.
    """
    return COMMIT_EVERY if (growing and timeout is None) or (not live and isinstance(sink, FileSink)) else 0.0


def start(
    keeps: object,
    catalog: QueryCatalog,
    folder: Path,
    streams: Mapping[str, Files],
    sink: TableFunction | PathLike,
    trace: PathLike | None,
    register: RegisterFor | None = None,
    *,
    plan: str = "adaptive",
    filters: str = "cost",
    batch: int | str | None = None,
    lateness: int | str = 0,
    eager: bool = False,
    drain: bool = False,
    idle_timeout: int | str | None = None,
    max_ahead: int | str | None = None,
    on_error: Literal["fail", "skip"] | None = None,
    time_predicate: str = GENERATED_AT,
    follow: bool = False,
    commit_every: int | str | None = None,
    to_the_end: bool = False,
    continue_changed: bool = False,
    limits: Limits = NO_LIMITS,
    processes: int | None = None,
    listener: ListenerLike | None = None,
) -> LocalRun:
    """Starts the queries of a catalog; see ``cq.local.Engine.start``. ``keeps`` owns files that the run reads."""
    if on_error is not None:
        check_choice("on_error", on_error, ON_ERROR)
    check_flags(eager=eager, drain=drain, follow=follow, to_the_end=to_the_end, continue_changed=continue_changed)
    given = [(iri, path) for iri, files in streams_by_iri(streams).items() for path in _paths(iri, files)]
    if processes is not None and (isinstance(processes, bool) or not isinstance(processes, int) or processes < 1):
        raise InputError(f"processes={processes!r}: a run has at least 1 process")
    needed = external_streams(catalog)
    check_streams(needed, dict(given))
    used = used_streams(given, needed)
    late, growing = duration_of(lateness, "lateness"), follow and are_growing(used)
    live = growing or are_live(used, follow)
    if live:
        _check_kind(live, {"batch": batch, "drain": drain})
    else:
        _check_kind(live, {"idle_timeout": idle_timeout, "max_ahead": max_ahead, "to_the_end": to_the_end})
    if idle_timeout is not None and commit_every is not None:
        raise InputError("commit_every: with idle_timeout a run writes a commit record per micro-batch; leave one of the two out")
    to, idle = sink_of(sink, catalog.programs, with_query=register is not None), idle_milliseconds(idle_timeout)
    options = DriverOptions(
        drain=drain,
        skip_bad=on_error == "skip" or (live and on_error is None),
        plan=plan_mode(plan, filters=filters),
        idle_timeout=idle,
        continue_changed=continue_changed,
        limits=checked(limits),
        rejects=rejects_of(trace, folder),
        named=register is not None,
        commit_every=interval(to, live, growing, idle)
        if commit_every is None
        else duration_of(commit_every, "commit_every") / 1000,
    )
    joining, reporter = None if register is None else partial(register, to), BatchReporter(listener)
    if live:
        folders = numbered_folders(used, needed)
        frontier = frontier_of(needed, lateness, eager, max_ahead)
        make = partial(local_driver, catalog, folder, processes, to, frontier, trace)
        driver, source = live_input(folders, make, folder, options, time_predicate, to_the_end=to_the_end)
        run = LocalRun(driver, source, None, joining, reporter)
    else:
        replay = replay_of(used, needed, folder, late, on_error or "fail", time_predicate, _size(batch))
        frontier = finite_frontier(replay, late, eager)
        driver = local_driver(catalog, folder, processes, to, frontier, trace, with_replay(options, replay))
        run = LocalRun(driver, chunks_of(driver, replay), None, joining, reporter)
    run.keeps = keeps
    return run.start()


def local_driver(
    catalog: QueryCatalog,
    folder: Path,
    processes: int | None,
    to: Sink,
    frontier: Frontier,
    trace: PathLike | None,
    options: DriverOptions,
) -> Driver:
    """The driver of a run in this process, with up to ``processes`` for large batches (None: as many as there are cores)."""
    runner = PoolRunner(available_cores() if processes is None else processes)
    return make_driver(catalog, folder, runner, to, frontier, options, trace)


def chunks_of(driver: Driver, replay: ReplayPlan) -> Chunks | None:
    """The input of a replay; None for queries that read no stream."""
    return Chunks([replay.path(number) for number in range(len(replay.chunks))]) if driver.streams else None


def _paths(iri: str, files: Files) -> list[Path]:
    given: object = [files] if isinstance(files, str | Path) else files
    if not isinstance(given, Sequence) or not all(isinstance(one, str | Path) for one in given):
        raise InputError(
            f"streams: <{iri}> is {type(files).__name__}: the local engine reads files and folders; DataFrames, messages and "
            "topics need cq.Engine, which runs on Spark"
        )
    found = [local_path(one, f"streams: <{iri}>").absolute() for one in given]
    for path in found:
        if not path.exists():
            raise InputError(f"streams: <{iri}>: {path}: no such file or folder")
    return found


def _check_kind(live: bool, options: Mapping[str, object]) -> None:
    """InputError for an option of the other kind of input."""
    kind, other = ("live folders", "a replay of files") if live else ("a replay of files", "live folders")
    for name, given in options.items():
        if given not in (None, False):
            raise InputError(f"{name}= is for {other}, and the streams are {kind}: leave it out")


def _size(batch: int | str | None) -> BatchSize:
    if batch is None:
        return DEFAULT_BATCH
    if isinstance(batch, int):
        if batch < 1:
            raise InputError(f"batch={batch}: a micro-batch has at least 1 element")
        return BatchSize(count=batch)
    return BatchSize(duration=duration_of(batch, "batch", positive=True))
