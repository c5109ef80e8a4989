"""Deletion of files that a commit no longer needs, while Spark prepares the next batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from cqels_opt.state import remote_checkpoint
from cqels_opt.storage import sealed_files

FEW = 8
"""Files that are deleted at once: a thread costs more."""


def delete(folder: Path, paths: Collection[str]) -> None:
    """Deletes files of a folder; of the copy of a checkpoint in an object store, there too."""
    for path in paths:
        sealed_files.delete(folder / path)
    if (remote := remote_checkpoint.of_folder(folder)) is not None:
        remote.deleted(paths)


class Deletion:
    """Deletes files of a folder. Files that a killed process did not delete are deleted when the state is opened again."""

    def __init__(self, folder: Path, start: Callable[[Callable[[], None]], None]) -> None:
        self.folder, self._start = folder, start
        self._ended = threading.Event()
        self._ended.set()
        self._failed: OSError | None = None

    def begin(self, paths: Iterable[str]) -> None:
        """Deletes files, after those of the last call. An error is raised here if deletion has ended, else by :meth:`wait`."""
        self.wait()
        mine = sorted(paths)
        if mine:
            self._ended.clear()
            if len(mine) <= FEW:
                self._delete(mine)
            else:
                try:
                    self._start(lambda: self._delete(mine))
                except RuntimeError:  # no thread can be started
                    self._delete(mine)
            if self._ended.is_set():
                self.wait()

    def wait(self) -> None:
        """Waits until the files are deleted; raises the error if that failed."""
        self._ended.wait()
        failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def _delete(self, paths: Collection[str]) -> None:
        try:
            delete(self.folder, paths)
        except OSError as error:
            self._failed = error
        finally:
            self._ended.set()
