"""The trace file of a run: appended to batch by batch, cut back to its committed length before a batch runs again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cqels_opt.errors import CheckpointError
from cqels_opt.file_errors import naming
from cqels_opt.storage import disk
from cqels_opt.trace.records import TraceRecord


def cut_back(path: Path, length: int) -> None:
    """Cuts a file back to its committed length. One that is shorter has been changed by somebody else: nothing can be appended to it."""
    disk.make_folder(path.parent)
    new = not path.exists()
    with naming(path), disk.append(path) as file:
        if (found := file.tell()) < length:
            raise CheckpointError(
                f"{path}: {length - found} of the {length} bytes that the checkpoint has put out are gone; "
                "bring the file back, or use another checkpoint"
            )
    if new:
        disk.sync(path.parent)
    if found > length:
        disk.truncate(path, length)


class TraceFile:
    """One JSON object a line."""

    def __init__(self, path: Path, checkpoint: Path | None = None) -> None:
        """With the commit of a ``checkpoint`` it becomes durable as well."""
        self.path, self.checkpoint = path, checkpoint

    def restore(self, length: int) -> None:
        """Back to the committed length."""
        cut_back(self.path, length)

    def put(self, records: Sequence[TraceRecord]) -> int:
        """Appends records, which are durable now or with the commit; returns the file's length."""
        with naming(self.path), disk.append(self.path) as file:
            for record in records:
                file.write(record.line().encode())
            if self.checkpoint is None:
                disk.flush(file)
            else:
                disk.flush_for(file, self.checkpoint)
            return file.tell()
