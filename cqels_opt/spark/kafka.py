"""Kafka through Spark's connector: topics as streams of a query, and answers as messages that others can read.

Spark keeps the offsets of a stream in the checkpoint: a batch that runs again reads the messages that it read before. Answers are put out
at least once: a batch that was killed before its commit record was there is sent again, with the same batch and index in its headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyspark import __version__ as spark_version
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cqels_opt.errors import InputError, RunError
from cqels_opt.operators.compiled_query import TRIPLE, CompiledProgram
from cqels_opt.runtime.answer_messages import AnswerFile, answer_messages
from cqels_opt.runtime.evaluate import FinishReport, Format
from cqels_opt.spark.kafka_topic import ANSWERS, KafkaTopic
from cqels_opt.spark.messages import Messages

CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark_version}"
"""What a session's ``spark.jars.packages`` (``--packages``) names for Kafka."""

_SENT = "key binary, value binary, headers array<struct<key: string, value: binary>>"
_HEADER: Any = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_ROWS = 1 << 12  # messages that are handed to Spark at a time


def topic_stream(spark: SparkSession, topic: KafkaTopic) -> Messages:
    """A topic as a stream of messages, from its earliest on unless its options say otherwise. A Kafka partition is one partition of it."""
    reading = topic.reading()
    options = {"startingOffsets": "earliest", **topic.options, "kafka.bootstrap.servers": topic.servers, "subscribe": topic.topic}
    try:
        frame = spark.readStream.format("kafka").options(**options).load()
    except PySparkException as error:
        raise _wrong(topic, error) from error
    return Messages(frame.select("partition", "offset", "timestamp", "value"), reading)


def _wrong(topic: KafkaTopic, error: PySparkException) -> InputError:
    said = str(error).splitlines()[0]
    if "data source" in said.lower() and "kafka" in said.lower():
        return InputError(
            f"this Spark session has no Kafka connector: start it with --packages {CONNECTOR} (or the setting spark.jars.packages)"
        )
    return InputError(f"topic {topic.topic} on {topic.servers}: {said}")


class KafkaSink:
    """Answers as messages of a topic. A query's have its name as key, and so come in order in one partition.

    ``answers`` has a line of answers a message, as ``--out`` has them. ``json`` and ``nq`` have an element a message: the graph that a
    CONSTRUCT or DESCRIBE gives at an instant, with its time, as these payloads read it. Headers: ``cqels-batch``, ``cqels-index``,
    ``cqels-time`` and ``cqels-op``.
    """

    format: Format = "jsonl"
    digests: Mapping[str, str] = MappingProxyType({})

    def __init__(self, spark: SparkSession, topic: KafkaTopic, programs: Sequence[CompiledProgram]) -> None:
        self.spark, self.topic, self.kind = spark, topic, topic.writing()
        for program in programs:
            self.check(program.id, program.variables)

    def check(self, name: str, variables: Sequence[str]) -> None:
        """InputError where the answers of a query are no graphs, and messages hold such."""
        if self.kind != ANSWERS and tuple(variables) != TRIPLE:
            raise InputError(
                f"query {name}: its answers are no graphs, and cannot go to a topic as {self.kind!r}: use {ANSWERS!r}"
            )

    def restore(self, lengths: Mapping[str, int], digests: Mapping[str, str]) -> None:
        """What was sent cannot be taken back."""

    def put(self, batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
        """Sends the answers of a batch, from one task, and waits until the brokers have them."""
        if not chunks:
            return {}
        files = [
            AnswerFile(program.id, str(folder / report.path), tuple(map(tuple, report.times.tolist())))
            for program, report in chunks
        ]
        kind: Any = self.kind

        def made(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in rows:
                continue
            held: list[tuple[bytes, bytes, list[dict[str, Any]]]] = []
            for m in answer_messages(files, kind):
                told = {"batch": batch, "index": m.index, "time": m.time, "op": m.op}
                held.append(
                    (m.query.encode(), m.value, [{"key": f"cqels-{k}", "value": str(v).encode()} for k, v in told.items()])
                )
                if len(held) == _ROWS:
                    yield _sent(held)
                    held = []
            if held:
                yield _sent(held)

        options = {**self.topic.options, "kafka.bootstrap.servers": self.topic.servers, "topic": self.topic.topic}
        frame = self.spark.range(0, 1, 1, 1).mapInArrow(made, _SENT)
        try:
            frame.write.format("kafka").options(**options, includeHeaders="true").save()
        except PySparkException as error:
            raise RunError(f"batch {batch} could not be sent: {_wrong(self.topic, error)}") from error
        return {}


def _sent(rows: Sequence[tuple[bytes, bytes, list[dict[str, Any]]]]) -> pa.RecordBatch:
    key, value, headers = zip(*rows)
    arrays: list[Any] = [pa.array(key, pa.binary()), pa.array(value, pa.binary()), pa.array(headers, _HEADER)]
    return pa.RecordBatch.from_arrays(arrays, ["key", "value", "headers"])
