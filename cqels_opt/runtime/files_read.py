"""The files of live folders that have been read: how many wait, which have changed since, and which wait to be renamed.

A file is read once, whole, and content added later is lost. To report that, the checkpoint keeps each name and size, and every
batch compares them with the folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cqels_opt.errors import CheckpointError
from cqels_opt.runtime.ingest import FileRead, IngestReport
from cqels_opt.storage import disk, documents
from cqels_opt.storage.file_errors import bad_name, naming

NAME = "files.jsonl"


class FilesRead:
    """The files of ``folders`` (a stream's number and its folder). Their record is in ``folder``, the checkpoint's."""

    def __init__(self, folders: Sequence[tuple[int, Path]], folder: Path) -> None:
        self.folders, self.path = dict(folders), folder / NAME
        self.waiting: int | None = None
        self._sizes: dict[tuple[int, str], int] = {}
        self._unwritten: list[FileRead] = []
        self._reported: set[tuple[int, str]] = set()  # files whose name is not UTF-8

    def restore(self, lengths: Mapping[str, int]) -> None:
        """Back to the committed length: the files of batches up to then."""
        length = lengths.get(NAME, 0)
        self._sizes, self._unwritten = {}, []
        if not self.path.exists() and not length:
            return
        if (found := disk.cut_back(self.path, length)) < length:
            raise CheckpointError(f"{self.path}: the checkpoint is damaged: {found} of {length} bytes; use another folder")
        with documents.naming_damage(self.path):
            for number, name, size in map(json.loads, disk.read(self.path).splitlines()):
                self._sizes[number, name] = size

    def take(self, reports: Iterable[IngestReport]) -> list[str]:
        """Adds the files that a batch has read, and returns the sentences of :meth:`changed`."""
        for report in reports:
            for number, name, size in report.files_read:
                self._note(number, name, size)
        return self.changed()

    def changed(self) -> list[str]:
        """Lists the folders; a sentence for each file that has changed since it was read, or cannot be read because of its name. Each is
        reported once.
        """
        found: list[str] = []
        self.waiting = 0
        for number, folder in self.folders.items():
            for name, now in _sizes_in(folder):
                size = self._sizes.get((number, name))
                if size is None:
                    self.waiting += 1
                    if (bad := bad_name(name)) and (number, name) not in self._reported:
                        self._reported.add((number, name))
                        found.append(f"{folder}: {bad}")
                elif size != now:
                    self._note(number, name, now)
                    found.append(
                        f"{folder / name} has changed since it was read ({size:,} bytes then, {now:,} now), and is not read again: "
                        "write files elsewhere and rename them into the folder, each under a new name"
                    )
        return found

    def put(self) -> dict[str, int]:
        """Writes new entries, durable on return because a restart refuses a shorter record. Returns the length to commit."""
        with naming(self.path), disk.append(self.path) as file:
            if self._unwritten:
                file.write("".join(json.dumps(one) + "\n" for one in self._unwritten).encode())
                disk.flush(file)
                self._unwritten.clear()
            return {NAME: file.tell()}

    def _note(self, number: int, name: str, size: int) -> None:
        self._sizes[number, name] = size
        self._unwritten.append((number, name, size))


def _sizes_in(folder: Path) -> Iterable[tuple[str, int]]:
    """The visible files in a folder, with their sizes; old files may be deleted at the same time."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name[0] in "._":
                continue
            try:
                if entry.is_file():
                    yield entry.name, entry.stat().st_size
            except FileNotFoundError:
                continue
