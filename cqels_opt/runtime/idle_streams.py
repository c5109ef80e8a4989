"""Idle streams, and idle partitions of streams, which no longer hold the frontier back (SEMANTICS §4).

This depends on the wall clock, not on the elements. Therefore each decision is written to the checkpoint before the batch that it
affects, and a batch that runs again uses the decision made for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from cqels_opt.state.commit_log import KEEP
from cqels_opt.storage import disk, documents

FOLDER = "idle"


class IdleStreams:
    """Decides for each batch which streams are idle: those without elements for ``timeout`` milliseconds of wall clock.

    The clock of a stream starts with the run, and again with every batch that has elements of it, also late ones. The same holds
    for each partition of a stream that is not idle.
    """

    def __init__(self, timeout: int, folder: Path, streams: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self.timeout, self.folder, self._clock = timeout, folder / FOLDER, clock
        disk.make_folder(self.folder)
        self._last: dict[str | int, float] = dict.fromkeys(streams, clock())

    def decide(self, batch: int, brought: Collection[str | int], partitions: Mapping[int, str]) -> frozenset[str | int]:
        """The idle streams and partitions of a batch, which has elements of ``brought``. The decision is on disk on return.

        ``partitions`` are those seen so far, each with its stream.
        """
        now = self._clock()
        self._last |= dict.fromkeys(brought, now)
        for number in partitions:
            self._last.setdefault(number, now)
        path = self.folder / f"{batch:08d}.json"
        if path.exists():
            return self._read(path)
        idle = {key for key, last in self._last.items() if key not in brought and 1000 * (now - last) >= self.timeout}
        found = frozenset(key for key in idle if not isinstance(key, int) or partitions.get(key) not in idle)
        disk.write_atomically(path, documents.encode(path.name, sorted(found, key=str)))
        for old in sorted(self.folder.glob("[0-9]*.json"))[: -KEEP - 1]:
            disk.delete(old)
        return found

    def _read(self, path: Path) -> frozenset[str | int]:
        with documents.naming_damage(path):
            return frozenset(documents.decode(path.name, disk.read(path)))
