"""Counts that wait until the frontier has passed them: each is written once, in a file of the batch that brought it.

While a stream is silent they wait for long. So no batch writes again what an earlier one wrote.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias
from zipfile import ZipFile

import pyarrow as pa

from cqels_opt.stats import SlotCounts, load_slot, save_slot
from cqels_opt.storage import sealed_files
from cqels_opt.windows.binding_slots import SlotFile

Pending: TypeAlias = "dict[str, list[SlotCounts]]"
"""The counts that the frontier has not released yet, by stream and shape."""


class LostKnowledgeError(Exception):
    """A file of statistics is damaged or gone."""


KIND = "pending"
_INDEX = "index.json"


def is_waiting(counts: SlotCounts, upto: int) -> bool:
    """Whether counts still wait where the frontier is at ``upto``."""
    return len(counts.times) > 0 and int(counts.times[-1]) > upto


def write_pending(folder: Path, number: int, waiting: Sequence[tuple[str, SlotCounts]]) -> list[SlotFile]:
    """The file of the counts that a batch has brought and that still wait; none where there are none."""
    if not waiting:
        return []
    path = f"slots/{KIND}-{number:08d}.zip"
    with sealed_files.sealing(folder / path) as file, ZipFile(file, "w") as archive:
        archive.writestr(_INDEX, json.dumps([key for key, _ in waiting]))
        for place, (_, counts) in enumerate(waiting):
            archive.writestr(str(place), save_slot(counts))
    times = [counts.times for _, counts in waiting]
    return [SlotFile(KIND, path, "", "", len(waiting), min(int(t[0]) for t in times), max(int(t[-1]) for t in times))]


def read_pending(folder: Path, files: Iterable[SlotFile], upto: int) -> Pending:
    """The counts in the files of a state that still wait; LostKnowledgeError where a file is damaged or gone."""
    pending: Pending = {}
    for file in sorted((f for f in files if f.kind == KIND), key=lambda f: f.path):
        try:
            with ZipFile(pa.BufferReader(sealed_files.opened_whole(folder / file.path))) as archive:
                for place, key in enumerate(json.loads(archive.read(_INDEX))):
                    if is_waiting(counts := load_slot(archive.read(str(place))), upto):
                        pending.setdefault(key, []).append(counts)
        except Exception as error:
            raise LostKnowledgeError(f"{folder / file.path}: {str(error) or type(error).__name__}") from error
    return pending
