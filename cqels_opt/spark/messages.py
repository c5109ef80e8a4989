"""Messages as a stream: Kafka's records, or rows of any streaming DataFrame, decoded on executors in the job of the first stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t

from cqels_opt.errors import InputError
from cqels_opt.rdf.payloads import ELEMENT_BITS, Payload, decode, payload_of
from cqels_opt.runtime.ingest import IngestReport, IngestTask, Rejected, RejectSpool
from cqels_opt.runtime.live_files import in_order
from cqels_opt.spark.files import NO_ORDER, ROW_BITS, TASK_BITS, place_of
from cqels_opt.windows.admission import Admission, Admitted
from cqels_opt.windows.element_rows import ELEMENT_ROWS
from cqels_opt.windows.frontier import Frontier

PARTITION_BITS = 16  # bits of the number of a source partition; the stream's number is above
BATCH_SHIFT = TASK_BITS + ROW_BITS  # the batch in the position of an unnumbered message: batch, task, number in the task
BATCHES = (1 << 23) - 1  # positions wrap around after this many batches: they only order elements of equal time


class Messages:
    """A stream of messages: a streaming DataFrame, and the payload that decodes it to triples.

    ``payload`` is one of ``json``, ``nt``, ``ttl``, ``nq``, ``trig`` and ``jsonld``, or the file of a mapping (``NAME.toml``).
    The DataFrame has a column ``value`` (binary or text) and optionally, as Spark's Kafka source has, ``partition`` and
    ``offset`` if its source numbers messages, and their time in ``timestamp``. With a mapping for JSON and without a column
    ``value``, each row is a record of its columns.
    """

    def __init__(self, frame: DataFrame, payload: str | Payload) -> None:
        if not isinstance(frame, DataFrame):
            raise InputError(f"Messages(…) expects a DataFrame and a payload, not {type(frame).__name__}")
        self.frame = frame
        self.payload = payload if isinstance(payload, Payload) else payload_of(payload)
        if "value" not in frame.columns and (self.payload.mapping is None or self.payload.mapping.format != "json"):
            raise InputError(
                f"a DataFrame of messages needs the column value (found: {', '.join(frame.columns)}); only with a mapping for JSON are "
                "its columns the record"
            )

    def of_topics(self, numbers: Mapping[str, int]) -> DataFrame:
        """The messages of some topics in the form of :meth:`rows`, each as the stream of its number; others are ignored."""
        if "topic" not in self.frame.columns:
            raise InputError(
                f"the column topic, which tells messages of {', '.join(numbers)} apart, is missing (found: {', '.join(self.frame.columns)})"
            )
        topic, (first, *others) = f.col("topic"), numbers
        number = f.when(topic == first, numbers[first])
        for name in others:
            number = number.when(topic == name, numbers[name])
        return Messages(self.frame.where(topic.isin(*numbers)), self.payload).rows(number)

    def rows(self, number: int | Column) -> DataFrame:
        """The messages as ``stream int, partition int, offset long, t long, value binary, topic string``, of the stream of that number."""
        frame, columns = self.frame, self.frame.columns
        numbered = {"partition", "offset"} <= set(columns) and "value" in columns
        value = f.col("value") if "value" in columns else f.to_json(f.struct(*(f.col(f"`{name}`") for name in columns)))
        timed = "timestamp" in columns and "value" in columns
        if timed and not isinstance(frame.schema["timestamp"].dataType, t.TimestampType):
            raise InputError(
                f"the column timestamp is {frame.schema['timestamp'].dataType.simpleString()}: it must be a timestamp"
            )
        stream = f.lit(number) if isinstance(number, int) else number
        partition = f.shiftleft(stream, PARTITION_BITS)
        return frame.select(
            stream.cast("int").alias("stream"),
            (partition + f.col("partition") if numbered else partition).cast("int").alias("partition"),
            (f.col("offset") if numbered else f.lit(None)).cast("long").alias("offset"),
            (f.unix_millis("timestamp") if timed else f.lit(None)).cast("long").alias("t"),
            value.cast("binary").alias("value"),
            (f.col("topic") if "topic" in columns and numbered else f.lit(None)).cast("string").alias("topic"),
        )


def message_stream(given: Mapping[str, Messages], streams: Sequence[str]) -> DataFrame:
    """Streams of messages as one DataFrame."""
    return reduce(DataFrame.union, (given[iri].rows(number) for number, iri in enumerate(streams)))


@dataclass(frozen=True, slots=True)
class MessageReading:
    """How the messages of a batch are decoded and admitted: the payload per stream, the batch number, the admission rule."""

    payloads: tuple[Payload, ...]
    batch: int
    admission: Admission


def reading_of(payloads: Sequence[Payload], frontier: Frontier) -> Callable[[int], MessageReading]:
    """Returns a function from a batch number to its :class:`MessageReading`, with the frontier's current admission rule."""
    payloads = tuple(payloads)
    return lambda batch: MessageReading(payloads, batch, frontier.admission())


