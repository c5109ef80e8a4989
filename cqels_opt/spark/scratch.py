"""Temporary files of a process and of its JVM: one folder, removed when the process ends.

A killed process cannot remove its folder, but its lock is released; the next process removes folders without a lock.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO

from cqels_opt.storage.locks import taken_lock

PREFIX = "cqels-opt-"
LOCK = ".lock"
_OURS = re.compile(rf"{PREFIX}\d+-\w{{8}}")


@contextmanager
def scratch_folder(name: str = "run") -> Iterator[Path]:
    """A new folder for temporary files, until the block ends."""
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=process_folder()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def process_folder() -> Path:
    """The folder of this process, in the system's temporary folder. The first call removes the folders of killed processes."""
    return _process_folder(os.getpid())


@lru_cache(maxsize=1)
def _process_folder(process: int) -> Path:
    place = Path(tempfile.gettempdir())
    remove_dead(place)
    folder, lock = claim(place, process)
    atexit.register(_remove, folder, lock, process)
    return folder


def claim(place: Path, process: int) -> tuple[Path, IO[bytes]]:
    """A new folder and its lock, which is held while the file is open."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{process}-", dir=place))
        with suppress(FileNotFoundError):  # another process considered it dead and removed it
            lock = (folder / LOCK).open("xb")
            if _locked(lock) is not False and (folder / LOCK).exists():
                return folder, lock
            lock.close()


def remove_dead(place: Path) -> None:
    """Removes the folders of dead processes."""
    for folder in place.iterdir():
        if _OURS.fullmatch(folder.name):
            with suppress(OSError):  # it belongs to another user or was just removed
                _remove_if_dead(folder)


def _remove_if_dead(folder: Path) -> None:
    if not (folder / LOCK).exists():
        folder.rmdir()  # empty if the process was killed before it had the lock
        return
    with (folder / LOCK).open("ab") as lock:
        if _locked(lock):
            shutil.rmtree(folder, ignore_errors=True)


def _locked(lock: IO[bytes]) -> bool | None:
    """Whether the lock was free; None on a file system without locks, where no process is known to be dead."""
    try:
        return taken_lock(lock)
    except OSError:
        return None


def _remove(folder: Path, lock: IO[bytes], process: int) -> None:
    if os.getpid() == process:  # not in a fork
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()
