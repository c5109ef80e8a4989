"""The trace file of a run: appended to batch by batch, cut back to its committed length before a batch runs again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from cqels_opt.errors import CheckpointError
from cqels_opt.file_errors import naming
from cqels_opt.trace.records import TraceRecord


def cut_back(path: Path, length: int) -> None:
    """Cuts a file back to its committed length. One that is shorter has been changed by somebody else: nothing can be appended to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path), path.open("ab") as file:
        if (found := file.tell()) < length:
            raise CheckpointError(
                f"{path}: {length - found} of the {length} bytes that the checkpoint has put out are gone; "
                "bring the file back, or use another checkpoint"
            )
        file.truncate(length)


class TraceFile:
    """One JSON object a line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def restore(self, length: int) -> None:
        """Back to the committed length."""
        cut_back(self.path, length)

    def put(self, records: Sequence[TraceRecord]) -> int:
        """Appends records and waits until they are on the disk; returns the file's length."""
        with naming(self.path), self.path.open("ab") as file:
            for record in records:
                file.write(record.line().encode())
            file.flush()
            os.fsync(file.fileno())
            return file.tell()
