"""Kafka through Spark's connector: topics as streams of a query, and answers as messages.

Spark keeps the offsets of a stream in the checkpoint: a repeated batch reads the same messages again. Answers are sent at least
once: a batch that was killed before its commit record was written is sent again, with the same batch and index in its headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import __version__ as spark_version
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cqels_opt.errors import InputError, RunError, option
from cqels_opt.operators.algebra.triple import TRIPLE
from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.runtime.answer_messages import AnswerLines, answer_messages
from cqels_opt.runtime.evaluate_task import FinishReport, Format
from cqels_opt.spark.failures import reason
from cqels_opt.spark.job_descriptions import batch_name, described
from cqels_opt.spark.kafka_topic import ANSWERS, KafkaTopic
from cqels_opt.spark.messages import Messages
from cqels_opt.state.task_files import task_path

CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark_version}"
"""The Maven coordinates for a session's ``spark.jars.packages`` (``--packages``)."""

_SENT = "key binary, value binary, headers array<struct<key: string, value: binary>>"
_HEADER: Any = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_ROWS = 1 << 12  # messages per Arrow batch


def topic_stream(spark: SparkSession, topic: KafkaTopic) -> Messages:
    """A topic as a stream of messages, from its earliest by default. Each Kafka partition is one source partition."""
    reading = topic.reading()
    options = {"startingOffsets": "earliest", **topic.options, "kafka.bootstrap.servers": topic.servers, "subscribe": topic.topic}
    try:
        frame = spark.readStream.format("kafka").options(**options).load()
    except PySparkException as error:
        raise _wrong(topic, error) from error
    return Messages(frame.select("partition", "offset", "timestamp", "value"), reading)


def _wrong(topic: KafkaTopic, error: BaseException) -> InputError:
    message = reason(error)
    if "data source" in message.lower() and "kafka" in message.lower():
        connector = option(f"the setting spark.jars.packages={CONNECTOR}", f"--packages {CONNECTOR}")
        return InputError(f"this Spark session has no Kafka connector: start it with {connector}")
    return InputError(f"topic {topic.topic} on {topic.servers}: {message}")


class KafkaSink:
    """Answers as messages of a topic. The key is the query's name, so the answers of a query are in order in one partition.

    ``answers`` has one line of answers per message, as in ``--out``. ``json`` and ``nq`` have one element per message: the graph
    that a CONSTRUCT or DESCRIBE yields at an instant, with its time, as these payloads are read. Headers: ``cqels-batch``,
    ``cqels-index``, ``cqels-time`` and ``cqels-op``.
    """

    format: Format = "jsonl"
    by_query: Literal[True] = True
    digests: Mapping[str, str] = MappingProxyType({})

    def __init__(self, spark: SparkSession, topic: KafkaTopic, programs: Sequence[CompiledProgram]) -> None:
        self.spark, self.topic, self.kind = spark, topic, topic.writing()
        for program in programs:
            self.check(program.id, program.variables)

    def check(self, name: str, variables: Sequence[str]) -> None:
        """InputError if the messages must be graphs and the query's answers are not."""
        if self.kind != ANSWERS and tuple(variables) != TRIPLE:
            raise InputError(
                f"query {name}: its answers are no graphs, and cannot go to a topic as {self.kind!r}: use {ANSWERS!r}"
            )

    def restore(self, lengths: Mapping[str, int], digests: Mapping[str, str]) -> None:
        """Does nothing: sent messages cannot be withdrawn."""

    def put(self, batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
        """Sends the answers of a batch from one task, and waits for the brokers' acknowledgement."""
        if not chunks:
            return {}
        files = [
            AnswerLines(program.id, task_path(folder / report.path), tuple(map(tuple, report.times.tolist())))
            for program, report in chunks
        ]
        kind: Any = self.kind

        def rows_of_messages(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in rows:
                continue
            pending: list[tuple[bytes, bytes, list[dict[str, Any]]]] = []
            for m in answer_messages(files, kind):
                headers = {"batch": batch, "index": m.index, "time": m.time, "op": m.op}
                pending.append(
                    (m.query.encode(), m.value, [{"key": f"cqels-{k}", "value": str(v).encode()} for k, v in headers.items()])
                )
                if len(pending) == _ROWS:
                    yield _sent(pending)
                    pending = []
            if pending:
                yield _sent(pending)

        options = {**self.topic.options, "kafka.bootstrap.servers": self.topic.servers, "topic": self.topic.topic}
        frame = self.spark.range(0, 1, 1, 1).mapInArrow(rows_of_messages, _SENT)
        name = batch_name(dict.fromkeys(program.id for program, _ in chunks), batch)
        try:
            with described(self.spark.sparkContext, f"{name}: send answers to topic {self.topic.topic}"):
                frame.write.format("kafka").options(**options, includeHeaders="true").save()
        except (PySparkException, Py4JError) as error:
            raise RunError(f"batch {batch} could not be sent: {_wrong(self.topic, error)}") from error
        return {}


def _sent(rows: Sequence[tuple[bytes, bytes, list[dict[str, Any]]]]) -> pa.RecordBatch:
    key, value, headers = zip(*rows)
    arrays: list[Any] = [pa.array(key, pa.binary()), pa.array(value, pa.binary()), pa.array(headers, _HEADER)]
    return pa.RecordBatch.from_arrays(arrays, ["key", "value", "headers"])
