"""Wires queries, data and Spark together, for Python (:class:`Engine`) and for the command line (:mod:`cqels_opt.cli.commands`).

The rooms below define all semantics; this module processes no rows.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from cqels_opt.compiler.dialect_profile import QuerySemantics
from cqels_opt.compiler.multi_query_sharing import Member, alone
from cqels_opt.compiler.registration import Programs, member_of, record_of
from cqels_opt.compiler.static_subpatterns import BYTES_BUDGET
from cqels_opt.errors import CheckpointError, InputError
from cqels_opt.lod.locations import state_folder
from cqels_opt.lod.open_store import open_store
from cqels_opt.lod.snapshots import store_of
from cqels_opt.lod.update import UpdateReport, update
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.query_forms import answer_variables
from cqels_opt.operators.stream_output import column_names
from cqels_opt.planner.explain import Format, explained
from cqels_opt.planner.plan_modes import plan_mode
from cqels_opt.query.algebra import Query
from cqels_opt.query.printing import to_text
from cqels_opt.rdf.ids import IdScheme
from cqels_opt.rdf.payloads import Payload
from cqels_opt.runtime.answer_folder import FolderSink
from cqels_opt.runtime.interfaces import Sink
from cqels_opt.runtime.limits import NO_LIMITS, Limits
from cqels_opt.runtime.query_catalog import QueryCatalog
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.spark import prepare
from cqels_opt.spark.drop_in import Claim, DropIn, check_classic
from cqels_opt.spark.kafka import KafkaSink
from cqels_opt.spark.kafka_topic import KafkaTopic
from cqels_opt.spark.messages import Messages, message_stream, reading_of
from cqels_opt.spark.mixed import MixedRunner, machine_of
from cqels_opt.spark.run_factory import check_streams, external_streams, make_driver, rejects_of
from cqels_opt.spark.session import DeferredSession, session_of
from cqels_opt.spark.sinks import BatchFunction, FunctionSink
from cqels_opt.spark.sources import Incoming, Source, of_messages
from cqels_opt.spark.stream import DataFrame, SparkSession, StreamRun, row_stream
from cqels_opt.state.commit_log import key_of
from cqels_opt.trace import display
from cqels_opt.trace.listener import BatchReporter, ListenerLike
from cqels_opt.windows.frontier import Frontier
from cqels_opt.windows.instants import Policy

PathLike = str | Path
_NAME = re.compile(r"(?!\.)[^/\\\x00-\x1f]{1,100}")


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A registered query: parsed, with its static sub-results computed and its plans retained.

    A query that differs from another only in constants is compiled together with it, or when its plans are requested.
    """

    engine: Engine
    member: Member

    @property
    def id(self) -> str:
        """The query's name."""
        return self.member.id

    @property
    def query(self) -> Query:
        """The parsed query."""
        return self.member.query

    @property
    def meaning(self) -> QuerySemantics:
        """The report policies, the output operator, and set or bag semantics."""
        return self.member.meaning

    @property
    def program(self) -> CompiledProgram:
        """The query compiled separately."""
        return self.engine.programs.of(alone(self.member))

    @property
    def columns(self) -> dict[str, str]:
        """The DataFrame column of each variable (the names differ if variables are equal ignoring case).

        For a CONSTRUCT or DESCRIBE the columns are ``s``, ``p`` and ``o``, for an ASK ``boolean``.
        """
        return {name.removeprefix("."): column for name, column in column_names(answer_variables(self.query)).items()}

    def explain(self, format: Format = "text", alternatives: int = 0) -> str:
        """The current plans: before a run, from the statistics of the static data and documented assumptions."""
        return explained([self.program], plan_mode("adaptive"), format, alternatives)

    def _repr_html_(self) -> str:
        return display.plans(self.id, self.explain("json", display.ALTERNATIVES))

    def to_text(self, dialect: str) -> str:
        """The query in a dialect; raises QueryError with the reason if the dialect cannot express it."""
        return to_text(self.query, dialect)

    def start(
        self,
        streams: Mapping[str, Source],
        sink: BatchFunction | PathLike | KafkaTopic,
        checkpoint: PathLike,
        trace: PathLike | None = None,
        **options: Any,
    ) -> StreamRun:
        """Starts the query as one streaming job; see :meth:`Engine.start` for the parameters."""
        return self.engine._start([self], streams, sink, checkpoint, trace, with_query=False, **options)


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
        self._session = spark
        self._temporary = tempfile.TemporaryDirectory(prefix="cqels-opt-") if folder is None else None
        self.folder = Path(self._temporary.name if self._temporary else folder or ".").absolute()
        paths = _paths(static or ())
        if store is not None and (paths or graphs):
            raise InputError(
                "give files (static, graphs) or a store, not both: load the files into the store with cqels-opt load"
            )
        sources = prepare.static_sources(paths, [(iri, Path(p)) for iri, p in (graphs or {}).items()])
        self._load: Callable[..., Path] | None = None
        if store is None:
            self._load = partial(prepare.static_store, spark, sources=sources, on_error=on_error)
            store = self._load(folder=self.folder / "static")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.store = prepare.leased_store(self.folder, store)
        self.programs = Programs(self.store, self.folder / "queries", prepare.compiling(spark, self.store))
        self._queries: dict[str, CompiledQuery] = {}
        self._kinds: set[Hashable] = set()

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
        added = prepare.static_sources(_paths(add), [(iri, Path(path)) for iri, path in (graphs or {}).items()])
        place = store_of(self.store) or self.store
        return update(place, added, prepare.static_sources(_paths(remove), []), on_error=on_error)

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
        report: Mapping[str, Policy] | None = None,
        output_operator: str | None = None,
        duplicates: Literal["set", "bag"] | None = None,
        bounds: Literal["open-closed", "closed-open"] | None = None,
        t0: Mapping[str, int] | None = None,
        file: str = "query",
        sub_result_bytes: int = BYTES_BUDGET,
    ) -> CompiledQuery:
        """Parses a query, computes its static sub-results, and retains its plans. Raises QueryError with line and column.

        ``sub_result_bytes`` limits the sub-results of each block of joins, at registration and during runs.
        """
        name = id or f"q{len(self._queries) + 1}"
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{name[:80]!r} is no name of a query: it becomes a part of names of files, so no / and no dot at its start"
            )
        if name in self._queries:
            raise InputError(f"there is a query {name!r} already")
        given = (dialect, profile, report, output_operator, duplicates, bounds, t0, file, sub_result_bytes)
        found = CompiledQuery(self, member_of(record_of(text, name, *given)))
        if found.member.kind not in self._kinds:  # a query that differs only in constants is known to compile
            self.programs.of(alone(found.member))
            self._kinds.add(found.member.kind)
        self._queries[name] = found
        return found

    def start(
        self,
        streams: Mapping[str, Source],
        sink: BatchFunction | PathLike | KafkaTopic,
        checkpoint: PathLike,
        trace: PathLike | None = None,
        **options: Any,
    ) -> StreamRun:
        """Starts all registered queries in one job; the rows have a column ``query``.

        Queries can be added and removed during the run: see :meth:`StreamRun.add` and :meth:`StreamRun.remove`. Queries that
        differ only in constants share one plan: docs/many-queries.md. A query that reads the stream that another one registers
        for its graphs (``REGISTER STREAM <out> AS CONSTRUCT …``) gets them: docs/networks.md.

        ``streams`` maps stream IRIs to streaming DataFrames with the columns ``s p o`` (N-Triples terms), ``t`` (timestamp, or
        milliseconds) and optionally ``g``, to :class:`Messages`, or to a :class:`KafkaTopic` (docs/sources-and-sinks.md).
        ``sink`` is ``f(df, batch_id)``, which may be called twice for a batch, or a folder that gets each batch's answers exactly
        once, as Parquet (docs/answers.md), or a :class:`KafkaTopic`, at least once. ``checkpoint`` is a folder that executors can
        access; a second start with it resumes. Options: ``plan`` (a mode, or ``fixed:`` and plans), ``filters`` (as
        ``--filters``), ``lateness`` (ms), ``order`` (a column that orders elements), ``eager``, ``idle_timeout`` (ms of wall
        clock after which the run stops waiting for an idle stream), ``max_ahead`` (ms; elements further ahead are rejected:
        docs/semantics.md), ``on_error`` ("fail" or "skip"), ``trigger`` ("10 seconds"), ``to_the_end``, ``continue_changed`` (the
        queries may differ from those of the checkpoint: docs/checkpoints.md), ``limits`` (per query: a query that exceeds one
        ends, see ``StreamRun.failures``, and the others continue; the only query of a run ends it with LimitError), ``listener``
        (a function of each batch's trace record, a :class:`Listener`, or a list of these).
        """
        if not self.queries:
            raise InputError("no query is registered")
        return self._start(self.queries, streams, sink, checkpoint, trace, with_query=True, **options)

    def _start(
        self,
        queries: Sequence[CompiledQuery],
        streams: Mapping[str, Source],
        sink: BatchFunction | PathLike | KafkaTopic,
        checkpoint: PathLike,
        trace: PathLike | None,
        *,
        with_query: bool,
        plan: str = "adaptive",
        filters: str = "cost",
        lateness: int = 0,
        order: str | None = None,
        eager: bool = False,
        idle_timeout: int | None = None,
        max_ahead: int | None = None,
        on_error: Literal["fail", "skip"] = "skip",
        trigger: str | None = None,
        to_the_end: bool = False,
        continue_changed: bool = False,
        limits: Limits = NO_LIMITS,
        listener: ListenerLike | None = None,
    ) -> StreamRun:
        given = {iri.strip("<>"): frame for iri, frame in streams.items()}
        folder = state_folder(checkpoint, "checkpoint").absolute()
        catalog = population_of(queries, folder)
        needed = external_streams(catalog)
        check_streams(needed, given)
        runner = MixedRunner(self.spark)
        to = self._sink(sink, catalog.programs, with_query)
        driver = make_driver(
            catalog,
            folder,
            runner,
            to,
            Frontier(needed, lateness, eager, max_ahead=max_ahead),
            DriverOptions(
                skip_bad=on_error == "skip",
                plan=replace(plan_mode(plan, filters=filters), machine=machine_of(self.spark)),
                idle_timeout=idle_timeout,
                continue_changed=continue_changed,
                limits=limits,
                rejects=rejects_of(trace, folder),
            ),
            trace,
        )
        coming = partial(self._coming, to) if with_query else None
        run = StreamRun(driver, runner, coming=coming, reporter=BatchReporter(listener))
        run.keeps = self
        if not driver.streams:
            return run.once()
        sources = {iri: given[iri.strip("<>")] for iri in driver.streams}
        if (messages := of_messages(self.spark, sources, driver.streams, order)) is not None:
            frame = message_stream(messages, driver.streams)
            run.messages = reading_of([messages[iri].payload for iri in driver.streams], driver.frontier)
        else:
            frames = {iri: source for iri, source in sources.items() if isinstance(source, DataFrame)}
            frame = row_stream(frames, driver.streams, order)
            run.ordered = order is not None
        return run.start(frame, folder / "spark", to_the_end=to_the_end, trigger=trigger)

    def _coming(self, to: Sink, queries: Sequence[object], options: Mapping[str, Any]) -> list[Member]:
        """Registers queries that are added to a run: texts, or queries registered with this engine."""
        found = []
        for query in queries:
            if not isinstance(query, CompiledQuery):
                query = self.register(str(query), **options)
            if isinstance(to, KafkaSink):
                to.check(query.id, answer_variables(query.member.query))
            found.append(query.member)
        return found

    def _sink(
        self, sink: BatchFunction | PathLike | KafkaTopic, programs: Callable[[], Sequence[CompiledProgram]], with_query: bool
    ) -> Sink:
        if isinstance(sink, KafkaTopic):
            return KafkaSink(self.spark, sink, programs())
        if isinstance(sink, str | Path):
            return FolderSink(Path(sink).absolute(), programs if with_query else None)
        return FunctionSink(self.spark, sink, programs, with_query)

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
        lateness: int = 0,
        eager: bool = False,
        idle_timeout: int | None = None,
        max_ahead: int | None = None,
        on_error: Literal["fail", "skip"] = "skip",
        trace: PathLike | None = None,
        continue_changed: bool = False,
        limits: Limits = NO_LIMITS,
        allow_gap: bool = False,
        listener: ListenerLike | None = None,
        **query: Any,
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
        to = self._sink(sink, catalog.programs, with_query=False)
        mode = replace(plan_mode(plan), machine=machine_of(self.spark))
        options = DriverOptions(
            skip_bad=on_error == "skip",
            plan=mode,
            idle_timeout=idle_timeout,
            allow_gap=allow_gap,
            continue_changed=continue_changed,
            limits=replace(limits, seconds=None),  # the drop-in measures the time itself
            rejects=rejects_of(trace, folder),
        )
        frontier = Frontier(registered.program.streams, lateness, eager, max_ahead=max_ahead)
        driver = make_driver(catalog, folder, runner, to, frontier, options, trace)
        return Adaptive(registered, StreamRun(driver, runner), read, claim, limits, listener)


