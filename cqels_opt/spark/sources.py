"""The sources that a user can pass as a stream (a DataFrame of triples, messages, a Kafka topic), and the content of
micro-batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cqels_opt.errors import InputError
from cqels_opt.rdf.payloads import Payload, payload_of
from cqels_opt.spark.kafka import topic_stream
from cqels_opt.spark.kafka_topic import KafkaTopic
from cqels_opt.spark.messages import Messages
from cqels_opt.spark.stream import as_rows

Source: TypeAlias = DataFrame | Messages | KafkaTopic


def check_sources(given: Mapping[str, object]) -> None:
    """InputError for a stream, by its IRI, that is no source, or whose DataFrame is not streaming."""
    for iri, source in given.items():
        if not isinstance(source, DataFrame | Messages | KafkaTopic):
            raise InputError(
                f"streams: {iri} is {type(source).__name__}: a streaming DataFrame, Messages or a KafkaTopic is expected; "
                "cq.local.Engine reads files"
            )
        frame = source.frame if isinstance(source, Messages) else source
        if isinstance(frame, DataFrame) and not frame.isStreaming:
            raise InputError(
                f"streams: {iri}: this DataFrame is not streaming: make it with spark.readStream; engine.adaptive takes the micro-batches "
                "of a foreachBatch"
            )


def of_messages(
    spark: SparkSession, given: Mapping[str, Source], streams: Sequence[str], order: str | None
) -> dict[str, Messages] | None:
    """The streams as messages if any of them has messages; None if all are DataFrames of triples.

    Together with messages, a DataFrame of triples is converted to messages, one per row.
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


@dataclass(frozen=True, slots=True)
class Incoming:
    """What the micro-batches of a ``foreachBatch`` contain: triples of a stream, messages of a stream, or of several topics.

    ``payloads`` has one for each stream of the query (empty: rows of triples). ``topics`` maps topics to stream numbers.
    """

    stream: int = 0
    order: str | None = None
    payloads: tuple[Payload, ...] = ()
    topics: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        streams: Sequence[str],
        stream: str | Mapping[str, str] | None,
        payload: str | Payload | Mapping[str, str | Payload] | None,
        order: str | None,
    ) -> Incoming:
        """Validates the user's arguments; InputError if they are ambiguous, or name streams that the query does not read."""
        numbers = {iri.strip("<>"): number for number, iri in enumerate(streams)}
        if not isinstance(stream, str | Mapping | None):
            raise InputError(f"stream={stream!r}: give the IRI of a stream, or a stream for each topic")

        def number_of(iri: str) -> int:
            if iri.strip("<>") not in numbers:
                raise InputError(f"the query does not read {iri}; it reads {', '.join(streams)}")
            return numbers[iri.strip("<>")]

        if payload is None:
            if isinstance(stream, Mapping):
                raise InputError("stream= names topics, which are of messages: say with payload= how these are read")
            if len(streams) > 1 and (stream is None or stream.strip("<>") not in numbers):
                raise InputError(f"the query reads {', '.join(streams)}: say with stream= which of them this DataFrame is")
            return cls(0 if stream is None else number_of(stream), order)
        if order is not None:
            raise InputError("messages come in the order of their partition and offset: leave order= out")
        given = (
            {iri.strip("<>"): p for iri, p in payload.items()}
            if isinstance(payload, Mapping)
            else dict.fromkeys(numbers, payload)
        )
        read = {number_of(iri): p if isinstance(p, Payload) else payload_of(p) for iri, p in given.items()}
        payloads = tuple(read.get(number, Payload()) for number in numbers.values())
        if not isinstance(stream, Mapping):
            if len(streams) > 1 and stream is None:
                topics = "{" + ", ".join(f"TOPIC: {iri!r}" for iri in numbers) + "}"
                raise InputError(f"the query reads {', '.join(streams)}: say with stream={topics} which topic is which")
            return cls(0 if stream is None else number_of(stream), None, payloads)
        topics_of = {topic: number_of(iri) for topic, iri in stream.items()}
        if not topics_of or len(set(topics_of.values())) < len(topics_of):
            raise InputError("stream=: name a topic for each stream; two topics are in no common order, and cannot be one stream")
        return cls(0, None, payloads, topics_of)

    def rows(self, frame: DataFrame) -> DataFrame:
        """A micro-batch in the form that the first stage reads."""
        if not self.payloads:
            return as_rows(frame, self.stream, self.order)
        messages = Messages(frame, self.payloads[self.stream])
        return messages.of_topics(self.topics) if self.topics else messages.rows(self.stream)
