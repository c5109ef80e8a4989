"""The record ``replay.json`` of a replay's chunks, and the check that its inputs have not changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cqels_opt.errors import CheckpointError, option
from cqels_opt.storage import disk, documents
from cqels_opt.storage.checksum import file_digest

VERSION = 3
REPLAY = "replay"
"""The folder of a checkpoint with the replay of its files."""
RECORD = "replay.json"
REJECTED = "rejected.ndjson"
CHUNKS = "chunks"


@dataclass(frozen=True, slots=True)
class ReplaySource:
    """The files of a stream, each a partition of it, in order."""

    stream: str
    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class ReplayPartition:
    """A file of a stream as it was when it was cut; ``first`` and ``greatest`` are times.

    ``partition`` numbers the files of all streams: the number alone identifies a source partition.
    """

    stream: int
    partition: int
    path: str
    size: int
    modified: int
    digest: str
    rows: int = 0
    elements: int = 0
    late: int = 0
    rejected: int = 0
    first: int = 0
    greatest: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """One micro-batch: ``late`` counts elements.

    By place in ``ReplayPlan.partitions``, ``rejected`` has the number of lines rejected before its elements, and ``greatest`` the greatest
    time so far of each partition in it.
    """

    file: str
    rows: int
    elements: int
    late: int
    rejected: dict[int, int]
    greatest: dict[int, int]


@dataclass(frozen=True)
class ReplayPlan:
    """A replay that has been cut, chunk by chunk."""

    folder: Path
    parameters: dict[str, str | int]
    streams: tuple[str, ...]
    partitions: tuple[ReplayPartition, ...]
    chunks: tuple[Chunk, ...]

    @property
    def chunk_folder(self) -> Path:
        """The folder with the chunks and nothing else, which is Spark's source."""
        return self.folder / CHUNKS

    @property
    def rejected_file(self) -> Path:
        """The rejected lines, as JSON lines with ``file``, ``line`` and ``reason``; absent if there are none."""
        return self.folder / REJECTED

    def path(self, number: int) -> Path:
        """The file of a chunk."""
        return self.chunk_folder / self.chunks[number].file

    @cached_property
    def rows(self) -> int:
        """Of all chunks."""
        return sum(chunk.rows for chunk in self.chunks)

    @cached_property
    def elements(self) -> int:
        """Of all chunks."""
        return sum(chunk.elements for chunk in self.chunks)

    @cached_property
    def late(self) -> int:
        """The number of late elements."""
        return sum(chunk.late for chunk in self.chunks)

    @cached_property
    def rejected(self) -> int:
        """The number of rejected lines."""
        return sum(partition.rejected for partition in self.partitions)

    def rejected_in(self, number: int) -> dict[str, int]:
        """The rejected lines of a chunk, by stream. A replay without elements has no chunks, and queries without streams a batch."""
        found: dict[str, int] = {}
        for chunk in self.chunks[number : number + 1]:
            for place, lines in chunk.rejected.items():
                stream = self.streams[self.partitions[place].stream]
                found[stream] = found.get(stream, 0) + lines
        return found

    @property
    def newest(self) -> int | None:
        """The greatest time of all input."""
        return max((p.greatest for p in self.partitions if p.elements), default=None)


def write_plan(plan: ReplayPlan) -> None:
    """Writes the record under a temporary name and renames it: a folder with a record is complete."""
    record = {
        "version": VERSION,
        "parameters": plan.parameters,
        "streams": plan.streams,
        "partitions": [asdict(partition) for partition in plan.partitions],
        "chunks": [asdict(chunk) for chunk in plan.chunks],
        "totals": {"rows": plan.rows, "elements": plan.elements, "late": plan.late, "rejected": plan.rejected},
    }
    disk.write_atomically(plan.folder / RECORD, documents.encode(RECORD, record))


def read_plan(folder: Path) -> ReplayPlan | None:
    """The record of a folder, if it has one; ``CheckpointError`` where it is damaged or of another version."""
    file = folder / RECORD
    if not file.exists():
        return None
    try:
        record: dict[str, Any] = documents.decode(RECORD, disk.read(file))
        if record["version"] != VERSION:
            raise CheckpointError(
                f"{file}: is of version {record['version']}, this program writes {VERSION}; use another checkpoint"
            )
        plan = ReplayPlan(
            folder,
            record["parameters"],
            tuple(record["streams"]),
            tuple(ReplayPartition(**partition) for partition in record["partitions"]),
            tuple(
                Chunk(**{**chunk, "rejected": _by_place(chunk["rejected"]), "greatest": _by_place(chunk["greatest"])})
                for chunk in record["chunks"]
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{file}: is damaged ({error}); use another checkpoint, or delete this one") from error
    there = {entry.name for entry in plan.chunk_folder.iterdir()} if plan.chunk_folder.is_dir() else set()
    if lacking := [chunk.file for chunk in plan.chunks if chunk.file not in there]:
        raise CheckpointError(f"{plan.chunk_folder}: {lacking[0]} is missing; use another checkpoint, or delete this one")
    return plan


def _by_place(found: dict[str, int]) -> dict[int, int]:
    return {int(place): value for place, value in found.items()}


def fingerprints(sources: Sequence[ReplaySource]) -> tuple[tuple[str, ...], list[ReplayPartition]]:
    """The streams in order of their first mention, and their files with size and time of modification, but no digest yet."""
    streams: dict[str, int] = {}
    partitions: list[ReplayPartition] = []
    for source in sources:
        stream = streams.setdefault(source.stream, len(streams))
        for path in source.paths:
            status = path.stat()
            partitions.append(ReplayPartition(stream, len(partitions), str(path), status.st_size, status.st_mtime_ns, ""))
    return tuple(streams), partitions


def check_same(
    plan: ReplayPlan, parameters: dict[str, str | int], streams: tuple[str, ...], partitions: Sequence[ReplayPartition]
) -> None:
    """Raises ``CheckpointError`` that names a difference between the replay of a checkpoint and the current request."""
    advice = "give what the checkpoint was made with, or another checkpoint"
    for name, value in parameters.items():
        was = plan.parameters.get(name)
        if was != value and not (name == "on-error" and not plan.rejected):
            shown = option(f"{name.replace('-', '_')}=", f"--{name} ")
            raise CheckpointError(f"{plan.folder}: was made with {shown}{was}, not {value}; {advice}")
    if plan.streams != streams:
        raise CheckpointError(
            f"{plan.folder}: was made from streams {', '.join(plan.streams)}, not {', '.join(streams)}; {advice}"
        )
    for was_file, file in zip(plan.partitions, partitions):
        if was_file.stream != file.stream:
            raise CheckpointError(f"{plan.folder}: the streams' files came in another order; {advice}")
        same_time = was_file.modified == file.modified and was_file.size == file.size
        if not same_time and (was_file.size != file.size or was_file.digest != file_digest(Path(file.path))):
            raise CheckpointError(f"{plan.folder}: {file.path} is not the file that it was made from ({was_file.path}); {advice}")
    if len(plan.partitions) != len(partitions):
        raise CheckpointError(f"{plan.folder}: was made from {len(plan.partitions)} files, not {len(partitions)}; {advice}")
