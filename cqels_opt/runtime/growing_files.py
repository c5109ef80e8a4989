"""Files that grow: their new lines are a stream, read as soon as they are whole.

The commit record has the bytes that were read of each file, so a run that is killed reads on there. A batch that runs again may read
more lines than the first time; the answers do not depend on that, unless the clock decides that streams are idle: then the batch reads
as far as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import pyarrow as pa

from cqels_opt.errors import DataError, InputError
from cqels_opt.rdf.lines import LONGEST_LINE
from cqels_opt.rdf.streams import read_lines
from cqels_opt.rdf.tabular import Reject
from cqels_opt.runtime.ingest import IngestReport, IngestTask, Rejected, ingest
from cqels_opt.runtime.live_files import numbered
from cqels_opt.storage import disk, documents
from cqels_opt.storage.file_errors import naming
from cqels_opt.windows.admission import Admission, Admitted
from cqels_opt.windows.element_rows import ELEMENT_ROWS
from cqels_opt.windows.frontier import Frontier

FORMATS = (".ndjson", ".jsonl")
READ = "read.json"
MOST_BYTES = 8 << 20
"""Bytes of a file in one micro-batch."""

TAIL = 256
"""The bytes before a position that are compared when a file has grown."""

_APPENDED = "a file that grows is only appended to; bring its content back, or use another checkpoint"


@dataclass(frozen=True, slots=True)
class NewLines:
    """The new elements of a file, and the lines that are not elements."""

    stream: int
    name: str
    parts: Sequence[pa.RecordBatch]
    rejects: Sequence[Reject]


@dataclass(frozen=True, slots=True)
class LinesBatch:
    """A batch of new lines, and their admission. ``elements`` counts the elements so far per partition."""

    files: Sequence[NewLines]
    admission: Admission
    elements: Mapping[int, int]


class _Position(NamedTuple):
    """How far a file is read: bytes, lines, and the checksum of the last bytes before, by which another file is noticed."""

    bytes: int = 0
    lines: int = 0
    tail: int = -1  # not known


_BEGINNING = _Position()


@dataclass(slots=True)
class _Place:
    """The position in a file; ``next`` after the batch that is running. ``waits``: its size when it had no element.
    ``seen``: the bytes that the batch has read, also without effect.
    """

    path: Path
    at: _Position = _BEGINNING
    next: _Position = _BEGINNING
    waits: int = -1
    seen: int = 0


def are_growing(places: Iterable[tuple[object, Path]]) -> bool:
    """Whether live sources, each with its place, are files that grow; otherwise they are folders."""
    return all(path.is_file() for _, path in places)


class GrowingFiles:
    """The files of streams, one each (a stream's number and its file). InputError unless all are files of lines."""

    def __init__(self, files: Sequence[tuple[int, Path]]) -> None:
        self._places = {number: _Place(path) for number, path in files}
        for _, path in files:
            if path.suffix.lower() not in FORMATS:
                raise InputError(f"{path}: a file that grows has lines of JSON, and a name that ends in {' or '.join(FORMATS)}")

    def restore(self, lengths: Mapping[str, int]) -> None:
        """Back to what is committed."""
        for number, place in self._places.items():
            found = {field: lengths[key] for field in _Position._fields if (key := f"{field} of {number}") in lengths}
            place.at = place.next = _Position(**found)

    def take(self, reports: Iterable[IngestReport]) -> list[str]:
        """A batch has read its lines."""
        for place in self._places.values():
            place.at = place.next
        return []

    def put(self) -> dict[str, int]:
        """The positions."""
        return {f"{field} of {n}": value for n, place in self._places.items() for field, value in place.at._asdict().items()}

    @property
    def seen(self) -> dict[int, int]:
        """The bytes of each file that the last batch has read, also without effect."""
        return {number: place.seen for number, place in self._places.items()}

    def batch(self, frontier: Frontier, upto: Mapping[int, int] | None = None) -> LinesBatch | None:
        """The new whole lines of the files; None if there are none. A batch that runs again reads ``upto`` the same bytes."""
        read = (_read(number, place, (upto or {}).get(number)) for number, place in self._places.items())
        files = [found for found in read if found is not None]
        if not files:
            return None
        return LinesBatch(files, frontier.admission(), {n: p.last_offset + 1 for n, p in frontier.partitions.items()})


class ReadLog:
    """How far the newest batch of a run reads its files, written to the checkpoint before the batch begins. CheckpointError if the file
    is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / READ
        self._batch, self._seen = self._read() if self._path.exists() else (-1, dict[int, int]())

    def write(self, batch: int, seen: Mapping[int, int]) -> None:
        """A batch is about to begin."""
        self._batch, self._seen = batch, dict(seen)
        document = {"batch": batch, "seen": {str(number): size for number, size in seen.items()}}
        disk.write_atomically(self._path, documents.encode(READ, document))

    def of(self, batch: int) -> dict[int, int] | None:
        """How far a batch has read that runs again; None for any other batch."""
        return self._seen if batch == self._batch else None

    def _read(self) -> tuple[int, dict[int, int]]:
        with documents.naming_damage(self._path):
            found = documents.decode(READ, disk.read(self._path))
            return int(found["batch"]), {int(number): int(size) for number, size in found["seen"].items()}


def _read(number: int, place: _Place, upto: int | None) -> NewLines | None:
    """The new lines of a file. DataError if it does not continue what was read of it."""
    start, line, tail = place.at
    with naming(place.path):
        size = place.path.stat().st_size
        size = place.seen = size if upto is None else min(size, upto)
        if size in (start, place.waits):
            return None
        if size < start:
            raise DataError(f"{place.path}: the file has {size:,} bytes, but {start:,} were read of it: {_APPENDED}")
        with disk.opened(place.path) as file:
            file.seek(max(0, start - TAIL))
            before = file.read(start - file.tell())
            if tail not in (-1, crc32(before)):
                raise DataError(
                    f"{place.path}: the file has other content before byte {start:,} than what was read of it: {_APPENDED}"
                )
            text = file.read(min(MOST_BYTES, size - start))
            if b"\n" not in text:
                text += file.read(min(LONGEST_LINE, size - start - len(text)))
            found = _elements_of(text, line + 1)
            # one element, or one time of graphs, takes more
            while not found.used and (more := file.read(min(len(text), size - start - len(text)))):
                text += more
                found = _elements_of(text, line + 1)
            place.seen = start + len(text)
    if not found.used:
        place.waits = size
        return None
    tail = crc32((before + text[: found.used])[-TAIL:])
    place.next = _Position(start + found.used, line + text.count(b"\n", 0, found.used), tail)
    return NewLines(number, place.path.name, found.parts, found.rejects)


@dataclass(frozen=True, slots=True)
class _Elements:
    """The elements of some text, the rejected lines, and the bytes of both."""

    parts: Sequence[pa.RecordBatch] = ()
    rejects: Sequence[Reject] = ()
    used: int = 0


def _elements_of(text: bytes, line: int) -> _Elements:
    """The elements in the whole lines of a text that continues a file at ``line``."""
    whole = text[: text.rfind(b"\n") + 1]
    if not whole:
        return _Elements()
    rejects: list[Reject] = []
    parts, used = read_lines(whole, line, rejects.append)
    return _Elements(parts, rejects, used)


def ingest_lines(batch: LinesBatch, task: IngestTask, name: str) -> IngestReport:
    """The first stage of a batch of new lines. ``name`` (task and attempt) keeps the files of retries apart."""
    rejected, elements, admission = task.rejects(name), dict(batch.elements), batch.admission
    judged: dict[int, Admitted] = {}
    tables: list[pa.Table] = []
    for new in batch.files:
        for reject in new.rejects:
            rejected.append(Rejected(task.streams[new.stream], new.stream, reject.line, f"{new.name}: {reject.reason}"))
        if new.parts:
            table, found = numbered(new.parts, new.stream, new.name, elements, admission, task, rejected)
            judged |= found
            admission = admission.after(found)
            tables.append(table)
    report = ingest(pa.concat_tables(tables) if tables else ELEMENT_ROWS.empty_table(), task, name, rejected)
    report.suspects = {number: found.suspect for number, found in judged.items()}
    return report
