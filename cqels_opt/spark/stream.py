"""The streaming life cycle: sources to one DataFrame, ``foreachBatch`` to the driver, start and stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.streaming.query import StreamingQuery

from cqels_opt.errors import CqelsOptError, InputError, RunError, named
from cqels_opt.relational.column_names import quoted
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.live_files import MOST_BYTES, FileBatch
from cqels_opt.runtime.run_handle import Progress, Register, RunHandle, check_timeout
from cqels_opt.spark.drop_in import at_most
from cqels_opt.spark.failures import reason, topics_failed
from cqels_opt.spark.files import NO_ORDER, NumberedBatch, OrderedBatch
from cqels_opt.spark.ingest_rows import RowBatch
from cqels_opt.spark.kafka_topic import KafkaTopic
from cqels_opt.spark.messages import MessageBatch, MessageReading, first_place
from cqels_opt.spark.paths import to_read
from cqels_opt.spark.runner import SparkRunner
from cqels_opt.spark.scratch import process_folder
from cqels_opt.spark.session import IN_A_BATCH, settings
from cqels_opt.spark.worker_python import explained
from cqels_opt.storage.file_errors import file_error
from cqels_opt.trace.listener import BatchReporter
from cqels_opt.trace.writer import TraceFile
from cqels_opt.windows.element_rows import ELEMENT_ROWS

_SQL = {pa.int32(): "int", pa.int64(): "long", pa.string(): "string", pa.bool_(): "boolean"}
CHUNK_SCHEMA = ", ".join(f"{field.name} {_SQL[field.type]}" for field in ELEMENT_ROWS)
FILE_SCHEMA = "path string, modificationTime timestamp, length long, content binary"
MAX_FILE_AGE = "36500d"  # Spark by default ignores files modified a week before the newest, such as copies with old times
SHORTEST = 0.001  # seconds, of a wait in Spark
MOST_ROWS = (1 << 33) - 1  # of a task, in Spark's numbers
__all__ = ["DataFrame", "SparkSession", "StreamRun", "as_rows", "chunk_stream", "folder_stream", "row_stream"]

_TEXTS = (t.StringType, t.VarcharType, t.CharType, t.NullType)


def chunk_stream(spark: SparkSession, folder: Path) -> DataFrame:
    """A replay that was cut into one chunk per micro-batch."""
    return spark.readStream.schema(CHUNK_SCHEMA).option("maxFilesPerTrigger", 1).parquet(to_read(folder))


def folder_stream(spark: SparkSession, folders: Sequence[tuple[int, Path]], most: int = MOST_BYTES) -> DataFrame:
    """New files in live folders, a source per folder; :func:`files_of_batch` has their names. ``folders`` pairs a stream's number with
    its folder.

    A batch takes the oldest files of each folder up to ``most`` bytes, and at least one; the others wait.
    """

    def files(folder: Path) -> DataFrame:
        source = spark.readStream.format("binaryFile").option("maxBytesPerTrigger", most).option("maxFileAge", MAX_FILE_AGE)
        return source.schema(FILE_SCHEMA).load(to_read(folder)).select("path")

    return reduce(DataFrame.union, (files(folder) for _, folder in folders))


def row_stream(frames: Mapping[str, DataFrame], streams: Sequence[str], order: str | None) -> DataFrame:
    """Users' streaming DataFrames of ``s p o t`` (and ``g``) as one. ``order`` names a column that orders elements."""
    return reduce(DataFrame.union, (as_rows(frames[iri], number, order) for number, iri in enumerate(streams)))


def as_rows(frame: DataFrame, number: int, order: str | None = None) -> DataFrame:
    """A DataFrame of triples in the form that the first stage reads. ``t`` is a timestamp, or integer milliseconds."""
    missing = [c for c in ("s", "p", "o", "t") if c not in frame.columns]
    if missing:
        raise InputError(
            f"a stream's DataFrame needs the columns s, p, o and t; {', '.join(missing)} is missing of {frame.columns}"
        )
    for name in ("s", "p", "o", "t", "g"):
        if len(same := [column for column in frame.columns if column.lower() == name]) > 1:
            raise InputError(
                f"a stream's DataFrame has the columns {' and '.join(same)}, which Spark takes for one: rename one of them"
            )
    for name in ("s", "p", "o", "g"):
        if name in frame.columns and not isinstance(type_of := frame.schema[name].dataType, _TEXTS):
            raise InputError(
                f'the column {name} is {type_of.simpleString()}: it must be a string of N-Triples terms: <http://…>, "text", '
                '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'
            )
    kind = frame.schema["t"].dataType
    if isinstance(kind, t.TimestampType | t.TimestampNTZType):
        time = f.unix_millis(f.col("t").cast("timestamp"))
    elif isinstance(kind, t.IntegralType):
        time = f.col("t").cast("long")
    else:
        raise InputError(f"the column t is {kind.simpleString()}: it must be a timestamp, or a long of milliseconds")
    place = [f.col(quoted(_column(frame, order))).cast("long")] if order is not None else []  # else numbered() numbers on arrival
    graph = f.col("g") if "g" in frame.columns else f.lit(None).cast("string")
    return frame.select(
        f.lit(number).alias("stream"),
        f.lit(number).alias("partition"),
        *(p.alias("offset") for p in place),
        *(f.col(c).cast("string").alias(c) for c in ("s", "p", "o")),
        graph.alias("g"),
        time.alias("t"),
        f.lit(False).alias("late"),
        *(p.alias("line") for p in place),
    )


