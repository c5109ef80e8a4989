"""Waits for the end of a run, which Ctrl-C and SIGTERM cause."""

from __future__ import annotations

from cqels_opt.errors import RunError
from cqels_opt.runtime.interruptions import interruptions
from cqels_opt.spark.stream import StreamRun


def wait(handle: StreamRun) -> bool:
    """Waits for the end of a run; Ctrl-C and SIGTERM stop it cleanly (True): uncommitted output is discarded."""
    with interruptions() as interrupted:
        try:
            while not handle.await_termination(timeout=1):
                if interrupted.is_set():
                    handle.stop()
                    handle.settle()
                    return True
            stopped = False
            for number in handle.remaining():
                if stopped := interrupted.is_set():
                    break
                handle.replay(number)
            handle.settle()  # also of batches that ran outside of Spark's query
            return stopped
        except RunError:
            if not interrupted.is_set():  # otherwise workers were interrupted too, and the batch is rolled back
                raise
            return True
