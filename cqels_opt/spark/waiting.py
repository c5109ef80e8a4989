"""Waiting for a run's end, which Ctrl-C brings about."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from cqels_opt.spark.stream import StreamRun


def wait(handle: StreamRun) -> bool:
    """Waits for the end of a run; Ctrl-C stops cleanly (True): what was not committed is not there."""
    with _interruptions() as interrupted:
        while not handle.await_termination(timeout=1):
            if interrupted.is_set():
                handle.stop()
                handle.settle()
                return True
    return False


@contextmanager
def _interruptions() -> Iterator[threading.Event]:
    """Ctrl-C sets the event, and raises nothing: an exception in the middle of a call to Java leaves a broken connection.

    A second one interrupts as usual.
    """
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield interrupted
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        interrupted.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
