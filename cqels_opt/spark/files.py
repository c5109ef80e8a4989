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
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from cqels_opt.errors import DataError
from cqels_opt.operators.rows import Ints
from cqels_opt.operators.stages.ingest import ROW_SCHEMA, IngestReport, IngestTask, Rejected, RejectSpool
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


def read_files(files: pa.Table, reading: Reading, task: IngestTask, rejected: RejectSpool) -> pa.Table:
    """The rows of the batch's files, judged for lateness in order. What cannot be read is ``rejected``."""
    named = sorted(zip(*(files.column(c).to_pylist() for c in ("stream", "modificationTime", "path"))))
    tables: list[pa.Table] = []
    greatest, elements = dict(reading.greatest), dict(reading.elements)
    for stream, _, uri in named:
        path = Path(_LOCAL.sub("", uri))

        def refuse(reject: Reject, name: str = path.name, number: int = stream) -> None:
            rejected.append(Rejected(task.streams[number], number, reject.line, f"{name}: {reject.reason}"))

        try:
            parts = list(read_stream(path, time_predicate=reading.time_predicate, on_error="skip", rejected=refuse))
        except DataError as error:
            rejected.append(Rejected(task.streams[stream], stream, 0, str(error)))
            continue
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
    return (pa.concat_tables(tables) if tables else ROW_SCHEMA.empty_table())


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
