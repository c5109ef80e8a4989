"""One task for all stages of a small batch: the driver sends it functions, and it returns their reports.

Between two stages the driver chooses plans from the counts of the batch, as between two jobs, so plans and answers are the same. The
task connects to a Unix domain socket in the driver's folder of temporary files, so it must run on the driver's machine.
"""

from __future__ import annotations

import pickle
import socket
import struct
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import RDD, SparkContext, cloudpickle
from pyspark.errors.exceptions.captured import convert_exception

from cqels_opt.errors import RunError
from cqels_opt.spark.scratch import process_folder
from cqels_opt.spark.session import room_for_sockets
from cqels_opt.spark.tasks import Work, answered, drained, numbered_work, slots, successful

POLL = 0.2
"""Seconds between two checks that the job has not ended before its task connects."""
_LENGTH = struct.Struct("!q")


class BatchTask:
    """Starts one task per batch, with a job that is always the same.

    The RDD is kept, so that its function is pickled and sent to the JVM once. Reports come through the socket, and nobody waits for the
    end of the job: if Spark collected them, they would come through another socket some milliseconds later.
    """

    def __init__(self, context: SparkContext) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=_folder_for_sockets())  # accessible to this user only
        path = str(Path(self._folder.name) / "task")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._listener.settimeout(POLL)
        self._tasks: RDD[Any] = slots(context, 1).mapPartitions(_serving(path))
        self._job: Any = None
        self._channel: socket.socket | None = None

    def run(self, work: Work) -> list[Any]:
        """The reports of a function; raises our first error among them, or the error of the job if that has failed.

        If Spark starts the task again, the new attempt runs the function.
        """
        if self._job is None:
            # For each collect() the JVM parses the bytecode of two large classes, whose closures it cleans: 8 ms.
            self._job = self._tasks._jrdd.collectAsync()
        content = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
        while True:
            if self._channel is None:
                self._channel = self._accepted()
            with suppress(OSError):  # the task has ended
                _send(self._channel, content)
            found = _receive(self._channel)
            if found is not None:
                return list(successful(found))
            self._close_channel()

    def end(self) -> None:
        """The task ends. A later function is run by a new one."""
        self._close_channel()
        self._job = None

    def _accepted(self) -> socket.socket:
        while True:
            try:
                return self._listener.accept()[0]
            except TimeoutError:
                if self._job.isDone():
                    self._raise()

    def _raise(self) -> None:
        try:
            self._job.get()
        except Py4JJavaError as error:
            cause = error.java_exception.getCause()  # of java.util.concurrent.ExecutionException
            raise (error if cause is None else convert_exception(cause)) from None
        finally:
            self.end()
        raise RunError("the task of a batch ended before the batch")

    def _close_channel(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def _serving(path: str) -> Any:
    """A task that runs functions for the driver until it closes the connection."""

    def serve(rows: Iterable[int]) -> Iterator[Any]:
        drained(rows)
        with socket.socket(socket.AF_UNIX) as channel:
            channel.connect(path)
            number = 0
            while (work := _receive(channel)) is not None:
                with numbered_work(number):
                    reports = answered(work)
                _send(channel, pickle.dumps(reports))
                number += 1
        return iter(())

    return serve


def _send(channel: socket.socket, content: bytes) -> None:
    channel.sendall(_LENGTH.pack(len(content)) + content)


def _receive(channel: socket.socket) -> Any:
    """What the other side sent; None if it has closed the connection."""
    head = _read(channel, _LENGTH.size)
    content = _read(channel, *_LENGTH.unpack(head)) if head is not None else None
    return pickle.loads(content) if content is not None else None


def _read(channel: socket.socket, size: int) -> bytearray | None:
    found = bytearray(size)
    rest = memoryview(found)
    while rest:
        try:
            got = channel.recv_into(rest)
        except ConnectionError:
            return None
        if not got:
            return None
        rest = rest[got:]
    return found


def _folder_for_sockets() -> str:
    folder = process_folder()
    return str(folder) if room_for_sockets(folder) else "/tmp"