class Adaptive(DropIn):
    """The result of :meth:`Engine.adaptive`: call it with a micro-batch; it reports plans, switches and statistics."""

    def __init__(
        self,
        query: CompiledQuery,
        run: StreamRun,
        incoming: Incoming,
        claim: Claim,
        limits: Limits = NO_LIMITS,
        listener: ListenerLike | None = None,
    ) -> None:
        self.query, self.run, self._incoming, self._kept = query, run, incoming, claim.state is not None
        run.ordered = incoming.order is not None
        if incoming.payloads:
            run.messages = reading_of(incoming.payloads, run.driver.frontier)
        super().__init__(query.id, claim, limits, listener)

    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        driver = self.run.driver
        if not self._kept and not driver.options.allow_gap and driver.state.batch < 0 and batch_id != 0:
            raise CheckpointError(
                f"the job continues at batch {batch_id}, but adaptive() has no state of the batches before: give it state=FOLDER; "
                "allow_gap=True continues without them"
            )
        self.run.batch(self._incoming.rows(frame), batch_id)
        self._recorded(*self.run.last)

    def _cancel(self) -> None:
        self.run.runner.cancel()

    def _repr_html_(self) -> str:
        return self.run.live(self.query.id, self.failure)

    @property
    def rejects(self) -> Path | None:
        """The file of rejected input, one JSON object per line with its ``reason``; None while there is none."""
        path = self.run.driver.options.rejects
        return path if path is not None and path.exists() else None

    @property
    def switches(self) -> int:
        """The number of plan changes of all delta sources."""
        return self.run.switches

    def plans(self) -> dict[str, str]:
        """The current plan of each delta source."""
        return self.run.plans()[self.query.id]

    def explain(self, format: Format = "text", alternatives: int = 0) -> str:
        """The plans of the last micro-batch, with the estimated and the observed rows of their operators."""
        return self.run.explain(self.query.id, format, alternatives)

    def statistics(self) -> dict[str, object]:
        """The current statistics, by block."""
        return dict(self.run.statistics()[self.query.id])


def _paths(given: PathLike | Sequence[PathLike]) -> list[Path]:
    return [Path(given)] if isinstance(given, str | Path) else [Path(path) for path in given]


def population_of(queries: Sequence[CompiledQuery], folder: Path) -> QueryCatalog:
    """The queries of a run with a checkpoint, including those that were added and removed during the run."""
    return QueryCatalog([query.member for query in queries], folder, queries[0].engine.under_key_of(folder))


__all__ = ["Adaptive", "CompiledQuery", "Engine", "KafkaTopic", "Messages"]
