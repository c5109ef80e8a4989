"""One task for all stages of a small batch: the driver sends it functions, and it returns their reports.

The task can have the rows of a DataFrame, which its first function reads (:func:`rows_of_task`). Between two stages the driver chooses
plans from the counts of the batch, as between two jobs, so plans and answers are the same. The task connects to a Unix domain socket in
the driver's folder of temporary files, so it must run on the driver's machine.
"""

from __future__ import annotations

import pickle
import socket
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import RDD, SparkContext, cloudpickle
from pyspark.core.rdd import _wrap_function
from pyspark.errors.exceptions.captured import convert_exception
from pyspark.serializers import CPickleSerializer, NoOpSerializer, SpecialLengths, read_int
from pyspark.sql import DataFrame

from cqels_opt.errors import RunError
from cqels_opt.spark.scratch import process_folder
from cqels_opt.spark.session import room_for_sockets
from cqels_opt.spark.tasks import Work, answered, drained, numbered_work, slots, successful

POLL = 0.2
"""Seconds between two checks that the job has not ended before its task connects."""
_LENGTH = struct.Struct("!q")


class CompleteRows(NoOpSerializer):
    """Reads the rows that the JVM sends to a task.

    An EOFError if they end early, because the job has failed. To PySpark's own readers that is the end of the rows, and the task would
    report the counts of some of them before the driver hears of the failure.
    """

    def load_stream(self, stream: BinaryIO) -> Iterator[bytes]:
        """The record batches."""
        while (length := read_int(stream)) != SpecialLengths.END_OF_DATA_SECTION:  # type: ignore[no-untyped-call]
            content = stream.read(length)
            if len(content) < length:
                raise EOFError
            yield content


_rows: ContextVar[Iterable[Any]] = ContextVar("rows")


def rows_of_task(schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of the DataFrame that the running task was started for; they can be read once."""
    for content in _rows.get():
        yield pa.ipc.read_record_batch(pa.py_buffer(content), schema)


@contextmanager
def _with_rows(rows: Iterable[Any]) -> Iterator[None]:
    """Gives the functions of a task its rows, and in the end consumes the rest."""
    before = _rows.set(rows)
    try:
        yield
    finally:
        _rows.reset(before)
    drained(rows)


class BatchTask:
    """Starts one task per batch, with a job whose Python function is always the same.

    The function is pickled and sent to the JVM once. Without rows, the whole RDD is kept. Reports come through the socket, and nobody
    waits for the end of the job: if Spark collected them, they would come through another socket some milliseconds later.
    """

    def __init__(self, context: SparkContext) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=_folder_for_sockets())  # accessible to this user only
        path = str(Path(self._folder.name) / "task")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._listener.settimeout(POLL)
        self._context, self._serve = context, _serving(path)
        self._tasks: RDD[Any] = slots(context, 1).mapPartitions(self._serve)
        self._over_rows: tuple[Any, Any] | None = None  # the class of an RDD of Python, and the function in the JVM
        self._job: Any = None
        self._channel: socket.socket | None = None

    @property
    def running(self) -> bool:
        """Whether the batch has a task, so that no job is started for its next function."""
        return self._job is not None

    def start(self, frame: DataFrame) -> bool:
        """Starts the task of a batch for the rows of a DataFrame, of all its partitions in order. False if it has no partitions.

        Spark SQL plans the DataFrame, but not the function on its rows: that takes about 70 calls to the JVM.
        """
        if self._over_rows is None:
            jvm: Any = self._context._jvm
            function = _wrap_function(self._context, _of_partition(self._serve), CompleteRows(), CPickleSerializer())
            self._over_rows = jvm.PythonRDD, function
        python_rdd, function = self._over_rows
        rows = frame._jdf.toArrowBatchRdd().toJavaRDD().coalesce(1)
        if not rows.getNumPartitions():
            return False
        self._job = python_rdd(rows.rdd(), function, False, False).asJavaRDD().collectAsync()
        return True

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


def _serving(path: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A task that runs functions for the driver until it closes the connection."""

    def serve(rows: Iterable[Any]) -> Iterator[Any]:
        with _with_rows(rows), socket.socket(socket.AF_UNIX) as channel:
            channel.connect(path)
            number = 0
            while (work := _receive(channel)) is not None:
                with numbered_work(number):
                    reports = answered(work)
                _send(channel, pickle.dumps(reports))
                number += 1
        return iter(())

    return serve


def _of_partition(serve: Callable[[Iterable[Any]], Iterator[Any]]) -> Callable[[int, Iterable[Any]], Iterator[Any]]:
    return lambda number, rows: serve(rows)


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
