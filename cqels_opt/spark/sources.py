"""What a user may give as a stream of a query: a DataFrame of triples, messages, or a topic of Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cqels_opt.rdf.payloads import Payload
from cqels_opt.spark.kafka import topic_stream
from cqels_opt.spark.messages import Messages
from cqels_opt.spark.stream import as_rows
from cqels_opt.topics import KafkaTopic

Source: TypeAlias = DataFrame | Messages | KafkaTopic


def of_messages(
    spark: SparkSession, given: Mapping[str, Source], streams: Sequence[str], order: str | None = None
) -> dict[str, Messages] | None:
    """The streams as messages, where one of them has messages; None where all are DataFrames of triples.

    Beside messages a DataFrame of triples becomes messages too, a row each.
    """
    if not any(isinstance(given[iri], Messages | KafkaTopic) for iri in streams):
        return None
    return {iri: _as_messages(spark, given[iri], order) for iri in streams}


def _as_messages(spark: SparkSession, source: Source, order: str | None) -> Messages:
    if isinstance(source, Messages):
        return source
    if isinstance(source, KafkaTopic):
        return topic_stream(spark, source)
    rows = as_rows(source, 0, order)
    value = f.to_json(f.struct("s", "p", "o", "g", "t")).alias("value")
    return Messages(rows.select("partition", "offset", value) if order else rows.select(value), Payload())
