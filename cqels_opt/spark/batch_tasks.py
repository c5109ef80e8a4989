"""The tasks of one batch: the driver sends them functions, and they return reports.

A small batch has one task, a large one several. A task can have the rows of a DataFrame, which its first function reads
(:func:`rows_of_task`). Between two stages the driver chooses plans from the counts of the batch, as between two jobs, so plans and
answers are the same. Tasks connect to the driver (``driver_sockets.py``).
"""

from __future__ import annotations

import pickle
import resource
import socket
import struct
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property, partial
from multiprocessing.connection import wait
from typing import Any, BinaryIO

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import RDD, SparkContext, TaskContext, cloudpickle
from pyspark.core.rdd import _wrap_function
from pyspark.errors.exceptions.captured import convert_exception
from pyspark.serializers import CPickleSerializer, NoOpSerializer, SpecialLengths, read_int
from pyspark.sql import DataFrame

from cqels_opt.errors import RunError
from cqels_opt.spark.driver_sockets import DriverSockets, NetworkSockets, UnixSockets, connected, received
from cqels_opt.spark.tasks import Numbered, answered, drained, numbered_work, slots, successful

POLL = 0.2
"""Seconds between two checks that the job has not ended before its tasks connect."""
PATIENCE = 3.0
"""Seconds in which Spark starts the next attempt of a task that has ended, if there is a slot."""
SOCKET = "cqels-opt.socket"
"""The local property of a job with the address of the driver's socket."""
_LENGTH = struct.Struct("!q")
_NUMBER = struct.Struct("!i")


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


class UnreachableError(RunError):
    """The driver has no socket for its tasks, or none of them has ever connected to it, although they have run."""


