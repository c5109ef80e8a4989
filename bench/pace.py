"""A stream in real time: pieces of a replay appear in a folder when their last element is due, independent of the reader.

An element's latency is measured from its intended time, even if the reader is behind, which avoids coordinated omission (Tene,
"How NOT to Measure Latency", 2013).
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from cqels_opt.windows.replay import ReplayPlan

Times = NDArray[np.int64]
Seconds = NDArray[np.float64]


@dataclass(slots=True)
class Commits:
    """The stream times up to which answers were in the sink, and when (wall-clock seconds)."""

    upto: list[int] = field(default_factory=list)
    at: list[float] = field(default_factory=list)

    def note(self, upto: int) -> None:
        """Records that everything up to a stream time is done now."""
        self.add(upto, time.time())

    def add(self, upto: int, at: float) -> None:
        """Records that everything up to a stream time was done at a wall-clock time."""
        if not self.upto or upto > self.upto[-1]:
            self.upto.append(upto)
            self.at.append(at)

    def latencies(self, t: Times, origin: float, first: int) -> Seconds:
        """Seconds from the intended time of each element (``origin`` for time ``first``) to its commit; infinite without one."""
        at = np.array([*self.at, np.inf])
        return at[np.searchsorted(np.array(self.upto, np.int64), t)] - (origin + (t - first) / 1000)


class Pace:
    """Moves the pieces of a replay into ``folder``: those before ``first`` at once, the others after :meth:`begin`."""

    def __init__(self, plan: ReplayPlan, folder: Path, first: int) -> None:
        self.plan, self.folder, self.first = plan, folder, first
        self.times = [_span(plan.path(number)) for number in range(len(plan.chunks))]
        self.origin = 0.0
        self.greatest_delay = 0.0
        self._thread: threading.Thread | None = None
        folder.mkdir(parents=True)

    def fill(self) -> None:
        """Releases the pieces before the clock begins."""
        for number, (least, _) in enumerate(self.times):
            if least < self.first:
                self._release(number)

    def begin(self) -> None:
        """Starts the clock: time ``first`` of the stream is now."""
        self.origin = time.time()
        self._thread = threading.Thread(target=self._follow, name="pace", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Waits for the last piece."""
        if self._thread is not None:
            self._thread.join()

    def greatest(self, files: Sequence[str]) -> int:
        """The greatest time in the pieces with these file names."""
        by_name = {chunk.file: span for chunk, span in zip(self.plan.chunks, self.times)}
        return max(by_name[name][1] for name in files)

    def _follow(self) -> None:
        for number, (least, greatest) in enumerate(self.times):
            if least >= self.first:
                due = self.origin + (greatest - self.first) / 1000
                time.sleep(max(0.0, due - time.time()))
                self._release(number)
                self.greatest_delay = max(self.greatest_delay, time.time() - due)

    def _release(self, number: int) -> None:
        os.link(self.plan.path(number), self.folder / self.plan.chunks[number].file)


def _span(path: Path) -> tuple[int, int]:
    t = parquet.read_table(path, columns=["t"]).column("t").to_numpy()
    return int(t.min()), int(t.max())


def files_by_batch(checkpoint: Path) -> dict[int, list[str]]:
    """The file names that each micro-batch of a streaming query with one file source has read, from Spark's source log."""
    found: dict[int, set[str]] = {}
    for log in (checkpoint / "sources" / "0").iterdir():
        if not log.name.startswith(".") and log.name.partition(".")[0].isdigit():
            for line in log.read_text(encoding="utf-8").splitlines()[1:]:  # the first line is the version
                entry = json.loads(line)
                found.setdefault(int(entry["batchId"]), set()).add(entry["path"].rsplit("/", 1)[1])
    return {batch: sorted(files) for batch, files in sorted(found.items())}
