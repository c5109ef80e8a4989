"""The input of a run by micro-batch: the chunks of a replay, new files in live folders, or new lines of files that grow."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.files_read import FilesRead
from cqels_opt.runtime.growing_files import GrowingFiles, LinesBatch, ReadLog, are_growing
from cqels_opt.runtime.live_files import MOST_BYTES, FileBatch, batch_of
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.state.commit_log import SPARK
from cqels_opt.state.source_log import SourceLog


class Input(Protocol):
    """What micro-batches read."""

    poll: float
    """Seconds between two readings of an input that has nothing new."""

    def rows(self, number: int) -> Path | FileBatch | LinesBatch | None:
        """The input of a micro-batch; None: there is none now."""

    def committed(self, number: int) -> None:
        """A micro-batch has been committed."""

    @property
    def ends(self) -> bool:
        """Whether the input ends where there is none."""


class Chunks:
    """A replay: batch k is chunk k."""

    ends, poll = True, 0.0

    def __init__(self, chunks: Sequence[Path]) -> None:
        self._chunks = chunks

    def rows(self, number: int) -> Path | None:
        """The chunk of a micro-batch."""
        return self._chunks[number] if number < len(self._chunks) else None

    def committed(self, number: int) -> None:
        """Nothing: the commit record says which chunks were read."""


class Folders:
    """Live folders. ``to_the_end``: the input ends after the current files."""

    def __init__(
        self,
        driver: Driver,
        folders: Sequence[tuple[int, Path]],
        time_predicate: str,
        to_the_end: bool,
        most: int,
    ) -> None:
        self.poll = 0.05
        self._log = SourceLog(driver.folder / SPARK, folders, most)  # the log of Spark's job, so that Spark can continue
        self._driver, self._time_predicate, self.ends = driver, time_predicate, to_the_end

    def rows(self, number: int) -> FileBatch | None:
        """The files of a micro-batch."""
        files = self._log.files(number)
        return None if files is None else batch_of(files, self._driver.frontier, self._time_predicate)

    def committed(self, number: int) -> None:
        """Logs the batch, so that Spark continues after it."""
        self._log.committed(number)


BUSY: Final = 0.001
"""Seconds between two checks of files that grow."""

IDLE: Final = 0.01
"""The same after a second without new lines, so that an idle run takes little of a core."""


class Growing:
    """Files that grow. ``to_the_end``: the input ends after the current lines."""

    def __init__(self, driver: Driver, files: GrowingFiles, to_the_end: bool = False) -> None:
        self._driver, self._files, self.ends, self.poll = driver, files, to_the_end, BUSY
        self._last = time.monotonic()  # when there were new lines
        self._log = None if driver.idle is None else ReadLog(driver.folder)

    def rows(self, number: int) -> LinesBatch | None:
        """The new lines of the files."""
        upto = None if self._log is None else self._log.of(number)
        found, now = self._files.batch(self._driver.frontier, upto), time.monotonic()
        if found is not None:
            self._last = now
            if self._log is not None and upto is None:
                with self._driver.log.working():
                    self._log.write(number, self._files.seen)
        self.poll = BUSY if now - self._last < 1.0 else IDLE
        return found

    def committed(self, number: int) -> None:
        """Nothing: the commit record says how far the files were read."""


def live_input(
    places: Sequence[tuple[int, Path]],
    make: Callable[[DriverOptions], Driver],
    folder: Path,
    options: DriverOptions,
    time_predicate: str,
    *,
    to_the_end: bool = False,
    most: int = MOST_BYTES,
) -> tuple[Driver, Folders | Growing]:
    """The driver of live sources and its input: files of lines that grow if all ``places`` are files, else folders.

    ``folder`` is that of the checkpoint.
    """
    if are_growing(places):
        lines = GrowingFiles(places)
        driver = make(replace(options, files=lines))
        return driver, Growing(driver, lines, to_the_end)
    files = FilesRead(places, folder)
    driver = make(replace(options, files=files, waiting=lambda *_: (None, files.waiting)))
    return driver, Folders(driver, places, time_predicate, to_the_end, most)
