"""Wires queries, data and Spark together, for Python (:class:`Engine`) and for the command line (:mod:`cqels_opt.cli.commands`).

The rooms below define all semantics; this module processes no rows.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack

from cqels_opt.compiler.multi_query_sharing import Member, alone
from cqels_opt.compiler.registration import Programs, QueryOptions, member_of, record_of
from cqels_opt.compiler.static_subpatterns import BYTES_BUDGET
from cqels_opt.errors import EngineWarning, InputError
from cqels_opt.lod.locations import local_path, state_folder
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.snapshots import store_of
from cqels_opt.lod.update import UpdateReport, update
from cqels_opt.operators.query_forms import answer_variables
from cqels_opt.planner.plan_modes import plan_mode
from cqels_opt.query.never_bound import likely_mistakes
from cqels_opt.rdf.ids import IdScheme
from cqels_opt.rdf.payloads import Payload
from cqels_opt.runtime.interfaces import Sink
from cqels_opt.runtime.limits import NO_LIMITS, Limits
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.spark import prepare, query_jobs
from cqels_opt.spark.adaptive_sparql import Adaptive
from cqels_opt.spark.drop_in import Claim, check_classic
from cqels_opt.spark.kafka import KafkaSink
from cqels_opt.spark.kafka_topic import KafkaTopic
from cqels_opt.spark.messages import Messages
from cqels_opt.spark.mixed import MixedRunner, machine_of
from cqels_opt.spark.query_jobs import frontier_of, idle_milliseconds, sink_of
from cqels_opt.spark.registered_query import CompiledQuery, PathLike, population_of
from cqels_opt.spark.run_factory import make_driver, rejects_of
from cqels_opt.spark.session import DeferredSession, session_of
from cqels_opt.spark.sinks import BatchFunction, FunctionSink
from cqels_opt.spark.sources import Incoming, Source
from cqels_opt.spark.start_options import StartOptions, keywords_of
from cqels_opt.spark.stream import SparkSession, StreamRun
from cqels_opt.spark.worker_python import use_this_python
from cqels_opt.state.commit_log import key_of
from cqels_opt.trace.listener import ListenerLike
from cqels_opt.windows.instants import Policy

_NAME = re.compile(r"(?!\.)[^/\\\x00-\x1f]{1,100}")


class Engine:
    """Continuous queries over RDF streams and static Linked Open Data, on a Spark session.

    ``static`` is a file (or several) for the default graph, ``graphs`` maps the IRIs of named graphs to files, ``store`` is a
    store that ``cqels-opt load`` wrote (instead of files). ``folder`` stores the output of registration, by default a temporary
    folder. Executors must be able to read it.
    """

    def __init__(
        self,
        spark: SparkSession | DeferredSession,
        static: PathLike | Sequence[PathLike] | None = None,
        graphs: Mapping[str, PathLike] | None = None,
        store: PathLike | None = None,
        folder: PathLike | None = None,
        on_error: Literal["fail", "skip"] = "fail",
    ) -> None:
        if not isinstance(spark, DeferredSession):
            check_classic(spark)
            use_this_python(spark)
        self._session = spark
        self._temporary = tempfile.TemporaryDirectory(prefix="cqels-opt-") if folder is None else None
        self.folder = local_path(self._temporary.name if self._temporary else folder or ".", "folder").absolute()
        paths = _paths(static or (), "static")
        if store is not None and (paths or graphs):
            raise InputError(
                "give files (static, graphs) or a store, not both: load the files into the store with cqels-opt load"
            )
        sources = prepare.static_sources(paths, _graphs(graphs))
        self._load: Callable[..., Path] | None = None
        if store is None:
            self._load = partial(prepare.static_store, spark, sources=sources, on_error=on_error)
            store = self._load(folder=self.folder / "static")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.store = prepare.leased_store(self.folder, store)
        self.programs = Programs(self.store, self.folder / "queries", prepare.compiling(spark, self.store))
        self._queries: dict[str, CompiledQuery] = {}
        self._kinds: set[Hashable] = set()

    def __repr__(self) -> str:
        return f"Engine(store={str(self.store)!r}, queries={list(self._queries)})"

    @property
    def spark(self) -> SparkSession:
        """The session; makes one that is deferred, or waits for it."""
        return session_of(self._session)

    def update(
        self,
        add: PathLike | Sequence[PathLike] = (),
        remove: PathLike | Sequence[PathLike] = (),
        graphs: Mapping[str, PathLike] | None = None,
        on_error: Literal["fail", "skip"] = "fail",
    ) -> UpdateReport:
        """Writes the next version of the engine's store, as ``cqels-opt load --update``; runs switch to it in their next batch.

        First the triples (quads) of ``remove`` are removed, then those of ``add`` are added; ``graphs`` maps the IRIs of named
        graphs to files to add. Raises DataError with file and line, and StoreError if the store cannot be updated.
        """
        added = prepare.static_sources(_paths(add, "add"), _graphs(graphs))
        place = store_of(self.store) or self.store
        return update(place, added, prepare.static_sources(_paths(remove, "remove"), []), on_error=on_error)

    def under_key_of(self, checkpoint: Path) -> Programs:
        """The programs over static data with the term ids of a checkpoint.

        Data that the engine has loaded with another key are loaded again with the checkpoint's key; a store contains its own key.
        """
        key = key_of(checkpoint)
        if self._load is not None and key not in (None, open_store(self.store).scheme.key):
            name = hashlib.sha256(str(key).encode()).hexdigest()[:8]
            place = self._load(folder=self.folder / f"static-{name}", scheme=IdScheme(str(key)))
            self.store = prepare.leased_store(self.folder, place)
            self.programs = Programs(self.store, self.folder / f"queries-{name}", prepare.compiling(self._session, self.store))
        return self.programs

    @property
    def queries(self) -> list[CompiledQuery]:
        """The registered queries, in order of registration."""
        return list(self._queries.values())

    def register(
        self,
        text: str,
        *,
        id: str | None = None,
        dialect: str = "auto",
        profile: str | None = None,
        report: str | Mapping[str, Policy | str] | None = None,
        output_operator: str | None = None,
        duplicates: Literal["set", "bag"] | None = None,
        bounds: Literal["open-closed", "closed-open"] | None = None,
        t0: Mapping[str, int] | None = None,
        file: str = "query",
        sub_result_bytes: int = BYTES_BUDGET,
        types: Mapping[str, str] | None = None,
    ) -> CompiledQuery:
        """Parses a query, computes its static sub-results, and retains its plans. Raises QueryError with line and column.

        Likely mistakes, such as a variable of SELECT that nothing binds, are an EngineWarning.

        :class:`QueryOptions` describes the keywords; ``report`` is for example ``"wc,nc"``, or ``{"w": "p:10s"}`` by window.
        """
        name = id or f"q{len(self._queries) + 1}"
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{name[:80]!r} is no name of a query: it becomes a part of names of files, so no / and no dot at its start"
            )
        if name in self._queries:
            raise InputError(f"there is a query {name!r} already")
        given = (dialect, profile, report, output_operator, duplicates, bounds, t0, file, sub_result_bytes, types)
        found = CompiledQuery(self, member_of(record_of(text, name, *given)))
        if found.member.kind not in self._kinds:  # a query that differs only in constants is known to compile
            self.programs.of(alone(found.member))
            self._kinds.add(found.member.kind)
        for sentence in likely_mistakes(found.query):
            warnings.warn(f"{name}: {sentence}", EngineWarning, stacklevel=2)
        self._queries[name] = found
        return found

    @keywords_of(StartOptions, query_jobs.start)
    def start(
        self,
        streams: Mapping[str, Source],
        sink: BatchFunction | PathLike | KafkaTopic,
        checkpoint: PathLike,
        trace: PathLike | None = None,
        **options: Unpack[StartOptions],
    ) -> StreamRun:
        """Starts all registered queries in one job; the rows have a column ``query``.

        Queries can be added and removed during the run: see :meth:`StreamRun.add` and :meth:`StreamRun.remove`. Queries that
        differ only in constants share one plan: docs/many-queries.md. A query that reads the stream that another one registers
        for its graphs (``REGISTER STREAM <out> AS CONSTRUCT …``) gets them: docs/networks.md.

        ``streams`` maps stream IRIs to streaming DataFrames with the columns ``s p o`` (N-Triples terms), ``t`` (timestamp, or
        milliseconds) and optionally ``g``, to :class:`Messages`, or to a :class:`KafkaTopic` (docs/sources-and-sinks.md).
        ``sink`` is ``f(df, batch_id)``, which may be called twice for a batch, or a folder that gets each batch's answers exactly
        once, as Parquet (docs/answers.md), or a :class:`KafkaTopic`, at least once. ``checkpoint`` is a folder that executors can
        access; a second start with it resumes. The other keywords are those of :class:`StartOptions`; durations are texts such as
        ``"10s"`` or ``"1 hour"``, or whole milliseconds.
        """
        if not self.queries:
            raise InputError("no query is registered")
        folder = state_folder(checkpoint, "checkpoint").absolute()
        catalog = population_of(self.queries, folder)
        return query_jobs.start(self, catalog, folder, streams, sink, trace, self._coming, **options)

    def _coming(self, to: Sink, queries: Sequence[object], options: Mapping[str, Any]) -> list[Member]:
        """Registers queries that are added to a run: texts, or queries registered with this engine."""
        found = []
        for query in queries:
            if not isinstance(query, CompiledQuery):
                query = self.register(str(query), **options)
            if isinstance(to, KafkaSink):
                to.check(query.id, answer_variables(query.member.query))
            if isinstance(to, FunctionSink):
                to.check([query.program, *(other.program for other in self.queries if other.id != query.id)])
            found.append(query.member)
        return found

    @keywords_of(QueryOptions, register)
    def adaptive(
        self,
        text: str,
        sink: BatchFunction | PathLike | KafkaTopic,
        state: PathLike | None = None,
        *,
        stream: str | Mapping[str, str] | None = None,
        payload: str | Payload | Mapping[str, str | Payload] | None = None,
        order: str | None = None,
        plan: str = "adaptive",
        lateness: int | str = 0,
        eager: bool = False,
        idle_timeout: int | str | None = None,
        max_ahead: int | str | None = None,
        on_error: Literal["fail", "skip"] = "skip",
        trace: PathLike | None = None,
        continue_changed: bool = False,
        limits: Limits = NO_LIMITS,
        allow_gap: bool = False,
        listener: ListenerLike | None = None,
        **query: Unpack[QueryOptions],
    ) -> Adaptive:
        """A function for ``foreachBatch`` of an existing job with a streaming DataFrame of triples or of messages.

        ``state`` is the folder for slots and commit records; without it the state lives as long as this object. A batch id that
        does not follow the state (without state: other than 0) is a CheckpointError, because the windows would lack elements;
        ``allow_gap=True`` accepts it. ``stream`` names the stream if the query reads several. ``limits`` end the query and not
        the job.

        With a ``payload`` the DataFrame has messages, in the form of Spark's Kafka source, and their ``value`` is decoded as by
        :class:`Messages`. For several topics, ``stream`` maps each topic to its stream, and ``payload`` may map each stream to
        its payload. Unreadable messages are stored with their reason in ``Adaptive.rejects``.

        ``listener`` gets the events of the query: a function of each batch's trace record, a :class:`Listener`, or a list of
        these. Further keywords are those of :meth:`register`.
        """
        registered = self.register(text, **query)
        kept = state_folder(state, "state").absolute() if state is not None else None
        claim = Claim(kept)
        folder = kept or self.folder / "adaptive" / registered.id
        catalog = population_of([registered], folder)
        read = Incoming.of(registered.program.streams, stream, payload, order)
        runner = MixedRunner(self.spark)
        to = sink_of(self.spark, sink, catalog.programs, with_query=False)
        mode = replace(plan_mode(plan), machine=machine_of(self.spark))
        options = DriverOptions(
            skip_bad=on_error == "skip",
            plan=mode,
            idle_timeout=idle_milliseconds(idle_timeout),
            allow_gap=allow_gap,
            continue_changed=continue_changed,
            limits=replace(limits, seconds=None),  # the drop-in measures the time itself
            rejects=rejects_of(trace, folder),
        )
        frontier = frontier_of(registered.program.streams, lateness, eager, max_ahead)
        driver = make_driver(catalog, folder, runner, to, frontier, options, trace)
        return Adaptive(registered, StreamRun(driver, runner), read, claim, limits, listener)


def _paths(given: PathLike | Sequence[PathLike], what: str) -> list[Path]:
    return [local_path(path, what) for path in ([given] if isinstance(given, str | Path) else given)]


def _graphs(given: Mapping[str, PathLike] | None) -> list[tuple[str, Path]]:
    return [(iri, local_path(path, f"graphs: {iri}")) for iri, path in (given or {}).items()]


__all__ = ["Adaptive", "CompiledQuery", "Engine", "KafkaTopic", "Messages"]
