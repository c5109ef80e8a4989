"""A query that an engine on Spark has registered, and its start as a job of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Unpack

from cqels_opt.runtime.registered_query import QueryEngine, RegisteredQuery, catalog_of
from cqels_opt.runtime.start_options import StartOptions, keywords_of
from cqels_opt.spark import query_jobs
from cqels_opt.spark.kafka_topic import KafkaTopic
from cqels_opt.spark.sinks import BatchFunction
from cqels_opt.spark.sources import Source
from cqels_opt.spark.stream import SparkSession, StreamRun
from cqels_opt.state.remote_checkpoint import checkpoint_folder

PathLike = str | Path


class SparkEngine(QueryEngine, Protocol):
    """An engine with a session."""

    @property
    def spark(self) -> SparkSession:
        """The session."""


@dataclass(frozen=True, slots=True, repr=False)
class CompiledQuery(RegisteredQuery):
    """A registered query: parsed, with its static sub-results computed and its plans retained.

    A query that differs from another only in constants is compiled together with it, or when its plans are requested.
    """

    engine: SparkEngine

    @keywords_of(StartOptions, query_jobs.start)
    def start(
        self,
        streams: Mapping[str, Source],
        sink: BatchFunction | PathLike | KafkaTopic,
        checkpoint: PathLike,
        trace: PathLike | None = None,
        **options: Unpack[StartOptions],
    ) -> StreamRun:
        """Starts the query as one streaming job; see :meth:`Engine.start` for the parameters."""
        folder = checkpoint_folder(checkpoint, "checkpoint")
        catalog = catalog_of([self], folder)
        return query_jobs.start(self.engine, catalog, folder, streams, sink, trace, **options)
