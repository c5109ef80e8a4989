"""Wires queries, data and Spark together, for Python (:class:`Engine`) and for the command line (:mod:`cqels_opt.cli.commands`).

The packages below define all semantics; this module processes no rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, Unpack

from cqels_opt.compiler.multi_query_sharing import Member
from cqels_opt.compiler.registration import Do, QueryOptions, record_of
from cqels_opt.errors import InputError, check_choice, check_flags
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.operators.query_forms import answer_variables
from cqels_opt.planner.plan_modes import plan_mode
from cqels_opt.rdf.payloads import Payload
from cqels_opt.runtime.function_sink import FunctionSink
from cqels_opt.runtime.interfaces import Sink
from cqels_opt.runtime.limits import NO_LIMITS, Limits, checked
from cqels_opt.runtime.query_registry import ON_ERROR, PathLike, QueryRegistry
from cqels_opt.runtime.registered_query import catalog_of
from cqels_opt.runtime.run_factory import frontier_of, idle_milliseconds, make_driver, rejects_of
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.runtime.start_options import StartOptions, keywords_of
from cqels_opt.spark import prepare, query_jobs
from cqels_opt.spark.adaptive_sparql import Adaptive
from cqels_opt.spark.drop_in import check_classic
from cqels_opt.spark.kafka import KafkaSink
from cqels_opt.spark.kafka_topic import KafkaTopic
from cqels_opt.spark.messages import Messages
from cqels_opt.spark.mixed import MixedRunner, machine_of
from cqels_opt.spark.query_jobs import sink_of
from cqels_opt.spark.registered_query import CompiledQuery
from cqels_opt.spark.session import DeferredSession, session_of
from cqels_opt.spark.sinks import BatchFunction
from cqels_opt.spark.sources import Incoming, Source
from cqels_opt.spark.stream import SparkSession, StreamRun
from cqels_opt.spark.worker_python import use_this_python
from cqels_opt.state.claim import Claim
from cqels_opt.state.remote_checkpoint import checkpoint_folder
from cqels_opt.trace.listener import ListenerLike


class Engine(QueryRegistry[CompiledQuery]):
    """Continuous queries over RDF streams and static Linked Open Data, on a Spark session.

    ``static`` is a file (or several) for the default graph, ``graphs`` maps the IRI of each named graph to a file (or several), ``store``
    is a store that ``cqels-opt load`` wrote; files are added to a copy of it, which shares what does not change. ``folder`` stores the
    output of registration, by default a temporary folder. Executors must be able to read it.
    """

    def __init__(
        self,
        spark: SparkSession | DeferredSession,
        static: PathLike | Sequence[PathLike] | None = None,
        graphs: Mapping[str, PathLike | Sequence[PathLike]] | None = None,
        store: PathLike | None = None,
        folder: PathLike | None = None,
        on_error: Literal["fail", "skip"] = "fail",
    ) -> None:
        if not isinstance(spark, DeferredSession):
            check_classic(spark)
            use_this_python(spark)
        self._session = spark
        super().__init__(partial(prepare.loaded, spark), static, graphs, store, folder, on_error)

    def _compiling(self, store: Path | str) -> Do:
        return prepare.compiling(self._session, store)

    def _registered(self, member: Member) -> CompiledQuery:
        return CompiledQuery(self, member)

    @property
    def spark(self) -> SparkSession:
        """The session; makes one that is deferred, or waits for it."""
        return session_of(self._session)

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
        access, or a URI of an object store; a second start with it resumes. The other keywords are those of
        :class:`StartOptions`; durations are texts such as ``"10s"`` or ``"1 hour"``, or whole milliseconds.
        """
        if not self.queries:
            raise InputError("no query is registered")
        folder = checkpoint_folder(checkpoint, "checkpoint")
        catalog = catalog_of(self.queries, folder)
        return query_jobs.start(self, catalog, folder, streams, sink, trace, self._register_and_add, **options)

    def _check_sink(self, sink: Sink, query: CompiledQuery, others: Sequence[CompiledProgram]) -> None:
        if isinstance(sink, KafkaSink):
            sink.check(query.id, answer_variables(query.member.query))
        if isinstance(sink, FunctionSink):
            sink.check([query.program, *others])

    @keywords_of(QueryOptions, record_of)
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

        ``state`` is the folder, or the URI, for slots and commit records; without it the state lives as long as this object. A
        batch id that does not follow the state (without state: other than 0) is a CheckpointError, because the windows would lack elements;
        ``allow_gap=True`` accepts it. ``stream`` names the stream if the query reads several. ``limits`` end the query and not
        the job.

        With a ``payload`` the DataFrame has messages, in the form of Spark's Kafka source, and their ``value`` is decoded as by
        :class:`Messages`. For several topics, ``stream`` maps each topic to its stream, and ``payload`` may map each stream to
        its payload. Unreadable messages are stored with their reason in ``Adaptive.rejects``.

        ``listener`` gets the events of the query: a function of each batch's trace record, a :class:`Listener`, or a list of
        these. Further keywords are those of :meth:`register`. A query that this engine has registered before, with the same options, is the
        same query, so that a cell of a notebook can run again.
        """
        check_choice("on_error", on_error, ON_ERROR)
        check_flags(eager=eager, continue_changed=continue_changed, allow_gap=allow_gap)
        limits = checked(limits)
        registered = self.known(text, query) or self.register(text, **query)
        kept = checkpoint_folder(state, "state") if state is not None else None
        claim = Claim(kept)
        folder = kept or _unused(self.folder / "adaptive" / registered.id)
        catalog = catalog_of([registered], folder)
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


def _unused(folder: Path) -> Path:
    """A new folder: this one, or one with a number behind its name."""
    found, number = folder, 1
    while found.exists():
        number += 1
        found = folder.with_name(f"{folder.name}-{number}")
    return found


__all__ = ["Adaptive", "CompiledQuery", "Engine", "KafkaTopic", "Messages"]
