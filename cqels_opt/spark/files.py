"""Micro-batches of rows and of files: their elements have positions from their source, or from their arrival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from cqels_opt.errors import RunError
from cqels_opt.operators.rows import Ints
from cqels_opt.runtime.ingest import IngestTask
from cqels_opt.runtime.live_files import FileBatch, ingest_files
from cqels_opt.spark.tasks import Work, task_name
from cqels_opt.windows.admission import Admission

NO_ORDER = "max_ahead is of elements in an order: give order=, or messages with the columns partition and offset"


@dataclass(frozen=True, slots=True)
class OrderedBatch:
    """A batch of rows whose offsets order the elements of each partition, and their admission rule."""

    frame: DataFrame
    admission: Admission


@dataclass(frozen=True, slots=True)
class NumberedBatch:
    """A batch of rows without source offsets. Spark assigns them (task above, row below); positions start at ``first``."""

    frame: DataFrame
    first: int


TASK_BITS, ROW_BITS = 16, 24
"""The position of an element without a source offset: batch, task, and number within the task, in descending bits."""

_SPARK_BITS = 33  # bits of the row in Spark's own numbers


def place_of(first: int, task: Ints, row: Ints) -> Ints:
    """Positions of elements by task and number in the task. RunError if the batch has too many tasks or elements."""
    if len(row) and (int(row.max()) >> ROW_BITS or int(task.max()) >> TASK_BITS):
        raise RunError(
            f"a micro-batch has a task with more than {1 << ROW_BITS:,} elements, or more than {1 << TASK_BITS:,} tasks: let the source "
            "bring less at a time (maxFilesPerTrigger, maxOffsetsPerTrigger), or name a column that orders the elements"
        )
    return first + (task << ROW_BITS) + row


def in_places(rows: pa.Table, first: int) -> pa.Table:
    """Assigns positions to a task's rows without source offsets, in arrival order; rows of one graph get one position."""
    numbers = rows.column("offset").to_numpy()
    row = numbers & ((1 << _SPARK_BITS) - 1)
    named = np.flatnonzero(pc.is_valid(rows.column("g")).to_numpy(zero_copy_only=False))
    if len(named):
        graphs: Any = pc.dictionary_encode(rows.column("g").take(named).combine_chunks())
        graph = graphs.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        _, at, whose = np.unique(graph, return_index=True, return_inverse=True)
        row = row.copy()
        row[named] = row[named][at][whose]
    offset = place_of(first, numbers >> _SPARK_BITS, row)
    return rows.set_column(rows.schema.get_field_index("offset"), "offset", pa.array(offset))


def reading_files(batch: FileBatch, task: IngestTask) -> Work:
    """The first stage of a batch of files, as the work of a task."""
    return lambda: iter((ingest_files(batch, task, task_name()),))
