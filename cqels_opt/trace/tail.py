"""Reads the records of a growing trace file, including that of a job that is killed and restarted on the same file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from cqels_opt.errors import InputError
from cqels_opt.trace.records import TraceRecord, parse_line

MOST_BYTES = 8 << 20
"""Maximum bytes per read."""


class News(NamedTuple):
    """New records. ``restarted``: discard earlier ones, because the file was truncated or replaced; ``more``: unread lines remain."""

    records: list[TraceRecord]
    restarted: bool
    more: bool


class Tail:
    """The position of a reader in a growing trace.

    A job that resumes from its checkpoint truncates the file to the committed length, and may have appended to it before the next
    read. So the last line read is compared with the current content at its position.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reset()

    def _reset(self) -> None:
        self._offset, self._lines, self._last, self._inode = 0, 0, b"", -1

    def news(self) -> News:
        """The new complete lines; none while the file does not exist.

        Raises:
            InputError: the file cannot be read.
            DataError: a line is not a trace record.
        """
        try:
            with self.path.open("rb") as file:
                inode, restarted = os.fstat(file.fileno()).st_ino, False
                if self._offset:
                    file.seek(max(0, self._offset - len(self._last)))
                    if inode != self._inode or file.read(len(self._last)) != self._last:
                        self._reset()
                        restarted = True
                self._inode = inode
                file.seek(self._offset)
                lines = file.readlines(MOST_BYTES)
                more = file.tell() < os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            restarted = self._offset > 0
            self._reset()
            return News([], restarted, False)
        except OSError as error:
            raise InputError(f"{self.path}: cannot read the trace: {error.strerror}") from error
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()
        numbered = [parse_line(line, f"{self.path}:{number}") for number, line in enumerate(lines, self._lines + 1)]
        if lines:  # after a bad line the same lines are read again
            self._offset, self._lines, self._last = self._offset + sum(map(len, lines)), self._lines + len(lines), lines[-1]
        return News([record for record in numbered if record is not None], restarted, more)
