"""What the planners know, in a file beside each commit record: a restart chooses the plans that an undisturbed run chooses.

Counts that wait for the frontier are in files of their own (:mod:`cqels_opt.state.pending_counts`): each is written once.

Statistics cannot be counted again exactly from the slots that are left: merged slots fade in proportion to rows that have gone since,
and what filters kept is nowhere else. The file is an archive, whose checksums tell a damaged one. Plans depend on it, answers do not:
where it is lost, the run goes on with statistics that are counted again (:meth:`Changes.forget_statistics`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa

from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.state.pending_counts import LostKnowledgeError
from cqels_opt.stats import load, save
from cqels_opt.storage import sealed_files

_INDEX = "index.json"


def write_knowledge(path: Path, planners: Mapping[str, QueryPlanner], counted: int) -> None:
    """Statistics, current plans and what they were chosen from, and the last number that was given to counts."""
    plans = {
        program: {name: block.optimizer.state() for name, block in planner.blocks.items()}
        for program, planner in planners.items()
    }
    designs = {program: {name: block.state() for name, block in planner.blocks.items()} for program, planner in planners.items()}
    index = {"counted": counted, "plans": plans, "designs": designs}
    with sealed_files.sealing(path) as file, ZipFile(file, "w") as archive:
        archive.writestr(_INDEX, json.dumps(index))
        for program, planner in planners.items():
            for name, block in planner.blocks.items():
                archive.writestr(f"statistics/{program}/{name}", save(block.statistics))


def read_knowledge(path: Path, planners: Mapping[str, QueryPlanner]) -> int:
    """Gives new planners what those that wrote the file knew; returns the last number that was given to counts.

    LostKnowledgeError where it cannot: the planners are of no use then.
    """
    try:
        with ZipFile(pa.BufferReader(sealed_files.opened_whole(path))) as archive:
            index = json.loads(archive.read(_INDEX))
            for program, planner in planners.items():
                for name, block in planner.blocks.items():
                    load(archive.read(f"statistics/{program}/{name}"), block.statistics)
                    if block.resume(index.get("designs", {}).get(program, {}).get(name)):
                        block.optimizer.resume(index["plans"][program][name])
            return int(index["counted"])
    except Exception as error:  # whatever a damaged archive, or another version's, makes of the readers
        raise LostKnowledgeError(f"{path}: {str(error) or type(error).__name__}") from error
