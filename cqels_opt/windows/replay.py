"""Cuts files to be replayed into chunk files, of which Spark's file source reads one per micro-batch (DESIGN §8).

Spark can neither split a file nor interleave two streams. So the files are merged by time, each element is judged for lateness, and whole
elements are written to Parquet files whose names and modification times give their order.
"""

from __future__ import annotations

import json
import math
import os
import resource
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
from numpy.typing import NDArray

from cqels_opt.errors import InputError
from cqels_opt.rdf.graphs import GENERATED_AT
from cqels_opt.rdf.lines import check_file
from cqels_opt.rdf.streams import OnError, read_stream
from cqels_opt.rdf.tabular import Reject
from cqels_opt.storage import checksum, disk
from cqels_opt.storage.file_errors import naming
from cqels_opt.windows.batch_size import DEFAULT_BATCH, BatchSize
from cqels_opt.windows.element_rows import ELEMENT_ROWS
from cqels_opt.windows.merge import Merged, merge
from cqels_opt.windows.replay_plan import (
    CHUNKS,
    REJECTED,
    Chunk,
    ReplayPartition,
    ReplayPlan,
    ReplaySource,
    check_same,
    fingerprints,
    read_plan,
    write_plan,
)

__all__ = ["ReplayPlan", "ReplaySource", "cut"]

OTHER_FILES = 256
"""Files that a process may have open besides those of a replay."""

ROW_GROUP = 1 << 16
"""The approximate number of rows per row group: Spark splits a large chunk between row groups."""

_FIRST_MODIFIED = 946_684_800  # 2000-01-01: chunk k is k seconds younger, whatever the clock says


def cut(
    streams: Sequence[ReplaySource],
    folder: Path,
    batch: BatchSize = DEFAULT_BATCH,
    lateness_ms: int = 0,
    on_error: OnError = "fail",
    time_predicate: str = GENERATED_AT,
) -> ReplayPlan:
    """Cuts the streams' files into chunks below ``folder``; returns at once if that was done with the same files and options.

    Two sources of one stream are merged by time. ``DataError`` names a bad line (with ``on_error="fail"``); ``CheckpointError`` names the
    difference from the replay in the folder. The record is written last, so an interrupted cut starts again.
    """
    for source in streams:
        for path in source.paths:
            check_file(path)
    parameters: dict[str, str | int] = {
        "batch": str(batch),
        "lateness": f"{lateness_ms}ms",
        "on-error": on_error,
        "time-predicate": time_predicate,
    }
    names, partitions = fingerprints(streams)
    if (done := read_plan(folder)) is not None:
        check_same(done, parameters, names, partitions)
        return done
    disk.delete_folder(folder / CHUNKS)
    disk.delete(folder / REJECTED)
    disk.make_folder(folder / CHUNKS)
    _allow_open_files(len(partitions))
    inputs = _Inputs(partitions, folder / REJECTED, on_error, time_predicate)
    cutter = _Cutter(folder / CHUNKS, partitions, batch, inputs)
    with inputs:
        for merged in merge(inputs.readers(), lateness_ms):
            cutter.add(merged)
    chunks = cutter.finish()
    finished = tuple(
        replace(p, digest=checksum.file_digest(Path(p.path)), rejected=inputs.rejected[i])
        for i, p in enumerate(cutter.partitions)
    )
    plan = ReplayPlan(folder, parameters, names, finished, tuple(chunks))
    disk.sync_file_system(folder)
    write_plan(plan)
    return plan


