"""The files of a micro-batch of a Spark job whose sources are folders, from the job's checkpoint.

Spark writes both logs before the batch: ``sources/K`` has the files that source K has found, and ``offsets`` the position of each source in
its log. To read the names there costs no Spark job.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from cqels_opt.errors import RunError
from cqels_opt.storage import disk

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
    lines = disk.read(checkpoint / "offsets" / str(batch)).decode().splitlines()[2:]
    if len(lines) != sources:
        raise ValueError(f"offsets/{batch} has {len(lines)} sources, not {sources}")
    return [-1 if line == NO_POSITION else int(json.loads(line)["logOffset"]) for line in lines]


def _entries(log: Path, after: int, upto: int) -> Iterator[dict[str, str]]:
    for number in range(after + 1, upto + 1):
        yield from _entries_of(log, number)


def _entries_of(log: Path, number: int) -> list[dict[str, str]]:
    path = log / str(number)
    if path.exists():
        return [json.loads(line) for line in disk.read(path).decode().splitlines()[1:]]
    # The newest entries are the last ones of a compact file, which has one line for each file that the job has ever read.
    compact = min(int(file.stem) for file in log.glob(f"[0-9]*{COMPACT}") if int(file.stem) >= number)
    found: list[dict[str, str]] = []
    for line in reversed(disk.read(log / f"{compact}{COMPACT}").decode().splitlines()[1:]):
        entry = json.loads(line)
        if int(entry["batchId"]) == number:
            found.append(entry)
        elif int(entry["batchId"]) < number:
            break
    return found[::-1]
