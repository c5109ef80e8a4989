"""The trace file of a run: appended to batch by batch, cut back to its committed length before a batch runs again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cqels_opt.errors import CheckpointError
from cqels_opt.storage import checksum, disk
from cqels_opt.storage.checksum import Hasher
from cqels_opt.storage.file_errors import naming
from cqels_opt.trace.records import TraceRecord


def cut_back(path: Path, length: int, digest: str) -> Hasher:
    """Cuts a file back to its committed length; returns the hasher of what stays, which goes on with what is appended.

    A file that is shorter, or whose beginning does not have the committed digest, has been changed: nothing can be appended to it.
    """
    disk.make_folder(path.parent)
    new = not path.exists()
    with naming(path), disk.append(path) as file:
        if (found := file.tell()) < length:
            raise CheckpointError(
                f"{path}: {length - found} of the {length} bytes that the checkpoint has committed are gone; "
                "bring the file back, or use another checkpoint"
            )
    if new:
        disk.sync(path.parent)
    hasher = checksum.committed(path, length, digest)
    if found > length:
        disk.truncate(path, length)
    return hasher


class TraceFile:
    """One JSON object a line."""

    def __init__(self, path: Path, checkpoint: Path | None = None) -> None:
        """With the commit of a ``checkpoint`` it becomes durable as well."""
        self.path, self.checkpoint, self._hasher = path, checkpoint, Hasher()

    @property
    def digest(self) -> str:
        """Of the file as far as it was written."""
        return self._hasher.text

    def restore(self, length: int, digest: str) -> None:
        """Back to the committed length."""
        self._hasher = cut_back(self.path, length, digest)

    def put(self, records: Sequence[TraceRecord]) -> int:
        """Appends records, which are durable now or with the commit; returns the file's length."""
        with naming(self.path), disk.append(self.path) as file:
            for record in records:
                line = record.line().encode()
                file.write(line)
                self._hasher.update(line)
            if self.checkpoint is None:
                disk.flush(file)
            else:
                disk.flush_for(file, self.checkpoint)
            return file.tell()
