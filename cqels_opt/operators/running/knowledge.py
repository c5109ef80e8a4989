"""What the planners know, in a file beside each commit record: a restart chooses the plans that an undisturbed run chooses.

Counts that wait for the frontier are in files of their own (:mod:`cqels_opt.operators.running.pending`): each is written once.

Statistics cannot be counted again from the slots that are left: merged slots fade in proportion to rows that have gone since, and
what filters kept is nowhere else. The file is an archive, whose checksums tell a damaged one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from cqels_opt.errors import CheckpointError
from cqels_opt.operators.planning.planner import Planner
from cqels_opt.operators.running.pending import Pending
from cqels_opt.stats import load, load_slot, save

_INDEX = "index.json"


def write_knowledge(path: Path, planners: Mapping[str, Planner], counted: int) -> None:
    """Statistics, current plans and what they were chosen from, and the last number that was given to counts."""
    plans = {
        program: {name: block.optimizer.state() for name, block in planner.blocks.items()}
        for program, planner in planners.items()
    }
    designs = {program: {name: block.state() for name, block in planner.blocks.items()} for program, planner in planners.items()}
    index = {"counted": counted, "plans": plans, "designs": designs}
    with ZipFile(path, "w") as archive:
        archive.writestr(_INDEX, json.dumps(index))
        for program, planner in planners.items():
            for name, block in planner.blocks.items():
                archive.writestr(f"statistics/{program}/{name}", save(block.statistics))


def read_knowledge(path: Path, planners: Mapping[str, Planner]) -> tuple[Pending, int]:
    """Tells new planners what those that wrote the file knew; returns the last number, and the pending counts of an earlier version."""
    pending: Pending = {}
    try:
        with ZipFile(path) as archive:
            index = json.loads(archive.read(_INDEX))
            for number, key in enumerate(index.get("pending", ())):
                pending.setdefault(key, []).append(load_slot(archive.read(f"pending/{number}")))
            for program, planner in planners.items():
                for name, block in planner.blocks.items():
                    load(archive.read(f"statistics/{program}/{name}"), block.statistics)
                    if block.resume(index.get("designs", {}).get(program, {}).get(name)):
                        block.optimizer.resume(index["plans"][program][name])
            return pending, int(index["counted"])
    except (OSError, BadZipFile, KeyError, ValueError) as error:
        raise CheckpointError(f"{path}: the checkpoint is damaged ({error}); use another folder") from error
