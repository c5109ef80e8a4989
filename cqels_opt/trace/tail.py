"""The records of a trace file that grows, as they come; also of a job that is killed and begun again over the same file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from cqels_opt.errors import InputError
from cqels_opt.trace.records import TraceRecord, parse_line

MOST_BYTES = 8 << 20
"""Read at a time."""


class News(NamedTuple):
    """What has come; ``anew``: what came before does not count any more, the file has been cut back or replaced. ``more`` is waiting."""

    records: list[TraceRecord]
    anew: bool
    more: bool


class Tail:
    """Where a reader of a growing trace is.

    A job that goes on from its checkpoint cuts the file back to what was committed, and may have written on by the time one looks again.
    So the last line that was read is compared with what now stands in its place.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._offset, self._lines, self._last, self._inode = 0, 0, b"", -1

    def news(self) -> News:
        """The whole lines that are new; none while the file is not there.

        Raises:
            InputError: the file cannot be read.
            DataError: a line is not a trace record.
        """
        try:
            with self.path.open("rb") as file:
                inode, anew = os.fstat(file.fileno()).st_ino, False
                if self._offset:
                    file.seek(max(0, self._offset - len(self._last)))
                    if inode != self._inode or file.read(len(self._last)) != self._last:
                        self._begin_anew()
                        anew = True
                self._inode = inode
                file.seek(self._offset)
                lines = file.readlines(MOST_BYTES)
                more = file.tell() < os.fstat(file.fileno()).st_size
        except FileNotFoundError:
            anew = self._offset > 0
            self._begin_anew()
            return News([], anew, False)
        except OSError as error:
            raise InputError(f"{self.path}: cannot read the trace: {error.strerror}") from error
        if lines and not lines[-1].endswith(b"\n"):
            lines.pop()
        records = []
        for line in lines:
            self._lines += 1
            if (record := parse_line(line, f"{self.path}:{self._lines}")) is not None:
                records.append(record)
            self._offset += len(line)
            self._last = line
        return News(records, anew, more)
