"""A rival in a process of its own: it prepares a query, then processes one micro-batch per request, and measures itself."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path

from cqels_opt.bench.apart import empty_folder
from cqels_opt.bench.circumstances import cpu_seconds, descendants
from cqels_opt.bench.contenders import Contender, Done, Given, StoppedError, Task, UnsupportedError, find
from cqels_opt.bench.measure import Ran

START, PREPARE, STEP, FINISH = "start", "prepare", "step", "finish"
"""What the harness sends: a tuple of one of these verbs and the task that is to be prepared, or None."""


@dataclass(slots=True)
class Measured:
    """A rival on one query.

    ``ran`` has its answers and the wall-clock milliseconds of each batch, ``cpu`` the CPU milliseconds of each batch in this process
    and all that it started, ``peak_mb`` their peak resident memory, ``first_answer`` the seconds of work (preparation included) until
    the first batch with answers was done. A ``whole`` rival runs all batches at once, so that its CPU time is that of the first.
    ``unfinished``: it stopped within the last batch.
    """

    ran: Ran
    cpu: list[float] = field(default_factory=list)
    peak_mb: float = 0.0
    first_answer: float | None = None
    whole: bool = False
    unfinished: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """The end of a request: whether the rival has ended, and the CPU seconds of the query so far."""

    ended: bool = False
    cpu_seconds: float = 0.0
    measured: Measured | None = None


def serve(connection: Connection, name: str, more: Sequence[Given], folder: Path) -> None:
    """Answers requests until the harness closes the connection."""
    (contender,) = (one for one in find((name,), more) if one.name == name)
    worker = _Worker(contender, folder)
    while True:
        try:
            verb, task = connection.recv()
        except EOFError:
            worker.close()
            return
        connection.send(worker.reply(verb, task))


class _Worker:
    def __init__(self, contender: Contender, folder: Path) -> None:
        self.contender, self.folder = contender, folder / "run"
        self.shared = empty_folder(folder / "shared")  # of this process alone, as others may derive the same at the same time
        self._run: Iterator[Done | None] | None = None
        self._found = Measured(Ran(contender.name))

    def reply(self, verb: str, task: Task | None) -> Reply:
        """Does what is requested."""
        if verb == START:
            return Reply()
        if verb == FINISH:
            self._found.peak_mb = _peak_mb()  # while the processes below it still run
            self.close()
            return Reply(True, measured=self._found)
        try:
            if verb == PREPARE:
                assert task is not None
                self._prepare(task)
            else:
                self._step()
        except StoppedError as error:
            self._found.ran.why, self._found.ran.upto = str(error), error.upto
            self.close()
        except Exception as error:  # noqa: BLE001 - a rival that fails is reported, the others continue
            unsupported = isinstance(error, UnsupportedError)
            self._found.ran.why = str(error) if unsupported else f"failed: {type(error).__name__}: {error}"
            self.close()
        return Reply(self._found.ran.why is not None, sum(self._found.cpu) / 1000)

    def close(self) -> None:
        """Ends the run, which frees what it has."""
        if self._run is not None:
            self._run.close()  # type: ignore[attr-defined]
            self._run = None

    def _prepare(self, task: Task) -> None:
        self.close()
        _reset_peak()
        self._found = Measured(Ran(self.contender.name, answers=self.contender.answers), whole=self.contender.apart)
        began = time.perf_counter()
        self._run = self.contender.run(replace(task, shared=self.shared), empty_folder(self.folder))
        if next(self._run) is not None:
            raise AssertionError(f"{self.contender.name} gives a result before it is ready")
        self._found.ran.prepared = time.perf_counter() - began

    def _step(self) -> None:
        assert self._run is not None
        clock = _Clock()
        while (done := next(self._run)) is None:
            clock = _Clock()
        milliseconds, cpu = clock.read()
        found = self._found
        found.ran.take(done, milliseconds)
        found.cpu.append(cpu)
        if found.first_answer is None and found.ran.bag.total:
            found.first_answer = found.ran.prepared + sum(found.ran.milliseconds) / 1000
        if done.stopped is not None:
            found.unfinished = True
            raise done.stopped


class _Clock:
    """Wall-clock and CPU time since it was made."""

    def __init__(self) -> None:
        self._below = _cpu_below()
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def read(self) -> tuple[float, float]:
        """Milliseconds of wall-clock time, and of CPU time."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return 1000 * wall, 1000 * (cpu + _cpu_below() - self._below)


def _cpu_below() -> float:
    """The CPU seconds of the processes below this one, also of those that have ended."""
    used, ended = cpu_seconds(os.getpid()), resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.jvm + used.workers + ended.ru_utime + ended.ru_stime


def _reset_peak() -> None:
    """Peak memory counts from here, also that of the processes below (Linux, proc(5): 5 resets the peak resident set)."""
    for process in (os.getpid(), *descendants(os.getpid())):
        with suppress(OSError):  # it has ended in the meantime
            Path(f"/proc/{process}/clear_refs").write_text("5", encoding="ascii")


def _peak_mb() -> float:
    """The peak resident memory of this process and of those below it, each at its own peak."""
    total = 0
    for process in (os.getpid(), *descendants(os.getpid())):
        status = Path(f"/proc/{process}/status")
        lines = status.read_text(encoding="ascii", errors="replace").splitlines() if status.exists() else []
        total += sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return total / 1024
