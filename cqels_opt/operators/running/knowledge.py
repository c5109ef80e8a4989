"""What the planners know, in a file beside each commit record: a restart chooses the plans that an undisturbed run chooses.

Statistics cannot be counted again from the slots that are left: merged slots fade in proportion to rows that have gone since, and
what filters kept is nowhere else. The file is an archive behind the header of a sealed file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TypeAlias
from zipfile import BadZipFile, ZipFile

from cqels_opt.errors import CheckpointError
from cqels_opt.operators.planning.planner import Planner
from cqels_opt.stats import SlotCounts, load, load_slot, save, save_slot
from cqels_opt.storage import checksum

Pending: TypeAlias = "dict[str, list[SlotCounts]]"
"""The counts that the frontier has not released yet, by stream and shape."""

_INDEX = "index.json"


def write_knowledge(
    path: Path, planners: Mapping[str, Planner], pending: Mapping[str, Sequence[SlotCounts]], counted: int
) -> None:
    """Statistics, current plans and what they were chosen from, pending counts, and the last number that was given to counts."""
    plans = {
        program: {name: block.optimizer.state() for name, block in planner.blocks.items()}
        for program, planner in planners.items()
    }
    designs = {program: {name: block.state() for name, block in planner.blocks.items()} for program, planner in planners.items()}
    waiting = [(key, slot) for key, slots in pending.items() for slot in slots]
    index = {"counted": counted, "pending": [key for key, _ in waiting], "plans": plans, "designs": designs}
    with checksum.sealing(path) as file, ZipFile(file, "w") as archive:
        archive.writestr(_INDEX, json.dumps(index))
        for number, (_, slot) in enumerate(waiting):
            archive.writestr(f"pending/{number}", save_slot(slot))
        for program, planner in planners.items():
            for name, block in planner.blocks.items():
                archive.writestr(f"statistics/{program}/{name}", save(block.statistics))


def read_knowledge(path: Path, planners: Mapping[str, Planner]) -> tuple[Pending, int]:
    """Tells new planners what those that wrote the file knew; returns the pending counts and the last number."""
    pending: Pending = {}
    try:
        with ZipFile(BytesIO(checksum.unsealed(path))) as archive:
            index = json.loads(archive.read(_INDEX))
            for number, key in enumerate(index["pending"]):
                pending.setdefault(key, []).append(load_slot(archive.read(f"pending/{number}")))
            for program, planner in planners.items():
                for name, block in planner.blocks.items():
                    load(archive.read(f"statistics/{program}/{name}"), block.statistics)
                    if block.resume(index.get("designs", {}).get(program, {}).get(name)):
                        block.optimizer.resume(index["plans"][program][name])
            return pending, int(index["counted"])
    except (OSError, BadZipFile, KeyError, ValueError) as error:
        raise CheckpointError(f"{path}: the checkpoint is damaged ({error}); use another folder") from error
