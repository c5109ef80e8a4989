"""A frame over columns that executors can read locally: only row numbers are sent to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cqels_opt.operators.rows import Ints

Batches = Iterator[pa.RecordBatch]
BATCH = 65_536  # rows per Arrow batch


def scanned(
    spark: SparkSession, read: Callable[[], Sequence[Ints]], columns: Sequence[str], parts: int, rows: int = 0
) -> DataFrame:
    """A frame of the columns that ``read`` returns on an executor, in ``parts`` partitions. ``rows``: size for Spark."""
    size = max(rows, parts)

    def run(batches: Batches) -> Batches:
        arrays: Sequence[Ints] | None = None
        for batch in batches:  # numbers below ``size``, each for an equal share of the rows
            numbers = batch.column(0)
            if not len(numbers):
                continue
            arrays = read() if arrays is None else arrays
            length, first, last = len(arrays[0]), numbers[0].as_py(), numbers[-1].as_py()
            stop = length * (last + 1) // size
            for at in range(length * first // size, stop, BATCH):
                some = slice(at, min(at + BATCH, stop))
                yield pa.RecordBatch.from_arrays([pa.array(array[some], pa.int64()) for array in arrays], names=[*columns])

    return spark.range(0, size, 1, parts).mapInArrow(run, ", ".join(f"{c} long" for c in columns))
