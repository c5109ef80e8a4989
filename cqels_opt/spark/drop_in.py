"""What ``foreachBatch`` of a job that is there already calls: one batch at a time, over a state folder of its own, within its limits."""

from __future__ import annotations

import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from pyspark.sql import DataFrame, SparkSession

from cqels_opt.errors import CheckpointError, InputError, LimitError
from cqels_opt.runtime.limits import Limits
from cqels_opt.storage import disk, documents

FAILED = "failed.json"
AGAIN = 0.2
"""Seconds between two attempts to stop what takes too long: a query may be between two jobs."""

_owners: WeakValueDictionary[Path, Claim] = WeakValueDictionary()
_claiming = threading.Lock()


def check_classic(session: object) -> None:
    """Spark Connect is refused: stages run on executors, and are cancelled and counted, through the driver's JVM."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise InputError(
            "this is a Spark Connect session, which cannot reach the driver that cqels-opt works in: "
            "run the job in the driver, with SparkSession.builder.master(…) or spark-submit, and without SPARK_REMOTE"
        )
    if not isinstance(session, SparkSession):
        raise InputError(f"a SparkSession is expected, not {type(session).__name__}")


class Claim:
    """On a state folder, to be made before the folder is read. The newest of a process owns it, so that a cell of a notebook may be
    run again: what is in hand is waited for, and then the one before refuses further batches.

    ``lock`` is held while a batch is done, and by who asks how things stand, as of the last batch; a sink may ask as well.
    """

    def __init__(self, state: Path | None) -> None:
        self.state, self.lock = state.resolve() if state is not None else None, threading.RLock()
        if self.state is not None:
            with _claiming:
                before = _owners.get(self.state)
                _owners[self.state] = self
            if before is not None:
                before.wait()

    def wait(self) -> None:
        """Until no batch is in hand. One that begins then is refused, for the claim is looked at first."""
        with self.lock:
            return

    def check(self) -> None:
        """CheckpointError where there is a newer one."""
        if self.state is not None and _owners.get(self.state, self) is not self:
            raise CheckpointError(
                f"{self.state}: another query of this process works with this state folder by now; give each its own"
            )


class DropIn(ABC):
    """A function for ``foreachBatch``. ``failure`` says why it is over, if it is: it took more than ``limits`` allow."""

    def __init__(self, name: str, claim: Claim, limits: Limits) -> None:
        self.name, self.limits = name, limits
        self.failure: LimitError | None = None
        self._claim, self._lock = claim, claim.lock
        if claim.state is not None:
            self._read_failure(claim.state / FAILED)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """A micro-batch. Once the query is over it does nothing, so that the job goes on."""
        self._check(frame)
        with self._lock:
            if self.failure is not None:
                return
            self._claim.check()
            try:
                with at_most(self.limits.seconds, self._cancel):
                    self._batch(frame, batch_id)
            except LimitError as error:
                self._fail(batch_id, error)

    def _check(self, frame: DataFrame) -> None:
        check_classic(frame.sparkSession)

    @abstractmethod
    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        """Does a micro-batch; LimitError where it takes too much."""

    @abstractmethod
    def _cancel(self) -> None:
        """Cancels the jobs of the micro-batch in hand."""

    # ------------------------------------------------------------------ the end of a query
    def _fail(self, batch_id: int, error: LimitError) -> None:
        self.failure = LimitError(f"{self.name} failed at batch {batch_id}, and the job continues without it: {error}")
        if self._claim.state is not None:
            told = {"batch": batch_id, "reason": str(error)}
            disk.write_atomically(self._claim.state / FAILED, documents.encode(FAILED, told))
        warnings.warn(str(self.failure), RuntimeWarning, stacklevel=4)

    def _read_failure(self, path: Path) -> None:
        if not path.exists():
            return
        try:
            found = documents.decode(path.name, disk.read(path))
            batch, reason = int(found["batch"]), str(found["reason"])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: the state is damaged ({error}); use another folder") from error
        self.failure = LimitError(f"{self.name} failed at batch {batch} ({reason}); to start again, use another state folder")
        warnings.warn(str(self.failure), RuntimeWarning, stacklevel=4)


@contextmanager
def at_most(seconds: float | None, cancel: Callable[[], object]) -> Iterator[None]:
    """What takes longer is cancelled, as often as it takes, and a :class:`LimitError`."""
    if seconds is None:
        yield
        return
    done, late = threading.Event(), threading.Event()

    def watch() -> None:
        if done.wait(seconds):
            return
        late.set()
        cancel()
        while not done.wait(AGAIN):
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
    """Several functions for one ``foreachBatch``: each gets the micro-batch, whose rows are computed once.

    Where one raises, Spark runs the batch again for all of them; ours then give the same answers under the same batch id.
    """

    def batch(frame: DataFrame, batch_id: int) -> None:
        frame.persist()
        try:
            for function in functions:
                function(frame, batch_id)
        finally:
            frame.unpersist()

    return batch


__all__ = ["Claim", "DropIn", "at_most", "check_classic", "together"]
