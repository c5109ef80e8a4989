"""The function that an existing job passes to ``foreachBatch``: one batch at a time, with its own state folder and limits."""

from __future__ import annotations

import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from cqels_opt.errors import CheckpointError, InputError, LimitError, RunWarning
from cqels_opt.runtime.limits import Limits
from cqels_opt.spark.worker_python import explained, use_this_python
from cqels_opt.state.claim import Claim
from cqels_opt.storage import disk, documents
from cqels_opt.trace.listener import BatchReporter, ListenerLike
from cqels_opt.trace.records import TraceRecord

FAILED = "failed.json"
CANCEL_INTERVAL = 0.2
"""Seconds between attempts to cancel a batch that takes too long: a query may be between two jobs."""


def check_classic(session: object) -> None:
    """Rejects Spark Connect: stages run on executors, and are cancelled and counted through the driver's JVM."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise InputError(
            "this is a Spark Connect session, which cannot reach the driver that cqels-opt works in: "
            "run the job in the driver, with SparkSession.builder.master(…) or spark-submit, and without SPARK_REMOTE; "
            "or install the Spark extension in the server (docs/drop-in.md)"
        )
    if not isinstance(session, SparkSession):
        raise InputError(f"a SparkSession is expected, not {type(session).__name__}")
    if session.sparkContext._jsc is None:
        raise InputError("this SparkSession is stopped: make another one with SparkSession.builder.getOrCreate()")


def is_batch_id(given: object) -> bool:
    """Whether it is what foreachBatch gives: a whole number from 0 on."""
    return isinstance(given, Integral) and int(given) >= 0


def check_micro_batch(frame: object) -> None:
    """Rejects what is no DataFrame of a classic session."""
    session = getattr(frame, "sparkSession", None)
    if session is None:
        raise InputError(f"a micro-batch is a DataFrame, not {type(frame).__name__}: give this function to foreachBatch")
    check_classic(session)
    if getattr(frame, "isStreaming", False):
        raise InputError("this DataFrame is a stream, not a micro-batch of it: give this function to writeStream.foreachBatch(…)")


class DropIn(ABC):
    """A function for ``foreachBatch``. ``failure`` is the reason if it has ended because it exceeded ``limits``."""

    def __init__(self, name: str, claim: Claim, limits: Limits, listener: ListenerLike | None = None) -> None:
        self.name, self.limits = name, limits
        self._reporter = BatchReporter(listener)
        self.failure: LimitError | None = None
        self._claim, self._lock = claim, claim.lock
        if claim.state is not None:
            self._read_failure(claim.state / FAILED)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Runs a micro-batch. After a failure it does nothing, so that the job continues."""
        self._check(frame)
        if not is_batch_id(batch_id):
            raise InputError(f"the id of a micro-batch is {batch_id!r}: foreachBatch gives whole numbers from 0 on")
        with self._lock:
            if self.failure is not None:
                return
            self._claim.check()
            try:
                with explained(frame.sparkSession), at_most(self.limits.seconds, self._cancel):
                    self._batch(frame, batch_id)
            except LimitError as error:
                self._fail(batch_id, error)
            except Exception as error:
                self._reporter.failure(self.name, batch_id, error)
                raise

    def _check(self, frame: DataFrame) -> None:
        check_micro_batch(frame)
        use_this_python(frame.sparkSession)

    @abstractmethod
    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        """Runs a micro-batch; raises LimitError if it exceeds a limit."""

    @abstractmethod
    def _cancel(self) -> None:
        """Cancels the jobs of the current micro-batch."""

    def _recorded(self, *records: TraceRecord) -> None:
        """Gives the trace records of a committed micro-batch to the listeners and to the log."""
        self._reporter.batches(records)

    # ------------------------------------------------------------------ failure of a query
    def _fail(self, batch_id: int, error: LimitError) -> None:
        self.failure = LimitError(f"{self.name} failed at batch {batch_id}, and the job continues without it: {error}")
        if self._claim.state is not None:
            record = {"batch": batch_id, "reason": str(error)}
            disk.write_atomically(self._claim.state / FAILED, documents.encode(FAILED, record))
        self._reporter.failure(self.name, batch_id, self.failure)
        warnings.warn(str(self.failure), RunWarning, stacklevel=4)

    def _read_failure(self, path: Path) -> None:
        if not path.exists():
            return
        try:
            found = documents.decode(path.name, disk.read(path))
            batch, reason = int(found["batch"]), str(found["reason"])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: the state is damaged ({error}); use another folder") from error
        self.failure = LimitError(f"{self.name} failed at batch {batch} ({reason}); to start again, use another state folder")
        warnings.warn(str(self.failure), RunWarning, stacklevel=4)


@contextmanager
def at_most(seconds: float | None, cancel: Callable[[], object]) -> Iterator[None]:
    """Cancels a block that takes longer, repeatedly until it ends, and raises :class:`LimitError`."""
    if seconds is None:
        yield
        return
    done, late = threading.Event(), threading.Event()

    def watch() -> None:
        if done.wait(seconds):
            return
        late.set()
        cancel()
        while not done.wait(CANCEL_INTERVAL):
            cancel()

    watcher = threading.Thread(target=watch, name="cqels-opt-limit", daemon=True)
    watcher.start()
    try:
        yield
    except Exception as error:
        if late.is_set():
            raise LimitError(f"a micro-batch took longer than the limit of {seconds:g} seconds") from error
        raise
    finally:
        done.set()
        watcher.join()


def together(*functions: Callable[[DataFrame, int], object]) -> Callable[[DataFrame, int], None]:
    """Combines several functions for one ``foreachBatch``: each gets the micro-batch, whose rows are computed once.

    If one raises, Spark repeats the batch for all of them; ours then give the same answers under the same batch id.
    """
    for function in functions or (None,):
        if not callable(function):
            raise InputError(f"together(…) expects functions of a DataFrame and the batch id, not {type(function).__name__}")

    def batch(frame: DataFrame, batch_id: int) -> None:
        frame.persist()
        try:
            for function in functions:
                function(frame, batch_id)
        finally:
            frame.unpersist()

    return batch


__all__ = ["DropIn", "at_most", "check_classic", "together"]
