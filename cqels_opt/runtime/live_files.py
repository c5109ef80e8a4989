"""Live folders: the files of a micro-batch are read in order, and their elements are judged for lateness."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cqels_opt.errors import DataError
from cqels_opt.rdf.streams import read_stream
from cqels_opt.rdf.tabular import Reject
from cqels_opt.runtime.ingest import FileRead, IngestReport, IngestTask, Rejected, RejectSpool, ingest
from cqels_opt.state.source_log import NamedFile, files_of_batch
from cqels_opt.windows.admission import Admission, Admitted
from cqels_opt.windows.element_rows import ELEMENT_ROWS
from cqels_opt.windows.frontier import Frontier
from cqels_opt.windows.intervals import BEFORE_TIME

MOST_BYTES = 64 << 20
"""Bytes of new files of a live folder in one micro-batch."""


@dataclass(frozen=True, slots=True)
class FileBatch:
    """A batch of files. The ordered files of a folder are a source partition."""

    files: Sequence[NamedFile]
    reading: FileReading


@dataclass(frozen=True, slots=True)
class FileReading:
    """How files are read, and the admission rule for their elements. ``elements`` counts the elements so far per partition."""

    admission: Admission
    elements: Mapping[int, int]
    time_predicate: str


def live_files(
    checkpoint: Path, folders: Sequence[tuple[int, Path]], frontier: Frontier, time_predicate: str
) -> Callable[[int], FileBatch]:
    """The files of each batch of a Spark job over live folders. ``folders`` pairs a stream's number with its folder."""
    streams = tuple(number for number, _ in folders)

    return lambda number: batch_of(files_of_batch(checkpoint, number, streams), frontier, time_predicate)


def batch_of(files: Sequence[NamedFile], frontier: Frontier, time_predicate: str) -> FileBatch:
    """The batch of some files, with what is known of their partitions before it."""
    seen = {n: p.last_offset + 1 for n, p in frontier.partitions.items()}
    # Spark skips names that begin with "." or, in general, "_"; a pattern for its source is slow on folders of many files.
    shown = [file for file in files if Path(file.path).name[0] not in "._"]
    return FileBatch(shown, FileReading(frontier.admission(), seen, time_predicate))


def in_order(
    rows: pa.Table, admission: Admission, task: IngestTask, rejected: RejectSpool, place: str = ""
) -> tuple[pa.Table, dict[int, Admitted]]:
    """The rows in offset order, marked as late or, if too far ahead, rejected; and the admission result of each partition.

    Rows without a time are not judged here. ``place`` is the prefix of rejection messages.
    """
    rows = rows.sort_by([("partition", "ascending"), ("offset", "ascending")])
    partition = rows.column("partition").to_numpy()
    t, offset = (rows.column(c).to_pandas().fillna(int(BEFORE_TIME)).to_numpy(np.int64) for c in ("t", "offset"))
    late, ahead = np.zeros(rows.num_rows, bool), np.zeros(rows.num_rows, bool)
    judged: dict[int, Admitted] = {}
    for number in np.unique(partition).tolist():
        own = np.flatnonzero((partition == number) & (t > BEFORE_TIME))
        first = own[np.append(True, (offset[own][1:] != offset[own][:-1]) | (t[own][1:] != t[own][:-1]))[: len(own)]]
        found = judged[number] = admission.judge(number, t[first])
        of = np.searchsorted(first, own, "right") - 1  # the element of each row
        late[own], ahead[own] = found.late[of], found.ahead[of]
        for row, after in zip(first[found.ahead].tolist(), found.after):
            stream, line = (rows.column(column)[row].as_py() for column in ("stream", "line"))
            rejected.append(Rejected(task.streams[stream], number, line or 0, place + admission.reason(int(t[row]), after)))
    rows = rows.set_column(rows.schema.get_field_index("late"), "late", pa.array(late))
    return (rows.filter(pa.array(~ahead)) if ahead.any() else rows), judged


def read_files(
    files: Sequence[NamedFile], reading: FileReading, task: IngestTask, rejected: RejectSpool
) -> tuple[pa.Table, dict[int, Admitted], list[FileRead]]:
    """The rows of the batch's files in order, the admission result per folder, and the files. Bad input is ``rejected``."""
    tables: list[pa.Table] = []
    admission, elements = reading.admission, dict(reading.elements)
    judged: dict[int, Admitted] = {}
    read: list[FileRead] = []
    for stream, _, name in sorted(files):
        path = Path(name)

        def refuse(reject: Reject, name: str = path.name, number: int = stream) -> None:
            rejected.append(Rejected(task.streams[number], number, reject.line, f"{name}: {reject.reason}"))

        try:
            read.append((stream, path.name, path.stat().st_size))  # before reading: later content may be read or not
            parts = list(read_stream(path, time_predicate=reading.time_predicate, on_error="skip", rejected=refuse))
        except (DataError, FileNotFoundError) as error:
            rejected.append(Rejected(task.streams[stream], stream, 0, str(error)))
            continue
        if not parts:
            continue
        table, found = numbered(parts, stream, path.name, elements, admission, task, rejected)
        judged |= found
        admission = admission.after(found)
        tables.append(table)
    return (pa.concat_tables(tables) if tables else ELEMENT_ROWS.empty_table()), judged, read


def numbered(
    parts: Sequence[pa.RecordBatch],
    stream: int,
    name: str,
    elements: dict[int, int],
    admission: Admission,
    task: IngestTask,
    rejected: RejectSpool,
) -> tuple[pa.Table, dict[int, Admitted]]:
    """The rows of a file of a stream, whose elements are numbered after those before (``elements``), and the admission result."""
    rows = pa.Table.from_batches(parts)
    numbers = np.asarray(rows.column("element").to_numpy(), np.int64) + elements.get(stream, 0)
    elements[stream] = int(numbers.max()) + 1
    columns: list[Any] = [
        np.full(rows.num_rows, stream),
        np.full(rows.num_rows, stream),
        numbers,
        *(rows.column(c) for c in ("s", "p", "o", "g", "t")),
        np.zeros(rows.num_rows, bool),
        rows.column("line"),
    ]
    arrays = [c if isinstance(c, pa.ChunkedArray) else pa.array(c, f.type) for c, f in zip(columns, ELEMENT_ROWS)]
    return in_order(pa.Table.from_arrays(arrays, schema=ELEMENT_ROWS), admission, task, rejected, f"{name}: ")


def ingest_files(batch: FileBatch, task: IngestTask, name: str) -> IngestReport:
    """The first stage of a batch of files. ``name`` (task and attempt) keeps the files of retries apart."""
    rejected = task.rejects(name)
    rows, judged, read = read_files(batch.files, batch.reading, task, rejected)
    report = ingest(rows, task, name, rejected)
    report.suspects = {number: found.suspect for number, found in judged.items()}
    report.files_read = read
    return report
