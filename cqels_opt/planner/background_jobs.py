"""Background jobs: sub-results are measured and built while batches run, one job at a time, in a thread of the driver.

It is a thread and not a Spark job. A Spark job would take slots from the batches and count as one of theirs (DESIGN, invariant 4), and
the size of a sub-result is bounded (``static_subpatterns.ROW_BUDGET``). numpy releases the interpreter's lock in its sorts and searches.
The thread opens its own files and writes into its own folder; a result is complete or absent. With a batch it shares only what threads
may share: caches (:mod:`cqels_opt.storage.shared_cache`), and which blocks of files have been verified (:mod:`cqels_opt.storage.checksum`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar, cast

from cqels_opt.errors import CqelsOptError
from cqels_opt.storage.shared_cache import SharedCache

T = TypeVar("T")

THREAD = "cqels-opt sub-results"

MOST_RESULTS = 256
"""Results that are kept; queries that are added and removed ask for more and more of them."""

Name: TypeAlias = "tuple[Hashable, ...]"

Start: TypeAlias = Callable[[Callable[[], None]], None]
"""Runs some work, now or later."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A job that failed: the reason in one line."""

    reason: str


def in_thread(work: Callable[[], None]) -> None:
    """Starts work in a daemon thread, which does not keep the process alive."""
    threading.Thread(target=work, name=THREAD, daemon=True).start()


def at_once(work: Callable[[], None]) -> None:
    """Runs work before it returns, so that a run is deterministic."""
    work()


class BackgroundJobs:
    """Jobs by name, with their results. ``folder`` is where sub-results are written.

    All queries of a run ask for jobs, so a name has all that the result depends on.
    """

    def __init__(self, folder: Path, start: Start) -> None:
        self.folder, self._start = folder, start
        self._done: SharedCache[Name, object] = SharedCache(MOST_RESULTS)
        self._busy: set[Name] = set()

    @property
    def busy(self) -> tuple[Name, ...]:
        """The jobs that are running."""
        return tuple(self._busy)

    def ask(self, name: Name, work: Callable[[], T]) -> T | Failed | None:
        """The result of a job; None until it is done. The job is started if no other is running."""
        if name in self._done:
            return cast("T | Failed", self._done[name])
        if not self._busy:
            self._busy.add(name)
            try:
                self._start(lambda: self._do(name, work))
            except RuntimeError:  # no thread can be started; the job is asked for again
                self._busy.discard(name)
            if name in self._done:
                return cast("T | Failed", self._done[name])
        return None

    def _do(self, name: Name, work: Callable[[], object]) -> None:
        found: object = Failed("the job was stopped")
        try:
            found = work()
        except (CqelsOptError, OSError, MemoryError, ValueError) as error:  # batches continue without the result
            found = Failed(f"{type(error).__name__}: {error}")
        finally:
            self._done[name] = found
            self._busy.discard(name)
