"""Commit records: what a run had done when a batch was complete, written last and renamed into place (DESIGN, invariant 7).

Record N says everything that batch N + 1 needs: the files that count, where the frontier stands, how long the answers and the trace
are. A batch that runs again starts from the record before it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cqels_opt.errors import CheckpointError
from cqels_opt.windows.slots import SlotFile

VERSION = 2
NAME = "cqels-opt.json"
KEEP = 3  # records (and the files that only they name) that stay for a replayed batch


@dataclass(slots=True)
class Commit:
    """The state after a batch."""

    batch: int
    files: list[SlotFile] = field(default_factory=list)
    frontier: dict[str, Any] = field(default_factory=dict)
    first: int | None = None
    reported: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    ended: bool = False
    knowledge: str = ""  # the file of what the planners know


def durable_write(path: Path, text: str) -> None:
    """Writes a small file so that it is there whole or not at all, also after a crash."""
    temporary = path.with_name(f".{path.name}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


class CommitLog:
    """The records of a checkpoint, and the identity of the run that it belongs to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records = folder / "commits"
        self.records.mkdir(parents=True, exist_ok=True)

    def claim(self, identity: dict[str, Any]) -> str:
        """The name of this checkpoint's run. Another query, or another version's checkpoint, is a :class:`CheckpointError`."""
        path = self.folder / NAME
        if not path.exists():
            if any(self.records.iterdir()):
                raise CheckpointError(f"{self.folder}: the checkpoint is damaged: {NAME} is missing; use another folder")
            run = os.urandom(6).hex()
            durable_write(path, json.dumps({"version": VERSION, "run": run, "identity": identity}, indent=1))
            return run
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            version, run, before = found["version"], str(found["run"]), found["identity"]
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: the checkpoint is damaged ({error}); use another folder") from error
        if version != VERSION:
            raise CheckpointError(f"{self.folder}: the checkpoint is of version {version}, this is {VERSION}; use another folder")
        for key, value in json.loads(json.dumps(identity)).items():
            if before.get(key) != value:
                raise CheckpointError(
                    f"{self.folder}: the checkpoint belongs to another run: its {key} differs; use another folder"
                )
        return run

    def write(self, commit: Commit) -> None:
        """Puts a record in place and forgets old ones."""
        record = {name: getattr(commit, name) for name in Commit.__slots__}
        record["files"] = [f.as_json() for f in commit.files]
        durable_write(self._path(commit.batch), json.dumps(record))
        for path in sorted(self.records.glob("[0-9]*.json"))[:-KEEP]:
            path.unlink()

    def before(self, batch: int) -> Commit | None:
        """The last record before a batch; None at the very start."""
        found = [path for path in sorted(self.records.glob("[0-9]*.json")) if int(path.stem) < batch]
        return self.read(found[-1]) if found else None

    def last(self) -> Commit | None:
        """The last record."""
        return self.before(1 << 62)

    def read(self, path: Path) -> Commit:
        """A record; a damaged one is a :class:`CheckpointError`."""
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            return Commit(**{**fields, "files": [SlotFile(**f) for f in fields["files"]]})
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: the checkpoint is damaged ({error}); use another folder") from error

    def sweep(self, folders: Sequence[str]) -> None:
        """Deletes the files of these folders that no record names: what a process had not committed, or not yet deleted, when it died."""
        records = [self.read(path) for path in self.records.glob("[0-9]*.json")]
        named = {name for record in records for name in (record.knowledge, *(f.path for f in record.files))}
        for path in (path for name in folders for path in (self.folder / name).iterdir()):
            if path.is_file() and path.relative_to(self.folder).as_posix() not in named:
                path.unlink()

    def _path(self, batch: int) -> Path:
        return self.records / f"{batch:012d}.json"
