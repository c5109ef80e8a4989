"""The trace of a running job, for those who look on: the page, the metrics.

Records come in from the job's own thread, which hands them over and goes on: what is drawn, and for whom, costs the job nothing.
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

from cqels_opt.errors import CqelsOptError
from cqels_opt.trace.metrics import Metrics
from cqels_opt.trace.picture import VERSION, Picture
from cqels_opt.trace.records import TraceRecord, read_trace

NEWEST = 2000
"""Switches of a delta source, and q-errors of a relation, that are kept of a running job."""
LAST_WORDS = 5.0
"""Seconds for which the end of a job waits until its last batch is drawn."""
ANSWERS = 8
"""Kept for those who look at the same query."""


class _Signal(Enum):
    """What comes between the records."""

    ANEW = "anew"
    END = "end"


@dataclass(frozen=True, slots=True)
class State:
    """How far the job is: ``version`` counts what has come in, ``batch`` is None before the first one has ended."""

    version: int
    batch: int | None
    ended: bool


class LiveTrace:
    """What a running job has recorded so far. ``earlier`` is its trace file where it goes on from a checkpoint: read in the background."""

    def __init__(self, title: str, earlier: Path | None = None) -> None:
        self.title, self.metrics = title, Metrics()
        self._earlier = earlier
        self._picture = Picture(NEWEST)
        self._state = State(0, None, False)
        self._problem: str | None = None
        self._changed = threading.Condition()
        self._answers: dict[str | None, tuple[int, bytes]] = {}
        self._incoming = SimpleQueue[Sequence[TraceRecord] | _Signal]()
        self._thread = threading.Thread(target=self._take, name="cqels-opt trace", daemon=True)
        self._thread.start()

    # -------------------------------------------------------------- the job's side
    def add(self, records: Sequence[TraceRecord]) -> None:
        """Takes the records of a micro-batch that has ended."""
        self.metrics.add(records, time.time())
        self._incoming.put(records)

    def begin_anew(self) -> None:
        """What has come so far does not count any more."""
        self._incoming.put(_Signal.ANEW)

    def end(self) -> None:
        """The job has ended: waits until its last batch is drawn, and tells those who look on."""
        self._incoming.put(_Signal.END)
        self._thread.join(LAST_WORDS)

    def _take(self) -> None:
        known: dict[str, int] = {}
        while (came := self._incoming.get()) is not _Signal.END:
            if came is _Signal.ANEW:
                with self._changed:
                    self._picture = Picture(NEWEST)
                continue
            if self._earlier is not None:  # by now the job has cut the file back to what is committed, and gone on with it
                self._read(self._earlier, known)
                self._earlier = None
            self._show([record for record in came if record.batch > known.get(record.query, record.batch - 1)])
        self._show((), ended=True)

    def _read(self, earlier: Path, known: dict[str, int]) -> None:
        """The records of a trace file, and the last batch of each query that it knows. That it cannot be read is said in the page."""
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

    # -------------------------------------------------------------- those who look on
    def after(self, version: int, timeout: float) -> State:
        """The state after this version: waits for it, at most so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._state.version > version, timeout)
            return self._state

    def json(self, query: str | None) -> bytes:
        """The data of a query; without one, which queries there are. Raises KeyError where there is no such query."""
        with self._changed:
            version = self._state.version
            if (found := self._answers.get(query)) and found[0] == version:
                return found[1]
            picture = self._picture
            if query is None:
                data = {"version": VERSION, "title": self.title, "queries": list(picture.queries), "problem": self._problem}
            else:
                data = picture.query(query)
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        if len(self._answers) >= ANSWERS:
            self._answers.clear()
        self._answers[query] = version, text
        return text
