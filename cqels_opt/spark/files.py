"""Live folders: Spark's file source names the new files, and the first stage reads them, in order, on an executor."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from cqels_opt.errors import DataError, RunError
from cqels_opt.operators.rows import Ints
from cqels_opt.operators.stages.ingest import ROW_SCHEMA, IngestReport, IngestTask, Rejected
from cqels_opt.rdf.streams import read_stream
from cqels_opt.rdf.tabular import Reject
from cqels_opt.windows.intervals import BEFORE_TIME

_LOCAL = re.compile(r"^file:(//)?(?=/)")  # of a Hadoop path, in whose text no character is encoded


@dataclass(frozen=True, slots=True)
class FileBatch:
    """A batch that names files (``frame``: stream, path, modificationTime). A folder's files in order are one partition.

    ``greatest`` is the greatest time seen so far in each; ``lateness`` is in milliseconds.
    """

    frame: DataFrame
    reading: Reading


@dataclass(frozen=True, slots=True)
class OrderedBatch:
    """A batch of rows whose offsets order the elements of each partition; the other fields are as in :class:`Reading`."""

    frame: DataFrame
    greatest: Mapping[int, int]
    lateness: int


@dataclass(frozen=True, slots=True)
class NumberedBatch:
    """A batch of rows that nobody has numbered. Their offsets are Spark's (the task above, the row below); places begin at ``first``."""

    frame: DataFrame
    first: int


TASK_BITS, ROW_BITS = 16, 24
"""The place of an element that nobody has numbered: the batch above, then the number of the task, then that in the task."""

_SPARK_BITS = 33  # of the row, in Spark's own numbers


def place_of(first: int, task: Ints, row: Ints) -> Ints:
    """Places of elements by task and number in the task. RunError where a batch has more than there are places for."""
    if len(row) and (int(row.max()) >> ROW_BITS or int(task.max()) >> TASK_BITS):
        raise RunError(
            f"a micro-batch has a task with more than {1 << ROW_BITS:,} elements, or more than {1 << TASK_BITS:,} tasks: let the source "
            "bring less at a time (maxFilesPerTrigger, maxOffsetsPerTrigger), or name a column that orders the elements"
        )
    return first + (task << ROW_BITS) + row


def in_places(rows: pa.Table, first: int) -> pa.Table:
    """Rows of a task that nobody has numbered, as they come; those of one graph have one place."""
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


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read and judged; see :class:`FileBatch`. ``elements`` is how many have been seen of each partition so far."""

    greatest: Mapping[int, int]
    elements: Mapping[int, int]
    lateness: int
    time_predicate: str


def judged(t: Ints, greatest: int | None, lateness: int) -> tuple[NDArray[np.bool_], int]:
    """Which of the elements of a partition, in its order, are late (SEMANTICS §4); and the greatest time now."""
    before = np.maximum.accumulate(np.concatenate([[BEFORE_TIME if greatest is None else greatest], t]))
    return t <= before[:-1] - 1 - lateness, int(before[-1])


def in_order(rows: pa.Table, greatest: Mapping[int, int], lateness: int) -> pa.Table:
    """Rows judged for lateness in the order of their offsets, partition by partition. A row without time is left to others."""
    rows = rows.sort_by([("partition", "ascending"), ("offset", "ascending")])
    partition = rows.column("partition").to_numpy()
    t = rows.column("t").to_pandas().fillna(int(BEFORE_TIME)).to_numpy(np.int64)
    late = np.zeros(rows.num_rows, bool)
    for number in np.unique(partition).tolist():
        own = np.flatnonzero(partition == number)
        late[own], _ = judged(t[own], greatest.get(number), lateness)
    late &= t > BEFORE_TIME
    return rows.set_column(rows.schema.get_field_index("late"), "late", pa.array(late))


def read_files(files: pa.Table, reading: Reading, task: IngestTask) -> tuple[pa.Table, list[Rejected]]:
    """The rows of the batch's files, judged for lateness in order; and what could not be read."""
    named = sorted(zip(*(files.column(c).to_pylist() for c in ("stream", "modificationTime", "path"))))
    tables: list[pa.Table] = []
    rejected: list[Rejected] = []
    greatest, elements = dict(reading.greatest), dict(reading.elements)
    for stream, _, uri in named:
        path = Path(_LOCAL.sub("", uri))
        refused: list[Reject] = []
        try:
            parts = list(read_stream(path, time_predicate=reading.time_predicate, on_error="skip", rejected=refused.append))
        except DataError as error:
            rejected.append(Rejected(task.streams[stream], stream, 0, str(error)))
            continue
        rejected += [Rejected(task.streams[stream], stream, r.line, f"{path.name}: {r.reason}") for r in refused]
        if not parts:
            continue
        rows = pa.Table.from_batches(parts)
        t = rows.column("t").to_numpy()
        late, greatest[stream] = judged(t, greatest.get(stream), reading.lateness)
        numbers = np.asarray(rows.column("element").to_numpy(), np.int64) + elements.get(stream, 0)
        elements[stream] = int(numbers.max()) + 1
        columns: list[Any] = [
            np.full(len(t), stream),
            np.full(len(t), stream),
            numbers,
            *(rows.column(c) for c in ("s", "p", "o", "g", "t")),
            late,
            rows.column("line"),
        ]
        arrays = [c if isinstance(c, pa.ChunkedArray) else pa.array(c, f.type) for c, f in zip(columns, ROW_SCHEMA)]
        tables.append(pa.Table.from_arrays(arrays, schema=ROW_SCHEMA))
    return (pa.concat_tables(tables) if tables else ROW_SCHEMA.empty_table()), rejected


def modified(files: pa.Table) -> dict[int, int]:
    """When the newest of a batch's files was modified, a stream, in milliseconds."""
    found: dict[int, int] = {}
    times = files.column("modificationTime").cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    for stream, when in zip(files.column("stream").to_numpy().tolist(), times.to_numpy().tolist()):
        found[stream] = max(found.get(stream, 0), when)
    return found


class FilesWaiting:
    """How many files of live folders have not been begun: Spark takes them in the order of their modification.

    Of several files of one millisecond those that wait may be missed.
    """

    def __init__(self, folders: Sequence[tuple[int, Path]]) -> None:
        self.folders = folders
        self._read: dict[int, int] = {}

    def __call__(self, batch: int, reports: Sequence[IngestReport]) -> tuple[int | None, int | None]:
        """See ``DriverOptions.waiting``; the newest time in files that nobody has read is not known."""
        for report in reports:
            for stream, when in report.modified.items():
                self._read[stream] = max(when, self._read.get(stream, 0))
        return None, sum(_newer(folder, self._read[stream]) for stream, folder in self.folders if stream in self._read)


def _newer(folder: Path, than: int) -> int:
    with os.scandir(folder) as entries:
        return sum(e.name[0] not in "._" and _modified(e) > than for e in entries)


def _modified(file: os.DirEntry[str]) -> int:
    """In milliseconds; 0 of a file that has just gone: old ones may be cleared away."""
    try:
        return file.stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return 0
