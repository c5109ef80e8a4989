"""Measures a streaming batch without our work: the same chunks, written to Spark's ``noop`` sink."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from cqels_opt.spark.stream import chunk_stream, trigger_milliseconds
from cqels_opt.windows.batch_size import BatchSize
from cqels_opt.windows.replay import ReplaySource, cut


def noop_milliseconds(
    spark: SparkSession, streams: Sequence[tuple[str, Path]], batch: BatchSize, folder: Path
) -> tuple[float, ...]:
    """The milliseconds of each batch's trigger."""
    plan = cut([ReplaySource(iri, (path,)) for iri, path in streams], folder / "replay", batch)
    query = (
        chunk_stream(spark, plan.chunk_folder)
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "spark"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return trigger_milliseconds(query)
