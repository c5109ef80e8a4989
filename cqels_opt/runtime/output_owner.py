"""Which run a file or folder of output belongs to.

A run marks its output with its name and its checkpoint, and holds the lock of the mark while it writes. So two runs never write to one
output, a run never continues behind the lines of another one, and nothing is overwritten that no run has written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from cqels_opt.errors import InputError
from cqels_opt.state.checkpoint_lock import CheckpointLock, hold_file
from cqels_opt.state.run_identity import run_of

MARK = ".cqels-opt"


@dataclass(frozen=True, slots=True)
class Owner:
    """A run: its name, and the folder of its checkpoint."""

    run: str
    checkpoint: Path

    def lives(self) -> bool:
        """Whether the checkpoint is still there, so that the run may continue."""
        return run_of(self.checkpoint) == self.run


@runtime_checkable
class Owned(Protocol):
    """An output that belongs to one run."""

    def claim(self, owner: Owner, lengths: Mapping[str, int]) -> None:
        """Takes the output for a run that has committed these lengths. InputError if it belongs to another run."""


@runtime_checkable
class InFile(Protocol):
    """A log in a file."""

    path: Path


def claim_file(path: Path, owner: Owner, committed: int) -> CheckpointLock:
    """Takes a file of output; its mark is a file next to it."""
    if path.is_dir():
        raise InputError(f"{path}: it is a folder, and a file is expected")
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: it is a device or a pipe, and a file is expected")
    path.parent.mkdir(parents=True, exist_ok=True)
    occupied = "it is not empty" if path.exists() and path.stat().st_size else ""
    return _claim(path, path.with_name(f".{path.name}{MARK}"), owner, committed, occupied)


def claim_folder(path: Path, owner: Owner, committed: int, occupied: str) -> CheckpointLock:
    """Takes a folder of output; its mark is a file in it. ``occupied`` describes existing output that a run could have written."""
    return _claim(path, path / MARK, owner, committed, occupied)


def _claim(path: Path, mark: Path, owner: Owner, committed: int, occupied: str) -> CheckpointLock:
    def refusal(text: str) -> InputError:
        process = _field(text, "process")
        return InputError(f"{path}: another run{f' (process {process})' if process else ''} writes to it: name another output")

    if committed and not path.exists() and not mark.exists():
        raise InputError(
            f"{path} does not exist, and the checkpoint has committed output: name what the run has written, or bring it back"
        )
    held = hold_file(mark, refusal)
    before = Owner(_field(held.text, "run"), Path(_field(held.text, "checkpoint")))
    if before.run != owner.run:
        if not before.run and occupied and not committed:
            raise InputError(f"{path}: {occupied}, and no run of cqels-opt has written it: name another output, or delete it")
        if before.run and (committed or ((occupied or held.run) and before.lives())):
            raise InputError(
                f"{path}: it has the output of the run with the checkpoint {before.checkpoint}: name another output, or delete it"
            )
    held.run = owner.run
    held.write(json.dumps({"run": owner.run, "checkpoint": str(owner.checkpoint.absolute()), "process": held.process}))
    return held


def _field(text: str, name: str) -> str:
    try:
        return str(json.loads(text)[name])
    except (ValueError, KeyError, TypeError):  # an empty mark, or one that was killed in the making
        return ""
