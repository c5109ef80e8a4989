"""The state of an adaptive join: the rows of its windows as Parquet folders, and a commit record per micro-batch.

As for queries (``state/commit_log.py``) a record names the valid files and is renamed into place last, so a batch that runs again
starts from the previous record and overwrites its own output.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow as pa

from cqels_opt.errors import CheckpointError
from cqels_opt.relational.planner import JoinPlanner
from cqels_opt.relational.progress import Progress, added_columns
from cqels_opt.relational.spec import JoinSpec
from cqels_opt.state.commit_log import Commit, CommitLog
from cqels_opt.state.run_identity import Identity
from cqels_opt.storage import disk, sealed_files
from cqels_opt.storage.compaction_policy import MERGED, runs_to_merge
from cqels_opt.windows.binding_slots import SlotFile

ROWS = "rows"
OPTIMIZER = "optimizer"
NEW_CHUNKS = 16
"""The number of new chunks of rows that are merged, with older ones of like size."""

SHARE = 8
"""A merged chunk has at most 1/SHARE of all rows, because it expires as one."""


def identity_of(spec: JoinSpec, lateness: int) -> Identity:
    """The identity of a join's state: the parts of the query that must not change."""
    relations = [[r.name, r.static, r.window, r.time] for r in spec.relations]
    late = [[stream.column, stream.lateness] for stream in spec.event_times(lateness)]
    equal = [list(map(str, c.keys)) for c in spec.conditions if c.keys]
    filters = [c.text for c in spec.conditions if not c.keys]
    kinds = {r.key: r.kind for r in spec.relations}
    units = {name: [kinds[name], *(c.text for c in conditions)] for name, conditions in spec.joined.items()}
    return Identity(
        query=[relations, equal, filters, *([units] if units else [])],
        windows=relations,
        others={"lateness": late},
    )


