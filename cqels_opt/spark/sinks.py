"""The sink that is a user's function, called with a DataFrame per batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.runtime.answer_tables import AnswerColumns, types_of_columns
from cqels_opt.runtime.evaluate import FinishReport, Format

BatchFunction = Callable[[DataFrame, int], object]


class FunctionSink:
    """A user's ``f(df, batch_id)``. A repeated batch has the same rows under the same id.

    The rows are materialized before the call; the function's use of the DataFrame recomputes nothing.
    """

    format: Format = "arrow"
    digests: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self, spark: SparkSession, function: BatchFunction, programs: Callable[[], Sequence[CompiledProgram]], with_query: bool
    ) -> None:
        """``programs`` returns the current programs, whose variables are the columns."""
        self.spark, self.function, self.programs, self.with_query = spark, function, programs, with_query
        self.check(programs())

    def check(self, programs: Sequence[CompiledProgram]) -> None:
        """InputError if queries that share a column give it different types."""
        types_of_columns(programs)

    def restore(self, lengths: Mapping[str, int], digests: Mapping[str, str]) -> None:
        """Does nothing: the function is responsible for its effects."""

    def put(self, batch: int, chunks: Sequence[tuple[CompiledProgram, FinishReport]], folder: Path) -> dict[str, int]:
        """Calls the function if there are answers."""
        if chunks:
            self.function(answers_frame(self.spark, self.programs(), chunks, folder, self.with_query), batch)
        return {}


def answers_frame(
    spark: SparkSession,
    programs: Sequence[CompiledProgram],
    chunks: Sequence[tuple[CompiledProgram, FinishReport]],
    folder: Path,
    with_query: bool,
) -> DataFrame:
    """The answers of a batch as a DataFrame; see :func:`~cqels_opt.runtime.answer_tables.answers_table` for its columns."""
    columns = AnswerColumns.of(programs)
    files = columns.files(chunks, folder)
    times = [name for name, type_of in zip(columns.names, columns.types) if type_of == "timestamp"]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_numpy():
                table = files[number].read(columns)
                for name in times:  # as a number between processes, which agree on no time zone
                    table = table.set_column(table.column_names.index(name), name, table.column(name).cast(pa.int64()))
                yield from table.to_batches(65_536)

    declared = ["long" if type_of == "timestamp" else type_of for type_of in columns.types]
    named = (f"`{name}` {type_of}" for name, type_of in zip(columns.names, declared))
    schema = ", ".join(["time long", "op string", "query string", *named])
    frame = spark.range(0, len(files), 1, len(files)).mapInArrow(read, schema)
    frame = frame.withColumn("time", f.timestamp_millis("time"))
    for name in times:
        frame = frame.withColumn(name, f.timestamp_micros(f.col(f"`{name}`")))
    for name in columns.truths:
        frame = frame.withColumn(name, f.col(name).startswith('"true"'))
    return frame if with_query else frame.drop("query")