class BatchTasks:
    """Starts the tasks of a batch, with a job whose Python function is always the same.

    The function is pickled and sent to the JVM once. Without rows, the whole RDD is kept. Reports come through the socket, and nobody
    waits for the end of the job: if Spark collected them, they would come through another socket some milliseconds later.
    """

    def __init__(self, context: SparkContext, in_one_process: bool) -> None:
        """``in_one_process``: the executor is in the driver's JVM."""
        self._sockets: DriverSockets = UnixSockets() if in_one_process else NetworkSockets(context.getConf())
        self._serve = partial(_serve, self._sockets.secret)
        self._context, self._in_one_process = context, in_one_process
        self._has_connected = False  # a task of any batch
        self._slots: dict[int, RDD[Any]] = {}  # by number of tasks
        self._over_rows: tuple[Any, Any] | None = None  # the class of an RDD of Python, and the function in the JVM
        self._job: Any = None
        self._number = 0  # of tasks
        self._listener: socket.socket | None = None
        self._channels: dict[socket.socket, int] = {}  # each with the number of its task

    @cached_property
    def _most(self) -> int:
        """How many tasks can run at the same time. Of a cluster that is not known: executors join and leave."""
        if not self._in_one_process:
            return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2  # each task takes a file of the driver
        cores = self._context._jsc.sc().schedulerBackend().totalCores()
        return max(1, int(cores) // int(self._context.getConf().get("spark.task.cpus", "1") or 1))

    def have(self, number: int) -> bool:
        """Whether enough tasks run for this number of parts."""
        return self._number >= min(number, self._most)

    def start(self, frame: DataFrame) -> bool:
        """Starts the task of a batch for the rows of a DataFrame, of all its partitions in order. False if it has no partitions.

        Spark SQL plans the DataFrame, but not the function on its rows: that takes about 70 calls to the JVM.
        """
        if self._over_rows is None:
            jvm: Any = self._context._jvm
            self._over_rows = jvm.PythonRDD, _wrap_function(self._context, self._serve, CompleteRows(), CPickleSerializer())
        python_rdd, function = self._over_rows
        rows = frame._jdf.toArrowBatchRdd().toJavaRDD().coalesce(1)
        if not rows.getNumPartitions():
            return False
        self._start(python_rdd(rows.rdd(), function, False, False).asJavaRDD(), 1)
        return True

    def run(self, work: Numbered, parts: int = 1, tasks: int = 1) -> list[Any]:
        """The reports of ``work(0)``, ``work(1)`` and so on; raises our first error among them, or the error of the job if that has failed.

        Starts as many tasks as there are parts, or ``tasks``, unless enough run; each runs the part of its own number, or one whose task
        has not connected.
        """
        if not self.have(parts):
            number = min(max(parts, tasks), self._most)
            if number not in self._slots:
                self._slots[number] = slots(self._context, number).mapPartitionsWithIndex(self._serve)
            # For each collect() the JVM parses the bytecode of two large classes, whose closures it cleans: 8 ms.
            self._start(self._slots[number]._jrdd, number)
        content = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
        waiting = dict[int, int | None].fromkeys(range(parts))  # each with the task that it has ended, if any
        running, found = dict[socket.socket, int](), dict[int, list[Any]]()
        lost = 0.0  # when the last task ended before its report
        while len(found) < parts:
            for channel in self._channels.keys() - running.keys():
                if (part := self._part_for(self._channels[channel], waiting)) is not None:
                    del waiting[part]
                    running[channel] = part
                    with suppress(OSError):  # the task has ended
                        _send(channel, _NUMBER.pack(part) + content)
                elif any(ended is not None for ended in waiting.values()) and time.monotonic() > lost + PATIENCE:
                    self._channels.pop(channel)  # its slot may be the only one for the next attempt of the task that has ended
                    channel.close()
            for channel in self._await(running):
                part, reports = running.pop(channel), _receive(channel)
                if reports is None:
                    waiting[part], lost = self._channels.pop(channel), time.monotonic()
                    channel.close()
                else:
                    found[part] = pickle.loads(reports)
        return list(successful(report for part in range(parts) for report in found[part]))

    def end(self) -> None:
        """The tasks end. A later function is run by new ones."""
        channels, listener = [*self._channels], self._listener
        self._channels.clear()
        self._listener, self._job, self._number = None, None, 0
        for channel in channels:
            channel.close()
        if listener is not None:
            self._sockets.close(listener)

    def _start(self, tasks: Any, number: int) -> None:
        """Starts a job; its tasks connect to a socket of its own, which a task that Spark starts late does not find."""
        self.end()
        try:
            self._listener, address = self._sockets.listen()
        except OSError as error:
            raise UnreachableError(f"the driver has no socket for its tasks: {error}") from error
        self._context.setLocalProperty(SOCKET, address)
        self._job, self._number = tasks.collectAsync(), number

    def _part_for(self, task: int, waiting: Mapping[int, int | None]) -> int | None:
        """The part of a function that a task runs next: its own, or one that waits for a task which has not connected.

        A part that a task did not survive is left to the next attempt of that task, if Spark starts one: it may end other tasks too.
        """
        connected = self._channels.values()
        able = (p for p, ended in waiting.items() if task in (p, ended) or (ended is None and p not in connected))
        return min(able, key=lambda part: (part != task, part), default=None)

    def _await(self, running: Collection[socket.socket]) -> list[socket.socket]:
        """Waits for reports or for another task; the channels on which something can be read. Raises the error of a job that has ended."""
        assert self._listener is not None
        ready = wait([self._listener, *running], POLL)
        if not ready and self._job.isDone():
            self._raise()
        if self._listener in ready and (task := self._sockets.accept(self._listener)) is not None:
            channel, number = task
            for earlier in [c for c, n in self._channels.items() if n == number]:
                with suppress(OSError):  # Spark has given this attempt up, also if its machine only seems to run
                    earlier.shutdown(socket.SHUT_RDWR)
            self._channels[channel], self._has_connected = number, True
        return [channel for channel in running if channel in ready]

    def _raise(self) -> None:
        try:
            self._job.get()
        except Py4JJavaError as error:
            cause = error.java_exception.getCause()  # of java.util.concurrent.ExecutionException
            raise (error if cause is None else convert_exception(cause)) from None
        finally:
            self.end()
        raise (RunError if self._has_connected else UnreachableError)("the tasks of a batch ended before the batch")


def _serve(secret: bytes, number: int, rows: Iterable[Any]) -> Iterator[Any]:
    """A task that runs functions for the driver until it closes the connection, or has closed it before."""
    context = TaskContext.get()
    address = context.getLocalProperty(SOCKET) if context else None
    if address is None:
        raise RuntimeError("the job has no property of its thread: PYSPARK_PIN_THREAD must not be false")
    with _with_rows(rows):
        channel = connected(address, secret, number)
        if channel is None:  # the batch has ended, or a network does not let the task connect
            return iter(())
        with channel:
            _work_until_the_end(channel)
    return iter(())


def _work_until_the_end(channel: socket.socket) -> None:
    """Runs what the driver sends until the connection ends."""
    with suppress(ConnectionError):
        works = 0
        while (content := _receive(channel)) is not None:
            (part,), work = _NUMBER.unpack_from(content), pickle.loads(memoryview(content)[_NUMBER.size :])
            with numbered_work(works):
                reports = answered(partial(work, part))
            _send(channel, pickle.dumps(reports))
            works += 1


def _send(channel: socket.socket, content: bytes) -> None:
    channel.sendall(_LENGTH.pack(len(content)) + content)


def _receive(channel: socket.socket) -> bytearray | None:
    """What the other side sent; None if it has closed the connection, or its machine no longer answers."""
    try:
        return received(channel, *_LENGTH.unpack(received(channel, _LENGTH.size)))
    except OSError:
        return None