class RetainedRows:
    """The state folder of a join. ``state`` is the last commit."""

    def __init__(self, folder: Path, identity: Identity) -> None:
        self.folder = folder
        for part in (ROWS, OPTIMIZER):
            disk.make_folder(folder / part)
        self.log = CommitLog(folder)
        self.run = self.log.claim(identity, changed=None)
        self.state = self.log.last() or Commit(-1)
        self._sweep()

    # ------------------------------------------------------------------ a batch
    def begin(self, number: int, allow_gap: bool = False) -> bool:
        """Prepares for a batch; returns whether the state was reloaded for it (:meth:`CommitLog.begin`).

        Raises CheckpointError if the previous state has been deleted, or if the batch number does not follow it.
        """
        if not self.log.begin(number, self.state.batch, allow_gap):
            return False
        self.log.check_back(number)
        self.state = self.log.before(number) or Commit(-1)
        return True

    @property
    def progress(self) -> Progress:
        """The progress of the streams so far."""
        return Progress.of_json(self.state.frontier.get("progress") or {})

    def check_columns(self, columns: Sequence[Sequence[str]], internal: Sequence[str]) -> None:
        """Raises CheckpointError unless the stream has the columns of the retained rows, which are pairs of a name and a type; it may have
        more. ``internal`` are the names of columns that are not the stream's own.
        """
        before = self.state.frontier.get("columns")
        if before is None or not self.state.files:
            return
        try:
            added = added_columns(before, columns)
        except ValueError as error:
            raise CheckpointError(f"{self.folder}: {error}") from error
        if self.state.frontier.get("internal") != list(internal):
            raise CheckpointError(
                f"{self.folder}: the kept rows have internal columns of the name of a new one ({', '.join(added)}): rename it, "
                "or use another folder"
            )

    def path(self, number: int, shape: str = "") -> str:
        """The folder of the rows of a batch, or of the rows of several batches that it merges."""
        return f"{ROWS}/{number:012d}" + (f"-{shape}" if shape else "")

    def place(self, path: str) -> Path | str:
        """The path, or the URI, of a folder of rows."""
        return self.folder / path

    def live(self, frontier: int, widest: int) -> list[SlotFile]:
        """The rows that can still join with new ones. CheckpointError if their files are not those that were written: Spark reads what
        it finds."""
        found = [chunk for chunk in self.state.files if chunk.rows and chunk.greatest + widest > frontier]
        for chunk in found:
            if chunk.path in self._written:
                self._check(chunk.path, self._written[chunk.path])
        return found

    @property
    def _written(self) -> Mapping[str, Mapping[str, int]]:
        """The bytes of the files of rows that the last record names, by their folders; records of earlier versions have none."""
        return self.state.frontier.get("files") or {}

    def _check(self, path: str, written: Mapping[str, int]) -> None:
        there = self._sizes(path)
        for name in sorted({*written, *there}):
            if written.get(name) != there.get(name):
                what = f"has {there[name]:,} bytes" if name in there else "is missing"
                was = f"it was written with {written[name]:,}" if name in written else "no batch has written it"
                raise CheckpointError(
                    f"{self.place(path)}/{name}: the file of rows {what}, and {was}: restore it, or use another folder"
                )

    def _sizes(self, path: str) -> dict[str, int]:
        """The bytes of each file in a folder of rows, without those that Spark does not read."""
        folder = self.folder / path
        files = (file for file in folder.iterdir() if not file.name.startswith(("_", "."))) if folder.is_dir() else ()
        return {file.name: file.stat().st_size for file in files}

    def due(self, chunks: Sequence[SlotFile]) -> list[SlotFile]:
        """The chunks that are merged now, if any."""
        new = [chunk for chunk in chunks if not chunk.shape]
        older = sorted((chunk for chunk in chunks if chunk.shape), key=lambda chunk: chunk.least)
        if len(new) < NEW_CHUNKS:
            return []
        arriving, cap = sum(chunk.rows for chunk in new), sum(chunk.rows for chunk in chunks) // SHARE
        some = runs_to_merge([chunk.rows for chunk in older], cap, arriving) or slice(0)
        return [*older[some], *new]

    def commit(
        self,
        number: int,
        chunks: Sequence[SlotFile],
        progress: Progress,
        columns: Sequence[Sequence[str]],
        internal: Sequence[str],
        planner: JoinPlanner,
        totals: dict[str, int],
        lengths: dict[str, int],
        digests: Mapping[str, str],
    ) -> None:
        """Commits the batch."""
        archive_path = f"{OPTIMIZER}/{number:012d}.zip"
        feedback, statistics = planner.state()
        with sealed_files.sealing(self.folder / archive_path) as file, ZipFile(file, "w") as archive:
            archive.writestr("planner.json", json.dumps(feedback))
            archive.writestr("statistics", statistics)
        files = {chunk.path: self._written.get(chunk.path) or self._sizes(chunk.path) for chunk in chunks}
        state = Commit(
            number,
            list(chunks),
            {"progress": progress.json(), "columns": [list(c) for c in columns], "internal": list(internal), "files": files},
            lengths={**self.state.lengths, **lengths},  # a file that this run does not write keeps its length
            totals={name: self.state.totals.get(name, 0) + totals.get(name, 0) for name in {*totals, *self.state.totals}},
            optimizer=archive_path,
            digests={**self.state.digests, **digests},
        )
        self.log.write(state)
        self.state = state
        self._sweep()

    def restore_planner(self, planner: JoinPlanner) -> str | None:
        """Restores a planner from the last commit. Returns the reason if that fails; the planner is unusable then."""
        if not self.state.optimizer:
            return None
        path = self.folder / self.state.optimizer
        try:
            with ZipFile(pa.BufferReader(sealed_files.opened_whole(path))) as archive:
                feedback: Any = json.loads(archive.read("planner.json"))
                planner.resume(feedback, archive.read("statistics"))
        except Exception as error:  # noqa: BLE001  # the readers raise anything for a damaged archive
            return f"{path}: the statistics of the optimizer are lost ({error}); they are counted again"
        return None

    @property
    def bytes(self) -> int:
        """The bytes on disk of the valid rows."""
        return sum(file.stat().st_size for chunk in self.state.files for file in (self.folder / chunk.path).rglob("*"))

    def publish(self) -> None:
        """Copies files to where a restart reads them; without a URI, that is the folder."""

    def _sweep(self) -> set[str]:
        """Deletes files that no record names. Returns the names that records have."""
        named = self.log.sweep((OPTIMIZER,))
        for path in (self.folder / ROWS).iterdir():
            if path.relative_to(self.folder).as_posix() not in named:
                disk.delete_folder(path)
        return named


def merged(path: str, chunks: Sequence[SlotFile]) -> SlotFile:
    """Several chunks as one."""
    rows, least, greatest = sum(c.rows for c in chunks), min(c.least for c in chunks), max(c.greatest for c in chunks)
    return SlotFile(ROWS, path, shape=MERGED, rows=rows, least=least, greatest=greatest)
