"""Waits for the end of a run, which Ctrl-C and SIGTERM cause."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from cqels_opt.errors import RunError
from cqels_opt.spark.stream import StreamRun

STOPPING = (signal.SIGINT, signal.SIGTERM)


def wait(handle: StreamRun) -> bool:
    """Waits for the end of a run; Ctrl-C and SIGTERM stop it cleanly (True): uncommitted output is discarded."""
    with _interruptions() as interrupted:
        try:
            while not handle.await_termination(timeout=1):
                if interrupted.is_set():
                    handle.stop()
                    handle.settle()
                    return True
            for number in handle.remaining():
                if interrupted.is_set():
                    return True
                handle.replay(number)
        except RunError:
            if not interrupted.is_set():  # otherwise workers were interrupted too, and the batch is rolled back
                raise
            return True
    return False


@contextmanager
def _interruptions() -> Iterator[threading.Event]:
    """Makes the signals set the event instead of raising: an exception during a call to Java would break the connection.

    A second signal interrupts as usual.
    """
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield interrupted
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        interrupted.set()
        for each in STOPPING:
            signal.signal(each, signal.default_int_handler)

    before = {number: signal.signal(number, on_signal) for number in STOPPING}
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
