"""The state of the optimizer in a file for each commit record: after a restart the planners choose the plans of an undisturbed run.

Waiting counts are in files of their own (:mod:`cqels_opt.state.pending_counts`), each written once.

Statistics cannot be counted again exactly from the remaining slots: merged slots fade in proportion to expired rows, and observed
selectivities are stored nowhere else. Plans depend on the file, answers do not: if it is lost, the run continues with statistics
that are counted again (:meth:`Reconfiguration.forget_statistics`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa

from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.state.pending_counts import LostOptimizerStateError
from cqels_opt.stats import load, save
from cqels_opt.storage import sealed_files

_INDEX = "index.json"


def write_optimizer_state(path: Path, planners: Mapping[str, QueryPlanner], counted: int) -> None:
    """Writes statistics, current plans with the alternatives, and the last number that was given to counts."""
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


def read_optimizer_state(path: Path, planners: Mapping[str, QueryPlanner]) -> int:
    """Restores new planners from the file; returns the last number that was given to counts.

    LostOptimizerStateError if that fails: the planners must not be used then.
    """
    try:
        with ZipFile(pa.BufferReader(sealed_files.opened_whole(path))) as archive:
            index = json.loads(archive.read(_INDEX))
            for program, planner in planners.items():
                for name, block in planner.blocks.items():
                    load(archive.read(f"statistics/{program}/{name}"), block.statistics)
                    design = index["designs"][program][name]
                    if block.resume(design):
                        block.optimizer.resume(index["plans"][program][name])
                        block.resume_choice(design)
            return int(index["counted"])
    except Exception as error:  # any error that a damaged archive, or one of another version, causes in the readers
        raise LostOptimizerStateError(f"{path}: {str(error) or type(error).__name__}") from error
