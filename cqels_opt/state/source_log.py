"""The files of a micro-batch of a run whose sources are folders, from the log in its checkpoint.

Both logs are written before the batch: ``sources/K`` has the files that source K has found, and ``offsets`` the position of each source in
its log. Spark's file source writes them, and to read the names there costs no Spark job; :class:`SourceLog` writes them without Spark.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from cqels_opt.errors import CheckpointError, RunError
from cqels_opt.storage import disk
from cqels_opt.storage.file_errors import bad_name, naming

NO_POSITION: Final = "-"  # of a source that has found nothing yet
COMPACT: Final = ".compact"  # a file of the log that repeats all entries before it


class NamedFile(NamedTuple):
    """A file that a batch reads. Files are read in this order."""

    stream: int
    modified: int  # in milliseconds
    path: str


def files_of_batch(checkpoint: Path, batch: int, streams: tuple[int, ...]) -> list[NamedFile]:
    """The files of a batch. ``streams`` has the number of the stream of each source."""
    try:
        after = _positions(checkpoint, batch - 1, len(streams)) if batch else [-1] * len(streams)
        upto = _positions(checkpoint, batch, len(streams))
        return [
            NamedFile(stream, int(entry["timestamp"]), unquote(urlsplit(entry["path"]).path))
            for source, stream in enumerate(streams)
            for entry in _entries(checkpoint / "sources" / str(source), after[source], upto[source])
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{checkpoint}: the log of the Spark job cannot be read ({error})") from error


def _positions(checkpoint: Path, batch: int, sources: int) -> list[int]:
    """The last entry of each source's log up to a batch, from a file of a version, metadata and a line per source."""
    lines = _lines(checkpoint / "offsets" / str(batch))[1:]
    if len(lines) != sources:
        raise ValueError(f"offsets/{batch} has {len(lines)} sources, not {sources}")
    return [-1 if line == NO_POSITION else int(json.loads(line)["logOffset"]) for line in lines]


def _entries(log: Path, after: int, upto: int) -> Iterator[dict[str, str]]:
    for number in range(after + 1, upto + 1):
        yield from _entries_of(log, number)


def _lines(path: Path) -> list[str]:
    """The lines of a file of Spark's logs after the version. Names of files may have U+2028, at which ``str.splitlines`` splits."""
    return disk.read(path).decode().removesuffix("\n").split("\n")[1:]


def _entries_of(log: Path, number: int) -> list[dict[str, str]]:
    path = log / str(number)
    if path.exists():
        return [json.loads(line) for line in _lines(path)]
    # The newest entries are the last ones of a compact file, which has one line for each file that the job has ever read.
    compact = min(int(file.stem) for file in log.glob(f"[0-9]*{COMPACT}") if int(file.stem) >= number)
    found: list[dict[str, str]] = []
    for line in reversed(_lines(log / f"{compact}{COMPACT}")):
        entry = json.loads(line)
        if int(entry["batchId"]) == number:
            found.append(entry)
        elif int(entry["batchId"]) < number:
            break
    return found[::-1]


# ------------------------------------------------------------------ a log that an engine without Spark writes
INTERVAL: Final = 10
"""Each file of a source's log with a number of this rest, less one, repeats all entries before it, as Spark expects by default."""
KEPT: Final = 100
"""Batches whose offsets and commits are kept, as by Spark."""
_QUOTED: Final = frozenset(' "%<>[]#?^`{|}\\')


@dataclass(slots=True)
class _Source:
    """A folder, the files that are in its log, and the number of the last entry of the log."""

    stream: int
    folder: Path
    last: int = -1
    seen: set[str] = field(default_factory=set)


