"""Runs a workload: a process per rival, all of them prepared on one query, then one micro-batch each in turn.

Only one rival works at a time; their order is random in each batch. Rivals have their limits in CPU seconds, which do not depend
on what else the machine does.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from cqels_opt.bench import apart
from cqels_opt.bench.arena.worker import FINISH, PREPARE, START, STEP, Measured, Reply, serve
from cqels_opt.bench.contenders import Contender, Given, Task
from cqels_opt.bench.measure import Ran, final_times, order

LONGEST = 1_800.0
"""Wall-clock seconds after which an engine that does not end a micro-batch is killed; a rival's own process after twice as many."""


@dataclass(slots=True)
class _Process:
    connection: Connection
    process: BaseProcess


class Rivals:
    """The processes of the rivals of a workload. One that ends is replaced for the next query."""

    def __init__(self, contenders: Sequence[Contender], more: Sequence[Given], folder: Path) -> None:
        self._contenders, self._more, self._folder = contenders, more, folder
        self._processes: dict[str, _Process] = {}

    @property
    def names(self) -> list[str]:
        """All rivals, in order."""
        return [contender.name for contender in self._contenders]

    def ask(self, name: str, verb: str, task: Task | None = None) -> Reply | str:
        """A rival's reply, or why there is none."""
        if name not in self._processes:
            self._start(name)
        running = self._processes[name]
        why = "its process ended"
        try:
            running.connection.send((verb, task))
            if running.connection.poll(2 * LONGEST):
                reply: Reply = running.connection.recv()
                return reply
            apart.kill(running.process)
            why = f"its process gave no reply for {2 * LONGEST:g} s and was killed"
        except (EOFError, BrokenPipeError, ConnectionResetError):
            running.process.join()
        del self._processes[name]
        return why

    def start(self) -> None:
        """Starts the processes that do not run yet, all at the same time, and waits for them."""
        for name in (name for name in self.names if name not in self._processes):
            self._start(name)
        for name in self.names:
            self.ask(name, START)

    def _start(self, name: str) -> None:
        ours, theirs = multiprocessing.Pipe()
        process = apart.start(serve, theirs, name, list(self._more), self._folder / name)
        theirs.close()
        self._processes[name] = _Process(ours, process)

    def close(self) -> None:
        """Ends all processes; what does not end within ten seconds is killed."""
        for running in self._processes.values():
            running.connection.close()
        for running in self._processes.values():
            running.process.join(10)
            if running.process.is_alive():
                apart.kill(running.process)


@contextmanager
def rivals(contenders: Sequence[Contender], more: Sequence[Given], folder: Path) -> Iterator[Rivals]:
    """Processes that end with the block."""
    found = Rivals(contenders, more, folder)
    try:
        yield found
    finally:
        found.close()


def measured(task: Task, among: Rivals, limit: float, progress: Callable[[str], Any] = lambda _: None) -> Mapping[str, Measured]:
    """All rivals on one query, by name. A rival that exceeds ``limit`` CPU seconds is stopped after its batch."""
    finals = final_times(task)
    stopped: dict[str, tuple[str, int]] = {}
    failed: dict[str, str] = {}
    live: list[str] = []
    for name in among.names:
        progress(f"{task.query}: {name} prepares")
        reply = among.ask(name, PREPARE, replace(task, limit=LONGEST))
        if isinstance(reply, str):
            failed[name] = f"{reply} while it prepared"
        elif not reply.ended:
            live.append(name)
    for number in range(len(finals)):
        progress(f"{task.query}: micro-batch {number + 1} of {len(finals)}")
        for name in order(live, number):
            reply = among.ask(name, STEP)
            if isinstance(reply, str):
                failed[name] = f"{reply} in micro-batch {number + 1}"
            elif not reply.ended and reply.cpu_seconds > limit and number < len(finals) - 1:
                stopped[name] = (
                    f"stopped after {number + 1} of {len(finals)} micro-batches: over {limit:g} CPU seconds",
                    finals[number],
                )
            if isinstance(reply, str) or reply.ended or name in stopped:
                live.remove(name)
    return {name: _finished(name, among, failed, stopped) for name in among.names}


def _finished(name: str, among: Rivals, failed: Mapping[str, str], stopped: Mapping[str, tuple[str, int]]) -> Measured:
    reply = failed[name] if name in failed else among.ask(name, FINISH)
    if isinstance(reply, str):
        return Measured(Ran(name, why=f"failed: {reply}"))
    assert reply.measured is not None
    if name in stopped:
        reply.measured.ran.why, reply.measured.ran.upto = stopped[name]
    return reply.measured
