"""One process works with a checkpoint, or writes to an output, at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from weakref import WeakValueDictionary

from cqels_opt.errors import CheckpointError
from cqels_opt.storage.file_errors import naming
from cqels_opt.storage.locks import taken_lock

NAME = ".lock"
_held: WeakValueDictionary[Path, CheckpointLock] = WeakValueDictionary()
_taking = Lock()


class CheckpointLock:
    """The lock of a file, held by this process while an object here refers to it; the system releases it when the process ends.

    ``text``, the first line of the file, names the process that has, or had, the lock; ``run`` is the run of this process, for an
    output.
    """

    def __init__(self, path: Path, refusal: Callable[[str], Exception]) -> None:
        self.path, self.process, self.run = path, os.getpid(), ""
        self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
        try:
            taken = taken_lock(self._file)
        except OSError:  # a file system without locks: two processes there are not detected
            taken = True
        self.text = self._file.readline().decode(errors="replace").strip()
        if not taken:
            self._file.close()
            raise refusal(self.text)

    def write(self, text: str) -> None:
        """Replaces the line. A process that is killed here leaves the old one or the new one."""
        self.text, line = text, f"{text}\n".encode()
        with naming(self.path):
            os.pwrite(self._file.fileno(), line, 0)
            self._file.truncate(len(line))
            os.fsync(self._file.fileno())

    def is_of(self, path: Path) -> bool:
        """Whether the path still is the file that is locked."""
        return path.exists() and os.path.samestat(path.stat(), os.fstat(self._file.fileno()))

    def __del__(self) -> None:
        if hasattr(self, "_file"):  # the file could be opened
            self._file.close()


def hold_file(path: Path, refusal: Callable[[str], Exception]) -> CheckpointLock:
    """Takes the lock of a file for this process, which may do so several times.

    ``refusal`` makes the error if another process has it.
    """
    path = path.resolve()
    with _taking:
        found = _held.get(path)
        if found is None or found.process != os.getpid() or not found.is_of(path):  # a fork has its own, and so has a new file
            found = _held[path] = CheckpointLock(path, refusal)
        return found


def lock_checkpoint(folder: Path) -> CheckpointLock:
    """Takes a checkpoint for this process. CheckpointError if another process has it."""

    def refusal(who: str) -> Exception:
        return CheckpointError(
            f"{folder}: another process{f' ({who})' if who else ''} works with this checkpoint: wait until it has ended, or stop it"
        )

    taken = hold_file(folder / NAME, refusal)
    taken.write(str(taken.process))
    return taken
