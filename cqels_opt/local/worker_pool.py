"""Several processes for the tasks of large batches. They start after the first batch that takes long enough for them to pay."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import cloudpickle
import pyarrow as pa

from cqels_opt.errors import EngineWarning
from cqels_opt.local.worker import Outcome, outcome_of, send
from cqels_opt.runtime.evaluate_task import EvaluateTask
from cqels_opt.runtime.growing_files import LinesBatch
from cqels_opt.runtime.ingest import IngestReport, IngestTask
from cqels_opt.runtime.interfaces import StageReports
from cqels_opt.runtime.live_files import FileBatch
from cqels_opt.runtime.local_runner import LocalRunner

T = TypeVar("T")

PAYS = 0.25
"""Seconds that the tasks of a batch take before processes are started, each of which imports the engine for about two seconds."""


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class PoolRunner(LocalRunner):
    """Runs the tasks of small batches in this process, and those of large ones in up to ``processes``, of which this is one.

    The processes belong to the runner: :meth:`close` ends them, and so does the end of this process, however it ends.
    """

    def __init__(self, processes: int) -> None:
        super().__init__()
        self._most = processes
        self._workers: list[_Worker] = []
        self._seconds = 0.0  # of the batch's tasks

    def begin(self, batch: int, queries: Sequence[str] = ()) -> None:
        """Starts the processes, if the last batch took long enough; uses them from the batch on in which all have started."""
        super().begin(batch, queries)
        if any(worker.ended for worker in self._workers):
            warnings.warn(
                "a process of the local engine has ended: its tasks run in this process from now on", EngineWarning, stacklevel=2
            )
            self.close()
            self._most = 1
        elif self._seconds > PAYS and not self._workers:
            self._workers = [_Worker() for _ in range(self._most - 1)]
        if all(worker.ready for worker in self._workers):
            self.parallelism = 1 + len(self._workers)
        self._seconds = 0.0

    def ingest(self, rows: pa.Table | Path | FileBatch | LinesBatch, task: IngestTask) -> list[IngestReport]:
        """See :meth:`LocalRunner.ingest`."""
        with self._timed():
            return super().ingest(rows, task)

    def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> StageReports:
        """See :meth:`LocalRunner.evaluate`."""
        with self._timed():
            return super().evaluate(tasks, parts)

    def close(self) -> None:
        """Ends the processes."""
        for worker in self._workers:
            worker.close()
        self._workers, self.parallelism = [], 1

    @contextmanager
    def _timed(self) -> Iterator[None]:
        begun = time.monotonic()
        yield
        self._seconds += time.monotonic() - begun

    def _run(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """The results of functions, in order; the first one runs in this process. Raises the first error, once all have ended."""
        if len(works) < 2 or self.parallelism == 1:
            return super()._run(works)
        outcomes: list[Outcome] = []
        for first in range(0, len(works), self._most):
            here, *others = works[first : first + self._most]
            for worker, work in zip(self._workers, others, strict=False):
                worker.begin(work)
            outcomes.append(outcome_of(here))
            outcomes += [worker.outcome(work) for worker, work in zip(self._workers, others, strict=False)]
        for succeeded, found in outcomes:
            if not succeeded:
                raise found
        return [found for _, found in outcomes]


class _Worker:
    """A process that runs one function after the other; this process runs what it did not end."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", "from cqels_opt.local.worker import main; main()"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(place or str(Path.cwd()) for place in sys.path)}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._tasks, self._replies = self._process.stdin, self._process.stdout
        self._started = threading.Event()
        self._starting = threading.Thread(target=self._await, name="cqels-opt process", daemon=True)
        self._starting.start()

    def _await(self) -> None:
        with suppress(EOFError, pickle.UnpicklingError):  # it has ended
            self._received()
            self._started.set()

    @property
    def ready(self) -> bool:
        """Whether the process has imported the engine and waits for functions."""
        return self._started.is_set()

    @property
    def ended(self) -> bool:
        """Whether the process has ended: it was killed, or could not start."""
        return self._process.poll() is not None

    def begin(self, work: Callable[[], Any]) -> None:
        """Sends a function."""
        with suppress(OSError):  # outcome() finds that the process has ended
            send(self._tasks, cloudpickle.dumps(work))

    def outcome(self, work: Callable[[], Any]) -> Outcome:
        """Waits for the outcome of the function that was sent."""
        try:
            found: Outcome = self._received()
        except Exception:  # noqa: BLE001 - it ended before or within its reply, or an exception in it cannot be unpickled
            self._process.kill()  # the rest of a reply is no reply
            return outcome_of(work)
        return found

    def _received(self) -> Any:
        return pickle.load(self._replies)

    def close(self) -> None:
        """Ends the process, also within a function."""
        with suppress(OSError):
            self._tasks.close()
        self._process.wait()
        self._starting.join()  # it reads the replies
        self._replies.close()
