"""The files of a checkpoint in an object store where tasks run: the local copy of a process, and the paths in it that tasks get."""

from __future__ import annotations

import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from cqels_opt.state.remote_checkpoint import (
    AS_A_WHOLE,
    NOT_SAVED,
    ON_DEMAND,
    THREADS,
    RemoteFiles,
    copy_of,
    known,
    object_name,
    opened,
)
from cqels_opt.storage import disk

TIDIED_EVERY: Final = 600.0
"""Seconds after which a copy of tasks is freed of files that no longer count."""


class TaskFiles(RemoteFiles):
    """The side of a process that runs tasks. On another machine than the driver's it uploads what it writes."""

    def __init__(self, uri: str, driver: str) -> None:
        copy = copy_of(uri)
        self._apart = known(copy).get("driver") != driver
        super().__init__(uri, copy.with_name(f"{copy.name}-{driver}") if self._apart else copy)
        self.driver, self._lock = driver, threading.Lock()
        self._written: set[Path] = set()
        self._tidied = time.monotonic()
        if self._apart:
            for other in copy.parent.glob(f"{copy.name}-*"):  # of drivers before
                if other.name < self.folder.name:
                    shutil.rmtree(other, ignore_errors=True)
            for part in (*ON_DEMAND, *NOT_SAVED):
                (self.folder / part).mkdir(parents=True, exist_ok=True)

    def read(self) -> bool:
        """See :class:`RemoteFiles`. If another driver has taken over, what this one's tasks write stays theirs."""
        driver = self.driver
        try:
            return super().read()
        finally:
            self.driver = driver

    def fetch(self, path: Path) -> bool:
        """Fetches a file that is missing in the local copy, and of :data:`AS_A_WHOLE` all of its folder; False if there is none."""
        name = self.name(path)
        with self._lock:
            if path.exists():
                return True
            if not name.startswith(AS_A_WHOLE):
                return self.get(name) or (self.read() and self.get(name))
            self.read()
            folder = "/".join(name.split("/")[: 2 if name.startswith("subresults/") else 1])
            self.get_all(other for other in self.files if other.startswith(f"{folder}/") and not (self.folder / other).exists())
            return path.exists()

    def get(self, name: str) -> bool:
        """See :class:`RemoteFiles`; what was fetched is not uploaded."""
        found = super().get(name)
        self._written.discard(self.folder / name)
        return found

    def wrote(self, path: Path) -> None:
        """Notes a file for :meth:`send`."""
        if self._apart:
            self._written.add(path)

    def gone(self, path: Path) -> None:
        """What was deleted or renamed is not sent."""
        self._written.discard(path)

    def send(self) -> None:
        """Uploads what was written. FileNotFoundError if such a file is missing."""
        written, self._written = self._written, set()
        if written:
            with ThreadPoolExecutor(THREADS) as pool:
                list(pool.map(lambda path: self.store.upload(object_name(self.driver, self.name(path)), path), written))
        if self._apart and time.monotonic() - self._tidied > TIDIED_EVERY:
            self.tidy(time.time() - TIDIED_EVERY)

    def tidy(self, before: float) -> None:
        """Deletes files of batches that were written before a time, unless the newest entry names them."""
        self._tidied = time.monotonic()
        self.read()
        for part in (*ON_DEMAND, *NOT_SAVED):
            for path in (self.folder / part).glob("*"):
                with suppress(FileNotFoundError):  # another worker of this machine deletes them too
                    if self.name(path) not in self.files and path.stat().st_ctime < before:
                        disk.delete(path)


_of_tasks: Final[dict[tuple[str, str], Path]] = {}
_moved: Final[dict[str, str]] = {}  # by the folder of a driver's copy that of the copy on this machine, each with a slash


class TaskPath(str):
    """A path in a local copy. Where it is unpickled, it is that of the local copy of that machine."""

    __slots__ = ("place",)
    place: tuple[str, str, str, str]
    """The URI, the driver and its local copy, and the name in the checkpoint."""

    def __reduce__(self) -> Any:
        return _unpickled, self.place


def task_path(path: Path) -> str:
    """The path of a checkpoint's folder, or of a file in it, for a task."""
    for folder, checkpoint in opened.items():
        if path.is_relative_to(folder):
            return _task_path(path, (checkpoint.uri, checkpoint.driver, str(folder), checkpoint.name(path)))
    return str(path)


def _task_path(path: Path, place: tuple[str, str, str, str]) -> TaskPath:
    found = TaskPath(path)
    found.place = place
    return found


def _unpickled(uri: str, driver: str, copy: str, name: str) -> TaskPath:
    folder = next((folder for folder, found in opened.items() if found.uri == uri and found.driver == driver), None)
    folder = folder or _of_tasks.get((uri, driver))
    if folder is None:
        files = TaskFiles(uri, driver)
        disk.add_replica(files.folder, files)
        folder = _of_tasks[uri, driver] = files.folder
        _moved[f"{copy}{os.sep}"] = f"{folder}{os.sep}"
    return _task_path(folder / name, (uri, driver, copy, name))


def here(path: str) -> str:
    """A path that the driver has given as one in its local copy, in that of this machine. Compiled programs have such paths."""
    for before, now in _moved.items():
        if path.startswith(before):
            return now + path[len(before) :]
    return path
