"""Temporary files of a process and of its JVM: one folder, which goes when the process ends.

A process that is killed cannot remove its folder. It loses the lock of it, and the next process removes what nobody has locked.
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
    """The folder of this process, below that for temporary files. The first call removes those of processes that were killed."""
    return _process_folder(os.getpid())


@lru_cache(maxsize=1)
def _process_folder(process: int) -> Path:
    place = Path(tempfile.gettempdir())
    remove_dead(place)
    folder, lock = claim(place, process)
    atexit.register(_remove, folder, lock, process)
    return folder


def claim(place: Path, process: int) -> tuple[Path, IO[bytes]]:
    """A new folder and its lock, which is held as long as the file is open."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{process}-", dir=place))
        with suppress(FileNotFoundError):  # who removes dead folders has taken it for one
            lock = (folder / LOCK).open("xb")
            if _locked(lock) is not False and (folder / LOCK).exists():
                return folder, lock
            lock.close()


def remove_dead(place: Path) -> None:
    """Removes the folders of processes that live no longer."""
    for folder in place.iterdir():
        if _OURS.fullmatch(folder.name):
            with suppress(OSError):  # another user's, or somebody else has just removed it
                _remove_if_dead(folder)


def _remove_if_dead(folder: Path) -> None:
    if not (folder / LOCK).exists():
        folder.rmdir()  # it is empty where a process was killed before it had the lock
        return
    with (folder / LOCK).open("ab") as lock:
        if _locked(lock):
            shutil.rmtree(folder, ignore_errors=True)


def _locked(lock: IO[bytes]) -> bool | None:
    """Whether the lock could be taken; None on a file system without locks, where no folder is known to be of a dead process."""
    try:
        return taken_lock(lock)
    except OSError:
        return None


def _remove(folder: Path, lock: IO[bytes], process: int) -> None:
    if os.getpid() == process:  # a fork is another process
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()