def _column(frame: DataFrame, order: str) -> str:
    """The column of the elements' order. InputError if there is none of this name, or if it has no whole numbers."""
    if order not in frame.columns:
        raise InputError(f"order={order!r}: there is no such column among {', '.join(frame.columns)}")
    if not isinstance(kind := frame.schema[order].dataType, t.IntegralType):
        raise InputError(f"order={order!r}: the column is {kind.simpleString()}: it must have whole numbers")
    return order


def numbered(frame: DataFrame, batch: int, tasks: int) -> NumberedBatch:
    """The rows of a batch without offsets, numbered on arrival; rows of one graph and time are one element.

    The rows of a graph are shuffled to one task, which gives them one number. ``tasks`` is the number of tasks of that shuffle.
    """
    place = f.monotonically_increasing_id()  # the task in the upper bits, the row in the lower
    frame = frame.withColumn("line", place.bitwiseAND(MOST_ROWS))  # in source order
    if "g" in frame.columns and not isinstance(frame.schema["g"].dataType, t.NullType):
        spread = f.when(f.col("g").isNull(), f.monotonically_increasing_id().cast("string")).otherwise(f.col("g"))
        frame = frame.repartition(tasks, spread)
    whole = frame.withColumn("offset", place)
    return NumberedBatch(whole.select(*ELEMENT_ROWS.names), first_place(batch))