class SourceLog:
    """The log of live folders in the format of Spark's file source, so that either engine continues from the other's checkpoint.

    ``folders`` pairs a stream's number with its folder, in the order of Spark's sources. A batch takes the oldest files of each folder
    up to ``most`` bytes, and at least one; its files are logged before it runs, so that it reads the same ones again after a kill.
    """

    def __init__(self, checkpoint: Path, folders: Sequence[tuple[int, Path]], most: int) -> None:
        self.checkpoint, self._most = checkpoint, most
        self._streams = tuple(number for number, _ in folders)
        for name in ("offsets", "commits", *(f"sources/{place}" for place in range(len(folders)))):
            disk.make_folder(checkpoint / name)
        self._sources = [_Source(number, folder.absolute()) for number, folder in folders]
        for place, source in enumerate(self._sources):
            self._open(source, self._log(place))

    def _open(self, source: _Source, log: Path) -> None:
        try:
            source.last = max((int(path.name.removesuffix(COMPACT)) for path in log.glob("[0-9]*")), default=-1)
            source.seen = {unquote(urlsplit(entry["path"]).path) for entry in self._entries(log, source.last)}
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise CheckpointError(f"{log}: the log of the files is damaged ({error}); use another folder") from error

    def files(self, batch: int) -> list[NamedFile] | None:
        """The files of a batch, logged; None while there are none. A batch that had begun before keeps its files."""
        if not (self.checkpoint / "offsets" / str(batch)).exists():
            before = _positions(self.checkpoint, batch - 1, len(self._sources)) if batch else [-1] * len(self._sources)
            for place, source in enumerate(self._sources):
                if found := self._new(source):
                    self._append(place, source, found)
            if [source.last for source in self._sources] == before:
                return None
            self._write("offsets", batch, self._offsets())
        return files_of_batch(self.checkpoint, batch, self._streams)

    def committed(self, batch: int) -> None:
        """Logs that a batch is committed."""
        if not (self.checkpoint / "commits" / str(batch)).exists():
            self._write("commits", batch, ['{"nextBatchWatermarkMs":0}'])
        for name in ("offsets", "commits"):
            disk.delete(self.checkpoint / name / str(batch - KEPT))
            disk.delete(self.checkpoint / name / f".{batch - KEPT}.crc")
        if not (about := self.checkpoint / "metadata").exists():  # Spark takes the log for damaged without it
            disk.write_atomically(about, json.dumps({"id": str(uuid4())}).encode())

    def _log(self, place: int) -> Path:
        return self.checkpoint / "sources" / str(place)

    def _new(self, source: _Source) -> list[tuple[int, str]]:
        """Times and paths of the oldest files that are not in the log. A file whose name is not UTF-8 waits until it is renamed."""
        found: list[tuple[int, str, int]] = []
        with naming(source.folder), os.scandir(source.folder) as entries:
            for entry in entries:
                if entry.name[0] in "._" or entry.path in source.seen or bad_name(entry.name):
                    continue
                with suppress(FileNotFoundError):
                    if entry.is_file():
                        about = entry.stat()
                        found.append((about.st_mtime_ns // 1_000_000, entry.path, about.st_size))
        taken: list[tuple[int, str]] = []
        size = 0
        for modified, path, length in sorted(found):
            size += length
            if taken and size > self._most:
                break
            taken.append((modified, path))
        return taken

    def _append(self, place: int, source: _Source, found: Sequence[tuple[int, str]]) -> None:
        log, number = self._log(place), source.last + 1
        entries = [
            json.dumps({"path": _encoded(path), "timestamp": time, "batchId": number}, ensure_ascii=False) for time, path in found
        ]
        interval = _interval(log)
        if (number + 1) % interval == 0:
            entries = [json.dumps(entry, ensure_ascii=False) for entry in self._entries(log, source.last)] + entries
            self._write(f"sources/{place}", f"{number}{COMPACT}", entries)
            for old in range(number - 2 * interval + 1, number - interval):  # the compact file before this one has them
                disk.delete(log / str(old))
                disk.delete(log / f".{old}.crc")
        else:
            self._write(f"sources/{place}", number, entries)
        source.last = number
        source.seen.update(path for _, path in found)

    def _entries(self, log: Path, last: int) -> list[dict[str, Any]]:
        """All entries of a log: those of its last compact file, and those after it."""
        compact = max((int(path.stem) for path in log.glob(f"[0-9]*{COMPACT}")), default=-1)
        names = [f"{compact}{COMPACT}"] * (compact >= 0) + [str(number) for number in range(compact + 1, last + 1)]
        return [json.loads(line) for name in names for line in _lines(log / name)]

    def _offsets(self) -> list[str]:
        about = {"batchWatermarkMs": 0, "batchTimestampMs": int(time.time() * 1000), "conf": {}}
        places = [NO_POSITION if source.last < 0 else json.dumps({"logOffset": source.last}) for source in self._sources]
        return [json.dumps(about), *places]

    def _write(self, folder: str, name: int | str, lines: Sequence[str]) -> None:
        """Writes a file of Spark's logs: a version, and a line per entry."""
        text = "\n".join(["v1", *lines])
        disk.write_atomically(self.checkpoint / folder / str(name), text.encode())


def _interval(log: Path) -> int:
    """The distance of the compact files of a log, as Spark derives it."""
    compact = sorted(int(path.stem) for path in log.glob(f"[0-9]*{COMPACT}"))
    if len(compact) > 1:
        return compact[-1] - compact[-2]
    return compact[0] + 1 if compact and (compact[0] + 1) % INTERVAL else INTERVAL


def _encoded(path: str) -> str:
    """The URI of a file as Hadoop writes it, which Spark compares with those in the log."""
    return "file://" + "".join(
        f"%{ord(character):02X}" if character in _QUOTED or ord(character) < 32 else character for character in path
    )
