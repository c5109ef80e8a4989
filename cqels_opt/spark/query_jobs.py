"""Starts registered queries as one streaming job of Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, Protocol, cast

from pyspark.sql import DataFrame, SparkSession

from cqels_opt.errors import InputError, check_choice, check_flags
from cqels_opt.lod.locations import local_path, new_folder
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.planner.plan_modes import plan_mode
from cqels_opt.runtime.answer_folder import FolderSink
from cqels_opt.runtime.function_sink import FunctionSink
from cqels_opt.runtime.interfaces import Sink
from cqels_opt.runtime.limits import NO_LIMITS, Limits, checked
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
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.spark.kafka import KafkaSink
from cqels_opt.spark.kafka_topic import KafkaTopic
from cqels_opt.spark.messages import message_stream, reading_of
from cqels_opt.spark.mixed import MixedRunner, machine_of
from cqels_opt.spark.sinks import BatchFunction, answers_frame
from cqels_opt.spark.sources import Source, check_sources, of_messages
from cqels_opt.spark.stream import StreamRun, row_stream
from cqels_opt.trace.listener import BatchReporter, ListenerLike


class HasSession(Protocol):
    """The engine of a run, which owns files that the run reads."""

    @property
    def spark(self) -> SparkSession:
        """The session."""


def sink_of(
    spark: SparkSession,
    sink: BatchFunction | str | Path | KafkaTopic,
    programs: Callable[[], Sequence[CompiledProgram]],
    with_query: bool,
) -> Sink:
    """The sink that a user names. ``with_query``: the run may have several queries, and answers say of which they are."""
    if isinstance(sink, KafkaTopic):
        return KafkaSink(spark, sink, programs())
    if isinstance(sink, str | Path):
        return FolderSink(new_folder(local_path(sink, "sink"), "sink").absolute(), programs if with_query else None)
    if not callable(sink):
        raise InputError(f"sink={sink!r}: give a function of a DataFrame and the number of its batch, a folder, or a KafkaTopic")
    return FunctionSink(sink, programs, partial(answers_frame, spark, with_query=with_query))


def start(
    engine: HasSession,
    catalog: QueryCatalog,
    folder: Path,
    streams: Mapping[str, Source],
    sink: BatchFunction | str | Path | KafkaTopic,
    trace: str | Path | None,
    register: RegisterFor | None = None,
    *,
    plan: str = "adaptive",
    filters: str = "cost",
    lateness: int | str = 0,
    order: str | None = None,
    eager: bool = False,
    idle_timeout: int | str | None = None,
    max_ahead: int | str | None = None,
    on_error: Literal["fail", "skip"] = "skip",
    trigger: str | None = None,
    to_the_end: bool = False,
    continue_changed: bool = False,
    limits: Limits = NO_LIMITS,
    listener: ListenerLike | None = None,
) -> StreamRun:
    """Starts the queries of a catalog; see ``Engine.start``. With ``register``, queries can be added to the run and removed."""
    check_choice("on_error", on_error, ON_ERROR)
    check_flags(eager=eager, to_the_end=to_the_end, continue_changed=continue_changed)
    if to_the_end and trigger is not None:
        raise InputError(f"trigger={trigger!r}: a run to the end of its input has no interval: leave out trigger or to_the_end")
    spark = engine.spark
    given = streams_by_iri(streams)
    needed = external_streams(catalog)
    check_streams(needed, given, "DATAFRAME")
    frontier = frontier_of(needed, lateness, eager, max_ahead)
    options = DriverOptions(
        skip_bad=on_error == "skip",
        plan=replace(plan_mode(plan, filters=filters), machine=machine_of(spark)),
        idle_timeout=idle_milliseconds(idle_timeout),
        continue_changed=continue_changed,
        limits=checked(limits),
        rejects=rejects_of(trace, folder),
    )
    runner = MixedRunner(spark)
    to = sink_of(spark, sink, catalog.programs, with_query=register is not None)
    check_sources({iri: given[iri.strip("<>")] for iri in needed})
    driver = make_driver(catalog, folder, runner, to, frontier, options, trace)
    run = StreamRun(
        driver, runner, register=None if register is None else partial(register, to), reporter=BatchReporter(listener)
    )
    run.keeps = engine
    if not driver.streams:
        return run.once()
    sources = {iri: given[iri.strip("<>")] for iri in driver.streams}
    if (messages := of_messages(spark, sources, driver.streams, order)) is not None:
        frame = message_stream(messages, driver.streams)
        run.messages = reading_of([messages[iri].payload for iri in driver.streams], driver.frontier)
        run.topics = [source for source in sources.values() if isinstance(source, KafkaTopic)]
    else:
        frame = row_stream(cast("dict[str, DataFrame]", sources), driver.streams, order)
        run.ordered = order is not None
    return run.start(frame, folder / "spark", to_the_end=to_the_end, trigger=trigger)