class StreamRun(RunHandle):
    """A running query, or several. Like Spark's handles, it can be awaited, stopped and inspected."""

    def __init__(
        self,
        driver: Driver,
        runner: SparkRunner,
        on_batch: Progress | None = None,
        register: Register | None = None,
        reporter: BatchReporter | None = None,
    ) -> None:
        super().__init__(driver, on_batch, register, reporter)
        self.runner = runner
        if isinstance(driver.trace, TraceFile):
            runner.link_to(driver.trace.path)
        self._query: StreamingQuery | None = None
        self._set = False  # whether the session of batches has their settings for good
        self._placed: bool | None = None  # whether rows have offsets
        self._over = False  # for runs without a query of Spark
        self.files: Callable[[int], FileBatch] | None = None  # by batch number, if sources are live folders
        self.messages: Callable[[int], MessageReading] | None = None  # by batch number, if streams are messages
        self.topics: Sequence[KafkaTopic] = ()  # that it reads
        self.ordered = False  # a column orders the elements, also within a batch
        self.chunks: Sequence[Path] = ()  # of a replay: the file of each batch, see :func:`chunk_stream`

    def start(self, frame: DataFrame, checkpoint: Path, *, to_the_end: bool = False, trigger: str | None = None) -> StreamRun:
        """Starts. ``to_the_end``: the run ends after the current input; otherwise it follows its sources."""
        self.driver.log.check_job()
        writer = frame.writeStream.foreachBatch(self.batch).option("checkpointLocation", str(checkpoint))
        if to_the_end:
            writer = writer.trigger(availableNow=True)
        elif trigger is not None:
            try:
                writer = writer.trigger(processingTime=trigger)
            except PySparkException as error:
                raise InputError(f'trigger={trigger!r}: an interval is expected, such as "10 seconds"') from error
        self._query = writer.start()
        return self

    def start_replay(self, folder: Path, checkpoint: Path) -> StreamRun:
        """Starts a replay that was cut into the chunks of a folder.

        Where batches ran on the local engine, Spark's log does not have them; :meth:`remaining` then has all others.
        """
        if self.driver.log.ahead_of_job:
            self._over = True
            return self
        return self.start(chunk_stream(self.runner.spark, folder), checkpoint, to_the_end=True)

    def once(self) -> StreamRun:
        """Answers queries without streams, unless that has been done."""
        if self.driver.state.batch < 0:
            self._run(self.runner.spark, 0, None)
        self._over = True
        return self

    def remaining(self) -> Iterator[int]:
        """The batches of a replay that Spark has not run, each for :meth:`replay`.

        A kill between a write to the log of Spark's file source and one to its log of offsets makes Spark's next batch name two chunks.
        A batch reads one chunk all the same, so that fewer batches than chunks have run when Spark's query ends.
        """
        while (number := self.driver.state.batch + 1) < len(self.chunks):
            yield number

    def replay(self, number: int) -> None:
        """Runs one batch of a replay outside of Spark's query."""
        self._run(self.runner.spark, number, self.chunks[number])

    def batch(self, frame: DataFrame, number: int) -> None:
        """The function that ``foreachBatch`` calls."""
        spark = frame.sparkSession
        if self._query is not None and not self._set:  # the session of a run's own Spark query is private to it
            for key, value in IN_A_BATCH.items():
                spark.conf.set(key, value)
            self._set = True
        self._run(spark, number, partial(self._rows, frame, number))

    def _run(self, spark: SparkSession, number: int, rows: object) -> None:
        failed = dict(self.failures)
        with self._lock:
            self.runner.spark = spark
            with (
                self._reported(number),
                explained(spark),
                nullcontext() if self._set else settings(spark, IN_A_BATCH),
                at_most(self._most(), self.runner.cancel),
            ):
                records = self.driver.batch(number, rows)
            self._done(records)
        self._ended(records, failed)

    def _rows(self, frame: DataFrame, number: int) -> Path | FileBatch | RowBatch:
        """A batch in the form that the runner takes."""
        if self.chunks:
            return self.chunks[number]
        if self.files:
            return self.files(number)
        if self.messages:
            return MessageBatch(frame.coalesce(self.runner.parallelism), self.messages(number))
        if self.ordered:
            return OrderedBatch(frame.coalesce(1), self.driver.frontier.admission())
        if self.driver.frontier.max_ahead is not None:
            raise InputError(NO_ORDER)
        if self._placed is None:
            self._placed = "offset" in frame.columns
        return frame if self._placed else numbered(frame, number, self.runner.parallelism)

    def await_termination(self, timeout: float | None = None) -> bool:
        """Waits until the run has ended (True) or ``timeout`` seconds have passed. Raises the run's failure as our own error."""
        check_timeout(timeout)
        if self._over:
            return True
        assert self._query is not None
        try:
            seconds: Any = None if timeout is None else max(timeout, SHORTEST)
            ended = self._query.awaitTermination(seconds)  # accepts fractions of a second
            if ended is None or ended:
                self._finish()
            return True if ended is None else bool(ended)
        except PySparkException as error:
            if isinstance(self._failure, CqelsOptError | BrokenPipeError):  # or the reader of the answers has closed the pipe
                raise self._failure from None
            places, failure = (self.driver.folder, process_folder()), self._failure or error
            if (of_file := file_error(failure, places) or file_error(error, places)) is not None:
                raise of_file from error
            if self.topics and (of_kafka := topics_failed(self.topics, failure)) is not None:
                raise of_kafka from error
            why = reason(failure) if isinstance(failure, PySparkException | Py4JError) else named(failure)
            raise RunError(f"the run failed: {why}") from error

    @property
    def streaming_query(self) -> StreamingQuery:
        """Spark's own handle, after the start."""
        assert self._query is not None
        return self._query

    def stop(self) -> None:
        """Stops, possibly during a batch: uncommitted work is repeated by the next start. Spark's UI no longer has the trace's page."""
        if self._query is not None:
            self._query.stop()
        self.runner.unlink()

    def settle(self) -> None:
        """Waits for the current batch, after :meth:`stop`, and for background merges and deletions."""
        with self._lock:
            self._finish()

    @property
    def is_active(self) -> bool:
        """Whether the run is active."""
        return self._query is not None and self._query.isActive

    def milliseconds(self) -> tuple[float, ...]:
        """Spark's ``triggerExecution`` of the batches in its recent progress reports, in order."""
        return trigger_milliseconds(self._query) if self._query is not None else ()

    def durations(self) -> tuple[dict[str, float], ...]:
        """Spark's milliseconds of the same batches, by phase."""
        return durations(self._query) if self._query is not None else ()


def trigger_milliseconds(query: StreamingQuery) -> tuple[float, ...]:
    """The ``triggerExecution`` of each batch in a streaming query's recent progress reports, in order."""
    return tuple(found["triggerExecution"] for found in durations(query))


def durations(query: StreamingQuery) -> tuple[dict[str, float], ...]:
    """The milliseconds of each batch by Spark's phases, from a streaming query's recent progress reports, in order."""
    found = {p["batchId"]: {phase: float(ms) for phase, ms in p["durationMs"].items()} for p in query.recentProgress}
    return tuple(found[batch] for batch in sorted(found))
