"""The trace of a running job for its live page and its metrics.

The job's thread only enqueues records; drawing runs in another thread, so viewers do not slow down the job.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from queue import SimpleQueue

from prometheus_client import CollectorRegistry

from cqels_opt.errors import CqelsOptError
from cqels_opt.trace.metrics import Metrics
from cqels_opt.trace.picture import VERSION, Picture
from cqels_opt.trace.records import TraceRecord, read_trace

NEWEST = 2000
"""The number of switches per delta source, and of q-errors per relation, kept for a running job."""
DRAW_TIMEOUT = 5.0
"""Seconds for which the end of a job waits until its last batch is drawn."""
ANSWERS = 8
"""The number of cached answers, for several viewers of the same query."""


class _Signal(Enum):
    """Signals in the queue between records."""

    RESTART = "restart"
    END = "end"


@dataclass(frozen=True, slots=True)
class State:
    """The progress of the job: ``version`` increases with each update; ``batch`` is None until the first batch has ended."""

    version: int
    batch: int | None
    ended: bool


class LiveTrace:
    """The records of a running job. ``earlier`` is its trace file if it resumes from a checkpoint, read in the background."""

    def __init__(self, title: str, earlier: Path | None = None) -> None:
        self.title, self.metrics = title, Metrics(CollectorRegistry())
        self._earlier = earlier
        self._picture = Picture(NEWEST)
        self._state = State(0, None, False)
        self._problem: str | None = None
        self._changed = threading.Condition()
        self._answers: dict[str | None, tuple[int, bytes]] = {}
        self._incoming = SimpleQueue[Sequence[TraceRecord] | _Signal]()
        self._thread = threading.Thread(target=self._take, name="cqels-opt trace", daemon=True)
        self._thread.start()

    # -------------------------------------------------------------- interface for the job
    def add(self, records: Sequence[TraceRecord]) -> None:
        """Adds the records of a finished micro-batch."""
        self.metrics.add(records, time.time())
        self._incoming.put(records)

    def restart(self) -> None:
        """Discards all records so far, which the metrics would count twice."""
        self.metrics = Metrics(CollectorRegistry())
        self._incoming.put(_Signal.RESTART)

    def end(self) -> None:
        """Ends the trace: waits until its last batch is drawn, and notifies viewers."""
        self._incoming.put(_Signal.END)
        self._thread.join(DRAW_TIMEOUT)

    def _take(self) -> None:
        known: dict[str, int] = {}
        while (received := self._incoming.get()) is not _Signal.END:
            if received is _Signal.RESTART:
                with self._changed:
                    self._picture = Picture(NEWEST)
                continue
            if self._earlier is not None:  # by now the job has truncated the file to the committed length and appended to it
                self._read(self._earlier, known)
                self._earlier = None
            self._show([record for record in received if record.batch > known.get(record.query, record.batch - 1)])
        self._show((), ended=True)

    def _read(self, earlier: Path, known: dict[str, int]) -> None:
        """Reads a trace file, and the last batch of each query in it. The page reports if it cannot be read."""
        try:
            for record in read_trace(earlier):
                with self._changed:
                    self._picture.add((record,))
                known[record.query] = record.batch
        except CqelsOptError as error:
            self._problem = f"what was traced before is not shown whole: {error}"

    def _show(self, records: Sequence[TraceRecord], ended: bool = False) -> None:
        with self._changed:
            self._picture.add(records)
            self._state = State(self._state.version + 1, self._picture.batch, ended)
            self._changed.notify_all()

    # -------------------------------------------------------------- interface for viewers
    def after(self, version: int, timeout: float) -> State:
        """The first state after this version; waits for it at most ``timeout`` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._state.version > version, timeout)
            return self._state

    def json(self, query: str | None) -> bytes:
        """The data of a query, or the list of queries for None. Raises KeyError for an unknown query."""
        with self._changed:
            version = self._state.version
            if (found := self._answers.get(query)) and found[0] == version:
                return found[1]
            picture = self._picture
            if query is None:
                names = list(picture.queries)
                index = picture.index() if len(names) > 1 else []
                data = {"version": VERSION, "title": self.title, "queries": names, "index": index, "problem": self._problem}
            else:
                data = picture.query(query)
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        if len(self._answers) >= ANSWERS:
            self._answers.clear()
        self._answers[query] = version, text
        return text
