"""Waiting for a run's end, which Ctrl-C or SIGTERM brings about."""

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
    """Waits for the end of a run; Ctrl-C and SIGTERM stop cleanly (True): what was not committed is not there."""
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
            if not interrupted.is_set():  # else workers have been interrupted too, and the batch in hand is rolled back
                raise
            return True
    return False


@contextmanager
def _interruptions() -> Iterator[threading.Event]:
    """The signals set the event, and raise nothing: an exception in the middle of a call to Java leaves a broken connection.

    A second one interrupts as usual.
    """
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
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
