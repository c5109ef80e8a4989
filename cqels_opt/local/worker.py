"""A process that runs tasks for the local engine: it reads them from its input, and writes what they give to its output.

It ends with its input, even within a task: nothing of a run that was killed writes into the checkpoint of the next one.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import IO, Any, TypeAlias

from cqels_opt.runtime import local_runner  # noqa: F401 - tasks need it: the process is ready once it is imported
from cqels_opt.storage import disk

Outcome: TypeAlias = tuple[bool, Any]
"""Whether a function succeeded, and its result or its exception."""


def outcome_of(work: Callable[[], Any]) -> Outcome:
    """Runs a function."""
    try:
        return True, work()
    except Exception as error:  # noqa: BLE001 - the process that asked for it raises it
        return False, error


def send(file: IO[bytes], message: object) -> None:
    """Writes a pickled message."""
    pickle.dump(message, file, pickle.HIGHEST_PROTOCOL)
    file.flush()


def serve(tasks: IO[bytes], replies: IO[bytes]) -> None:
    """Runs one task after the other, and replies with its outcome. The first message says that the process is ready."""
    waiting: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive, args=(tasks, waiting), name="cqels-opt tasks", daemon=True).start()
    send(replies, True)
    while True:
        found = outcome_of(partial(_perform, waiting.get()))
        disk.sync_written(disk.machine())  # the engine's commit makes the files durable
        send(replies, found)


def _perform(work: bytes) -> Any:
    return pickle.loads(work)()


def _receive(tasks: IO[bytes], waiting: SimpleQueue[bytes]) -> None:
    while True:
        try:
            waiting.put(pickle.load(tasks))
        except (EOFError, OSError, pickle.UnpicklingError):
            os._exit(0)


def main() -> None:
    """Serves this process's input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all processes: the engine decides
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what functions of queries print
    try:
        serve(sys.stdin.buffer, replies)
    except BrokenPipeError:  # the engine was killed: nobody reads the reply
        os._exit(0)
