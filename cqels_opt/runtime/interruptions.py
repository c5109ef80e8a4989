"""Ctrl-C and SIGTERM as an event, so that a run ends between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from cqels_opt.errors import RunError, option

STOPPING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptions() -> Iterator[threading.Event]:
    """Makes the signals set the event instead of raising: an exception during a call to Java would break the connection.

    A second signal ends the block: RunError.
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
    except KeyboardInterrupt as error:
        resumes = option("start() with its checkpoint resumes it", "the same command resumes it, if it has a --checkpoint")
        raise RunError(f"the run was interrupted twice, and has ended within a micro-batch; {resumes}") from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