def _allow_open_files(number: int) -> None:
    """Raises the process's limit of open files if a replay needs more: it reads all files at once. InputError if it cannot."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = number + OTHER_FILES
    if needed <= soft or soft == resource.RLIM_INFINITY:
        return
    if needed > hard != resource.RLIM_INFINITY:
        raise InputError(
            f"a replay reads all of its {number:,} files at once, and this process may open {hard:,}: raise `ulimit -n`"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


class _Inputs:
    """The files that are read, and the rejected lines."""

    def __init__(
        self, partitions: Sequence[ReplayPartition], rejected_file: Path, on_error: OnError, time_predicate: str
    ) -> None:
        self._partitions, self._file = partitions, rejected_file
        self._on_error, self._time_predicate = on_error, time_predicate
        self._log: BinaryIO | None = None
        self.rejected = [0] * len(partitions)
        self.pending: dict[int, list[int]] = {}  # by file, lines refused that no chunk has counted yet

    def __enter__(self) -> _Inputs:
        return self

    def __exit__(self, *_: object) -> None:
        if self._log is not None:
            with naming(self._file):  # it writes the rest
                self._log.close()

    def readers(self) -> list[Iterator[pa.RecordBatch]]:
        """One reader per file."""
        return [self._reader(number, Path(partition.path)) for number, partition in enumerate(self._partitions)]

    def _reader(self, number: int, path: Path) -> Iterator[pa.RecordBatch]:
        def reject(rejected: Reject) -> None:
            self.rejected[number] += 1
            self.pending.setdefault(number, []).append(rejected.line)
            if self._log is None:
                self._log = disk.create(self._file)
            record = {"file": str(path), "line": rejected.line, "reason": rejected.reason}
            with naming(self._file):
                self._log.write((json.dumps(record, ensure_ascii=False) + "\n").encode())

        return read_stream(path, time_predicate=self._time_predicate, on_error=self._on_error, rejected=reject)

    def count_rejected(self, source: int, line: float = math.inf) -> int:
        """How many lines of a file up to this one were rejected and not counted before."""
        waiting = self.pending.get(source, [])
        self.pending[source] = [refused for refused in waiting if refused > line]
        return len(waiting) - len(self.pending[source])


@dataclass(slots=True)
class _Open:
    """The chunk that is being written."""

    number: int
    path: Path
    parts: list[pa.Table] = field(default_factory=list)
    waiting: int = 0  # rows in parts
    rows: int = 0
    elements: int = 0
    late: int = 0
    rejected: dict[int, int] = field(default_factory=dict)
    greatest: dict[int, int] = field(default_factory=dict)
    file: BinaryIO | None = None
    writer: pa_parquet.ParquetWriter | None = None

    def reject(self, place: int, lines: int) -> None:
        """Counts rejected lines of a file."""
        if lines:
            self.rejected[place] = self.rejected.get(place, 0) + lines

    def write(self, rows: pa.Table) -> None:
        """Adds rows; a large chunk is written piece by piece."""
        self.parts.append(rows)
        self.waiting += len(rows)
        if self.waiting >= 4 * ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        if self.writer is None:
            self.file = disk.create(self.path)
            self.writer = pa_parquet.ParquetWriter(self.file, ELEMENT_ROWS)
        with naming(self.path):
            for group in _row_groups(pa.concat_tables(self.parts)):
                self.writer.write_table(group, row_group_size=len(group))
        self.parts, self.waiting = [], 0

    def close(self) -> Chunk:
        """Writes the remaining rows, and sets the modification time by which Spark orders the files."""
        if self.parts:
            self._flush()
        assert self.writer is not None and self.file is not None
        with naming(self.path):
            self.writer.close()
            self.file.close()
        path = checksum.name_after_content(self.path)
        modified = (_FIRST_MODIFIED + self.number) * 1_000_000_000
        os.utime(path, ns=(modified, modified))
        return Chunk(path.name, self.rows, self.elements, self.late, self.rejected, self.greatest)


def _row_groups(rows: pa.Table) -> Iterator[pa.Table]:
    """Rows in groups of about :data:`ROW_GROUP`. None ends within an element: what is the same in its graph is seen by one task."""
    partition, offset = (rows.column(name).to_numpy() for name in ("partition", "offset"))
    begins = np.flatnonzero((partition[1:] != partition[:-1]) | (offset[1:] != offset[:-1])) + 1
    edges, at = [*begins.tolist(), len(rows)], 0
    while at < len(rows):
        end = edges[int(np.searchsorted(begins, at + ROW_GROUP))]
        yield rows.slice(at, end - at)
        at = end


class _Cutter:
    """Assigns the merged elements to chunks, and keeps account of both."""

    def __init__(self, folder: Path, partitions: Sequence[ReplayPartition], batch: BatchSize, inputs: _Inputs) -> None:
        self._folder, self._batch, self._inputs = folder, batch, inputs
        self.partitions = list(partitions)
        self._chunks: list[Chunk] = []
        self._open: _Open | None = None
        self._key = 0  # of the open chunk: its number, or that of its span of time
        self._elements = 0
        self._start: int | None = None

    def add(self, merged: Merged) -> None:
        """Takes the next rows."""
        element = np.asarray(merged.rows.column("element").to_numpy(), np.int64)
        begins = np.ones(len(merged), np.bool_)
        begins[1:] = (element[1:] != element[:-1]) | (merged.source[1:] != merged.source[:-1])
        keys = self._keys(merged, begins)
        rows = self._rows(merged, element)
        edges = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1, [len(keys)]])
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist()):
            chunk = self._chunk(int(keys[low]))
            chunk.write(rows.slice(low, high - low))
            self._account(chunk, merged, begins, low, high)
        self._elements += int(begins.sum())

    def finish(self) -> list[Chunk]:
        """Closes the last chunk, to which the lines refused at the end belong."""
        if self._open is not None:
            for place in range(len(self.partitions)):
                self._open.reject(place, self._inputs.count_rejected(place))
            self._close()
        return self._chunks

    def _keys(self, merged: Merged, begins: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The chunk of each row, as a number that only grows."""
        if self._start is None:
            self._start = int(merged.reached[0])
        count, size = self._batch.count, self._batch.count or self._batch.duration
        place = self._elements + np.cumsum(begins) - 1 if count else merged.reached - self._start
        return np.maximum(place - max(0, self._batch.first - size), 0) // size

    def _rows(self, merged: Merged, element: NDArray[np.int64]) -> pa.Table:
        numbers = np.array([(p.stream, p.partition) for p in self.partitions], np.int32)[merged.source]
        added = {
            "stream": pa.array(numbers[:, 0]),
            "partition": pa.array(numbers[:, 1]),
            "offset": pa.array(element),
            "late": pa.array(merged.late),
        }
        columns = [added[name] if name in added else merged.rows.column(name) for name in ELEMENT_ROWS.names]
        return pa.table(columns, schema=ELEMENT_ROWS)

    def _chunk(self, key: int) -> _Open:
        if self._open is not None and key != self._key:
            self._close()
        if self._open is None:
            number = len(self._chunks)
            self._open, self._key = _Open(number, self._folder / f"chunk-{number:08}.parquet"), key
        return self._open

    def _close(self) -> None:
        assert self._open is not None
        self._chunks.append(self._open.close())
        self._open = None

    def _account(self, chunk: _Open, merged: Merged, begins: NDArray[np.bool_], low: int, high: int) -> None:
        source, first, late = merged.source[low:high], begins[low:high], merged.late[low:high]
        lines = merged.rows.column("line")
        chunk.rows += high - low
        chunk.elements += int(first.sum())
        chunk.late += int((first & late).sum())
        places, last = np.unique(source[::-1], return_index=True)
        for place, back in zip(places.tolist(), last.tolist()):
            end = high - 1 - back
            mine = source == place
            reached = int(merged.reached[end])
            chunk.greatest[place] = reached
            chunk.reject(place, self._inputs.count_rejected(place, int(lines[end].as_py())))
            was = self.partitions[place]
            opening = int(merged.reached[low:high][mine][0]) if not was.elements else was.first
            self.partitions[place] = replace(
                was,
                rows=was.rows + int(mine.sum()),
                elements=was.elements + int((first & mine).sum()),
                late=was.late + int((first & mine & late).sum()),
                first=opening,
                greatest=reached,
            )