def first_place(batch: int) -> int:
    """The position of the first unnumbered element of a batch; the others differ in the lower ``BATCH_SHIFT`` bits."""
    return (batch & BATCHES) << BATCH_SHIFT


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """A batch of messages. Those of a source partition are in one task: their order determines which elements are late."""

    frame: DataFrame
    reading: MessageReading


def read_messages(
    messages: pa.Table, reading: MessageReading, task: IngestTask, number: int, rejected: RejectSpool
) -> tuple[pa.Table, dict[int, Admitted]]:
    """The rows of a task's messages, and the admission result per numbered partition. Unreadable messages are ``rejected``.

    ``number`` is the task's: unnumbered messages are numbered by batch, task and index.
    """
    tables: list[pa.Table] = []
    judged: dict[int, Admitted] = {}
    of = messages.column("stream").to_numpy()
    first, task_of = first_place(reading.batch), np.array([number], np.int64)
    for stream in np.unique(of).tolist():
        selected = messages.filter(pa.array(of == stream))
        numbered = selected.column("offset").null_count == 0
        if not numbered and reading.admission.max_ahead is not None:
            raise InputError(NO_ORDER)
        if numbered:
            selected = selected.sort_by([("partition", "ascending"), ("offset", "ascending")])
        partition = selected.column("partition").to_numpy()
        offset = selected.column("offset").to_numpy() if numbered else place_of(first, task_of, np.arange(selected.num_rows))
        scopes = [f"p{p % (1 << PARTITION_BITS)}m{o}" for p, o in zip(partition.tolist(), offset.tolist())]
        found = decode(reading.payloads[stream], selected.column("value").to_pylist(), selected.column("t").to_pylist(), scopes)
        for refused in found.refused:
            place = int(offset[refused.message])
            where = f"partition {partition[refused.message] % (1 << PARTITION_BITS)}: " if numbered else ""
            rejected.append(
                Rejected(task.streams[stream], int(partition[refused.message]), place, f"{where}the message {refused.reason}")
            )
        if not len(found.t):
            continue
        if numbered:
            elements = (offset[found.message] << ELEMENT_BITS) + found.element
        else:
            elements = place_of(first, task_of, found.numbers())
        columns: list[Any] = [
            np.full(len(found.t), stream),
            partition[found.message],
            elements,
            *(found.s, found.p, found.o, found.g, found.t),
            np.zeros(len(found.t), bool),
            offset[found.message],
        ]
        arrays = [c if isinstance(c, pa.Array) else pa.array(c, field.type) for c, field in zip(columns, ELEMENT_ROWS)]
        rows = pa.Table.from_arrays(arrays, schema=ELEMENT_ROWS)
        if numbered:
            rows, found_late = in_order(rows, reading.admission, task, rejected)
            judged |= found_late
        tables.append(rows)
    return (pa.concat_tables(tables) if tables else ELEMENT_ROWS.empty_table()), judged


def topics_of(messages: pa.Table, task: IngestTask) -> set[tuple[str, str]]:
    """The streams of a task's messages with the topics that they come from, if the source reports topics."""
    pairs = messages.group_by(["stream", "topic"]).aggregate([]).to_pylist()
    return {(task.streams[pair["stream"]], pair["topic"]) for pair in pairs if pair["topic"] is not None}


def check_topics(reports: Iterable[IngestReport]) -> None:
    """InputError if a stream has messages of several topics, because partition numbers and offsets of topics overlap."""
    topics: dict[str, set[str]] = {}
    for stream, topic in (pair for report in reports for pair in report.topics):
        topics.setdefault(stream, set()).add(topic)
    for stream, found in topics.items():
        if len(found) > 1:
            raise InputError(
                f"messages of the topics {', '.join(sorted(found))} come as one stream, {stream}: read each topic as a stream of its own "
                "(for engine.adaptive say with stream={TOPIC: IRI} which is which)"
            )
