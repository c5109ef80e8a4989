"""The trace file of a run: appended to batch by batch, cut back to its committed length before a batch runs again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cqels_opt.storage import disk
from cqels_opt.storage.checksum import Hasher, cut_back, file_digest
from cqels_opt.storage.file_errors import naming
from cqels_opt.trace.records import TraceRecord


class TraceFile:
    """A trace file: one JSON object per line."""

    def __init__(self, path: Path, checkpoint: Path | None = None) -> None:
        """With a ``checkpoint``, the file becomes durable with its commits."""
        self.path, self.checkpoint, self._hasher = path, checkpoint, Hasher()

    @property
    def digest(self) -> str:
        """The digest of what was written."""
        return self._hasher.text

    def restore(self, length: int, digest: str) -> None:
        """Cuts the file back to the committed length."""
        self._hasher = cut_back(self.path, length, digest)

    def written(self) -> tuple[int, str]:
        """The length and the digest of the file, for :meth:`restore`."""
        return (self.path.stat().st_size, file_digest(self.path)) if self.path.exists() else (0, "")

    def put(self, records: Sequence[TraceRecord]) -> int:
        """Appends records, which are durable now or with the commit; returns the length of the file."""
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
