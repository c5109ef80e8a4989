"""Streams that are idle: which of them are let go, so that they hold the frontier back no longer (SEMANTICS §4).

That hangs on the wall clock and on nothing in the elements. So each decision is written to the checkpoint before the batch that it affects,
and a batch that runs again takes the decision that was made for it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from cqels_opt.errors import CheckpointError
from cqels_opt.operators.commit import KEEP, durable_write

FOLDER = "idle"


class IdleStreams:
    """Decides, a batch, which streams are let go: those that have brought nothing for ``timeout`` milliseconds of wall clock.

    The clock of a stream begins with the run, and anew with every batch that brings elements of it, late ones too.
    """

    def __init__(self, timeout: int, folder: Path, streams: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self.timeout, self.folder, self._clock = timeout, folder / FOLDER, clock
        self.folder.mkdir(parents=True, exist_ok=True)
        self._last = dict.fromkeys(streams, clock())

    def decide(self, batch: int, brought: Collection[str]) -> frozenset[str]:
        """The streams that are let go in a batch, which has brought elements of some. The decision is on disk when this returns."""
        now = self._clock()
        self._last |= dict.fromkeys(brought, now)
        path = self.folder / f"{batch:08d}.json"
        if path.exists():
            return self._read(path)
        found = frozenset(s for s, last in self._last.items() if s not in brought and 1000 * (now - last) >= self.timeout)
        durable_write(path, json.dumps(sorted(found)))
        for old in sorted(self.folder.glob("[0-9]*.json"))[: -KEEP - 1]:
            old.unlink()
        return found

    def _read(self, path: Path) -> frozenset[str]:
        try:
            return frozenset(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise CheckpointError(f"{path}: the checkpoint is damaged ({error}); use another folder") from error
