"""The first stage over the rows of a DataFrame: triples or messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from cqels_opt.runtime.ingest import IngestReport, IngestTask, ingest
from cqels_opt.runtime.live_files import in_order
from cqels_opt.spark.files import NumberedBatch, OrderedBatch, in_places
from cqels_opt.spark.messages import MessageBatch, read_messages, topics_of
from cqels_opt.spark.tasks import task_name, task_number
from cqels_opt.windows.admission import Admitted
from cqels_opt.windows.element_rows import ELEMENT_ROWS

RowBatch: TypeAlias = DataFrame | OrderedBatch | NumberedBatch | MessageBatch
Batches: TypeAlias = Iterator[pa.RecordBatch]


def frame_of(batch: RowBatch) -> DataFrame:
    """The DataFrame with the rows."""
    return batch if isinstance(batch, DataFrame) else batch.frame


def ingesting(batch: RowBatch, task: IngestTask) -> Callable[[Batches], Iterator[IngestReport]]:
    """The function of a task from its rows to its report; without rows there is none."""
    order = batch.admission if isinstance(batch, OrderedBatch) else None
    first_place = batch.first if isinstance(batch, NumberedBatch) else None
    messages = batch.reading if isinstance(batch, MessageBatch) else None

    def work(batches: Batches) -> Iterator[IngestReport]:
        first = next(batches, None)
        if first is None:
            return
        rows = chain([first], batches)
        rejected = task.rejects(task_name())
        whole: pa.Table | None = None
        judged: dict[int, Admitted] = {}
        if messages is not None:
            received = pa.Table.from_batches(rows)
            whole, judged = read_messages(received, messages, task, task_number(), rejected)
        elif first_place is not None:
            whole = in_places(pa.Table.from_batches(rows).cast(ELEMENT_ROWS), first_place)
        elif order is not None:
            whole, judged = in_order(pa.Table.from_batches(rows).cast(ELEMENT_ROWS), order, task, rejected)
        report = ingest(rows if whole is None else whole, task, task_name(), rejected)
        report.suspects = {number: found.suspect for number, found in judged.items()}
        if messages is not None:
            report.topics = topics_of(received, task)
        yield report

    return work
