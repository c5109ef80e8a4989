"""One process works with a checkpoint at a time."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from threading import Lock
from weakref import WeakValueDictionary

from cqels_opt.errors import CheckpointError
from cqels_opt.lod.target import taken_lock

NAME = ".lock"
_held: WeakValueDictionary[Path, Hold] = WeakValueDictionary()
_taking = Lock()


class Hold:
    """A checkpoint's lock, which this process has as long as something here refers to it; the system gives back a dead process's."""

    def __init__(self, folder: Path) -> None:
        self.process = os.getpid()
        self._file = (folder / NAME).open("a+", encoding="utf-8")
        try:
            taken = taken_lock(self._file)
        except OSError:  # a file system without locks: whoever starts two processes there is not told
            return
        if not taken:
            self._file.seek(0)
            who = self._file.read().strip()
            self._file.close()
            raise CheckpointError(
                f"{folder}: another process{f' ({who})' if who else ''} works with this checkpoint: wait until it has ended, or stop it"
            )
        self._file.truncate(0)
        self._file.write(str(self.process))
        self._file.flush()

    def __del__(self) -> None:
        with suppress(AttributeError):  # where the file could not be opened
            self._file.close()


def hold(folder: Path) -> Hold:
    """Takes a checkpoint for this process, which may open it several times. CheckpointError where another process has it."""
    path = folder.resolve()
    with _taking:
        found = _held.get(path)
        if found is None or found.process != os.getpid():  # a fork has its own
            found = _held[path] = Hold(path)
        return found
