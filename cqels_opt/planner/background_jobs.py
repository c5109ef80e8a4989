"""Where sub-results are measured and made while batches go on: one job at a time, in a thread of the driver.

A thread and not a Spark job: a job would take slots from the batches and count among theirs (DESIGN, invariant 4), and what is made is
bounded (subresults.ROW_BUDGET). numpy lets go of the interpreter's lock in its sorts and searches. The thread opens what it reads anew
and writes into a folder of its own, so it shares nothing with a batch; what it leaves is there whole or not at all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar, cast

from cqels_opt.errors import CqelsOptError

T = TypeVar("T")

THREAD = "cqels-opt sub-results"

Name: TypeAlias = "tuple[Hashable, ...]"

Start: TypeAlias = Callable[[Callable[[], None]], None]
"""Has some work done, now or later."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A job that went wrong: the reason in one line."""

    reason: str


def in_thread(work: Callable[[], None]) -> None:
    """Starts work in a thread that does not keep the process from ending."""
    threading.Thread(target=work, name=THREAD, daemon=True).start()


def at_once(work: Callable[[], None]) -> None:
    """Does work before it returns: nothing then hangs on the clock."""
    work()


class BackgroundJobs:
    """Jobs by name, with what came of them. ``folder`` takes the sub-results."""

    def __init__(self, folder: Path, start: Start = in_thread) -> None:
        self.folder, self._start = folder, start
        self._done: dict[Name, object] = {}
        self._busy: set[Name] = set()

    @property
    def busy(self) -> tuple[Name, ...]:
        """The jobs that are being done."""
        return tuple(self._busy)

    def ask(self, name: Name, work: Callable[[], T]) -> T | Failed | None:
        """What came of a job; None while it is not done. It is begun where nothing else is being done."""
        if name in self._done:
            return cast("T | Failed", self._done[name])
        if not self._busy:
            self._busy.add(name)
            self._start(lambda: self._do(name, work))
            if name in self._done:
                return cast("T | Failed", self._done[name])
        return None

    def _do(self, name: Name, work: Callable[[], object]) -> None:
        found: object = Failed("the job was stopped")
        try:
            found = work()
        except (CqelsOptError, OSError, MemoryError, ValueError) as error:  # batches go on without
            found = Failed(f"{type(error).__name__}: {error}")
        finally:
            self._done[name] = found
            self._busy.discard(name)
