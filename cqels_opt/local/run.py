"""A run of the local engine: micro-batches one after the other, in this thread or in one of its own."""

from __future__ import annotations

import threading

from cqels_opt.errors import RunError
from cqels_opt.local.inputs import Input
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.run_handle import Progress, Register, RunHandle, check_timeout
from cqels_opt.storage.file_errors import file_error
from cqels_opt.trace.listener import BatchReporter


class LocalRun(RunHandle):
    """A running query, or several. It can be awaited, stopped and inspected.

    A batch is atomic: a run that is stopped ends after the batch, and one that is killed repeats the batches since the last commit
    record at the next start.
    """

    def __init__(
        self,
        driver: Driver,
        source: Input | None,
        on_batch: Progress | None = None,
        register: Register | None = None,
        reporter: BatchReporter | None = None,
    ) -> None:
        """``source`` is None for queries that read no stream: they are answered once."""
        super().__init__(driver, on_batch, register, reporter)
        self._source = source
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> LocalRun:
        """Runs in a thread of its own, which does not keep the process alive."""
        self._thread = threading.Thread(target=self._in_thread, name="cqels-opt run", daemon=True)
        self._thread.start()
        return self

    def work(self, stop: threading.Event | None = None) -> bool:
        """Runs in this thread to the end of the input, or until ``stop`` is set after a batch (True)."""
        if stop is not None:
            self._stopped = stop
        source = self._source
        try:
            if source is None:
                if self.driver.state.batch < 0:
                    self._batch(0, None)
                return False
            while not self._stopped.is_set():
                number = self.driver.state.batch + 1
                if (rows := source.rows(number)) is not None:
                    self._batch(number, rows)
                    source.committed(number)
                elif source.ends:
                    self._write_record()
                    return False
                else:
                    self.driver.log.forget_reached()  # all input that there was has been read again
                    self._write_record(self.driver.options.commit_every)
                    self._stopped.wait(source.poll)
            self._write_record()
            return True
        finally:
            self._finish()

    def _write_record(self, after: float = 0.0) -> None:
        """Writes the commit record of batches that have none yet, if the last one was written longer ago than the interval."""
        if self.driver.log.has_waiting_record and self.driver.commits.since_record >= after:
            with self.driver.log.working():
                self.driver.commits.write_record()

    def _batch(self, number: int, rows: object) -> None:
        failed = dict(self.failures)
        with self._lock, self._reported(number):
            records = self.driver.batch(number, rows)
            self._done(records)
        self._ended(records, failed)

    def _in_thread(self) -> None:
        try:
            self.work()
        except BaseException as failure:  # noqa: BLE001 - await_termination raises it in the caller's thread
            self._failure = failure

    def await_termination(self, timeout: float | None = None) -> bool:
        """Waits until the run has ended (True) or ``timeout`` seconds have passed. Raises the run's failure."""
        check_timeout(timeout)
        if self._thread is threading.current_thread():
            raise RunError("a sink or a listener cannot wait for the end of its own run: stop() ends it after this micro-batch")
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                return False
        if (failure := self._failure) is None:
            return True
        if (of_file := file_error(failure, (self.driver.folder,))) is not None:
            raise of_file from failure
        if not isinstance(failure, Exception):
            raise RunError(f"the run was ended by {type(failure).__name__}") from failure
        raise failure

    def stop(self) -> None:
        """Stops after the current batch, for which it waits, unless a sink or a listener of the run calls it."""
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    @property
    def is_active(self) -> bool:
        """Whether the run is active."""
        return self._thread is not None and self._thread.is_alive()
