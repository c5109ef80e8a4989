"""Counts of elements that wait until the frontier has passed them.

A silent stream holds the frontier back for any time. Therefore each commit record has a file of the counts that no earlier one has,
and counts that wait for long stay in their file only: they are read again when the frontier passes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from zipfile import ZipFile

import pyarrow as pa

from cqels_opt.stats import SlotCounts, load_slot, save_slot
from cqels_opt.storage import sealed_files
from cqels_opt.windows.binding_slots import SlotFile

KIND = "pending"
HELD = 16
"""Batches whose counts stay in memory while they wait."""

_INDEX = "index.json"


@dataclass(slots=True)
class WaitingCounts:
    """Counts that wait until the frontier has passed the time ``last``: in memory, at a ``place`` in the file of a batch, or both."""

    last: int
    counts: SlotCounts | None
    batch: int = -1
    path: str = ""
    place: int = 0


Pending: TypeAlias = "dict[str, list[WaitingCounts]]"
"""The counts that the frontier has not released yet, by stream and shape."""


class LostOptimizerStateError(Exception):
    """A file of statistics is damaged or missing."""

    @classmethod
    def of(cls, path: Path, error: Exception) -> LostOptimizerStateError:
        """The error for a file that could not be read; an error of the file itself names it already."""
        said = str(error) or type(error).__name__
        return cls(said if said.startswith(str(path)) else f"{path}: {said}")


def write_pending(folder: Path, number: int, waiting: Sequence[tuple[str, WaitingCounts]]) -> list[SlotFile]:
    """Writes the file of counts that still wait, at the commit record of a batch; none if there are no such counts."""
    if not waiting:
        return []
    path = f"slots/{KIND}-{number:08d}.zip"
    with sealed_files.sealing(folder / path) as file, ZipFile(file, "w") as archive:
        archive.writestr(_INDEX, json.dumps([(key, one.last) for key, one in waiting]))
        for place, (_, one) in enumerate(waiting):
            assert one.counts is not None
            archive.writestr(str(place), save_slot(one.counts))
            one.batch, one.path, one.place = number, path, place
    least = min(int(one.counts.times[0]) for _, one in waiting if one.counts is not None)
    return [SlotFile(KIND, path, "", "", len(waiting), least, max(one.last for _, one in waiting))]


def read_pending(folder: Path, files: Iterable[SlotFile], upto: int) -> Pending:
    """The counts in the files of a state that still wait; they stay in the files. LostOptimizerStateError if one is damaged."""
    pending: Pending = {}
    for file in sorted((f for f in files if f.kind == KIND), key=lambda f: f.path):
        with _opened(folder / file.path) as archive:
            for place, (key, last) in enumerate(json.loads(archive.read(_INDEX))):
                if last > upto:
                    pending.setdefault(key, []).append(WaitingCounts(last, None, path=file.path, place=place))
    return pending


def read_counts(folder: Path, waiting: WaitingCounts) -> SlotCounts:
    """The counts, from their file if they are not in memory. LostOptimizerStateError if the file is damaged or missing."""
    if waiting.counts is not None:
        return waiting.counts
    with _opened(folder / waiting.path) as archive:
        return load_slot(archive.read(str(waiting.place)))


def _opened(path: Path) -> ZipFile:
    try:
        return ZipFile(pa.BufferReader(sealed_files.opened_whole(path)))
    except Exception as error:
        raise LostOptimizerStateError.of(path, error) from error
