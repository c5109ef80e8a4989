"""The answers of a batch as a DataFrame, for a sink that is a user's function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.runtime.answer_tables import AnswerColumns
from cqels_opt.runtime.evaluate_task import FinishReport

BatchFunction = Callable[[DataFrame, int], object]


def answers_frame(
    spark: SparkSession,
    programs: Sequence[CompiledProgram],
    chunks: Sequence[tuple[CompiledProgram, FinishReport]],
    folder: Path,
    with_query: bool,
) -> DataFrame:
    """The answers of a batch as a DataFrame; see :func:`~cqels_opt.runtime.answer_tables.answers_table` for its columns.

    Its rows lie in files: using it several times recomputes nothing.
    """
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
