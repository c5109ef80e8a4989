"""The Spark session of the command line, and the settings that we require."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cqels_opt.errors import RunError
from cqels_opt.lod.locations import CACHE_VARIABLE
from cqels_opt.spark.scratch import process_folder

__all__ = [
    "IN_A_BATCH",
    "SparkSession",
    "in_one_process",
    "make_session",
    "on_one_machine",
    "room_for_sockets",
    "settings",
    "shuffle_partitions",
]

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.files.maxPartitionBytes": "8m",
    "spark.python.worker.reuse": "true",
    "spark.python.unix.domain.socket.enabled": "true",  # over TCP each transfer to a worker waits 40 ms for an acknowledgement
    "spark.sql.streaming.metricsEnabled": "false",
    # Limits the history of finished jobs for the unused UI: by default a thousand jobs and their 100,000 tasks.
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
IN_A_BATCH = {
    "spark.sql.adaptive.enabled": "false",  # it would make a job of each stage
    # A repeated task reports files with other names. Spark would consider that as non-deterministic output, and end the job.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
}

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_JVM_OPTIONS = "SPARK_SUBMIT_OPTS"
_NAME_OF_SOCKET = len("/.00000000-0000-0000-0000-000000000000.sock")
_LONGEST_SOCKET = 104
"""Maximum bytes of the path of a Unix domain socket: 108 on Linux, 104 on macOS, including the terminator."""
_LOOPBACK = re.compile(r"local|spark://(127\.0\.0\.1|localhost):")


def make_session(master: str | None, scratch: Path, quiet: bool = True, packages: str | None = None) -> SparkSession:
    """A session for a command. Executors run this Python, or the one that ``PYSPARK_PYTHON`` names.

    A master on this machine uses the loopback address; for other masters Spark, or ``SPARK_LOCAL_IP``, chooses the driver's
    address. With ``quiet``, the JVM's standard error goes to ``spark.log`` below ``scratch``. ``packages`` are Maven coordinates
    that Spark fetches with Ivy before it starts.
    """
    python = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    master = master or "local[*]"
    builder = SparkSession.builder.appName("cqels-opt").master(master)
    temporary = process_folder()
    settings = {**SETTINGS, "spark.sql.warehouse.dir": str(scratch / "warehouse"), "spark.pyspark.python": python}
    if _LOOPBACK.match(master) and not room_for_sockets(temporary):
        settings["spark.python.unix.domain.socket.dir"] = "/tmp"
    if CACHE_VARIABLE in os.environ:
        settings[f"spark.executorEnv.{CACHE_VARIABLE}"] = os.environ[CACHE_VARIABLE]
    if not _LOOPBACK.match(master):
        del settings["spark.driver.bindAddress"], settings["spark.driver.host"]
    if packages is not None:
        settings["spark.jars.packages"] = packages
    for key, value in settings.items():
        builder = builder.config(key, value)
    log = _standard_error_to(scratch / "spark.log") if quiet else nullcontext()
    with log, _jvm_with(temporary):
        session = _started(builder, packages)
        if manager := _file_manager(session):
            session.conf.set(FILE_MANAGER, manager)
        session.sparkContext.setLogLevel("OFF" if quiet else "WARN")
        if quiet and (server := getattr(session.sparkContext, "_accumulatorServer", None)) is not None:
            server.handle_error = lambda *_: None  # PySpark prints a stack trace when the JVM is killed
    return session


@contextmanager
def _jvm_with(temporary: Path) -> Iterator[None]:
    """Sets the temporary folder of a JVM that is started inside, and makes the JVM ignore SIGTERM, which this process handles.

    A service manager sends SIGTERM to all processes at once, and the current batch needs the JVM to finish.
    """
    before = os.environ.get(_JVM_OPTIONS)
    os.environ[_JVM_OPTIONS] = f'{before or ""} "-Djava.io.tmpdir={temporary}"'.strip()
    main = threading.current_thread() is threading.main_thread()  # only the main thread can handle signals
    handler = signal.signal(signal.SIGTERM, signal.SIG_IGN) if main else None  # inherited by a new process
    try:
        yield
    finally:
        if main:
            signal.signal(signal.SIGTERM, handler)
        if before is None:
            del os.environ[_JVM_OPTIONS]
        else:
            os.environ[_JVM_OPTIONS] = before


def room_for_sockets(temporary: Path) -> bool:
    """Whether the paths of Spark's sockets in the folder are short enough."""
    return len(os.fsencode(temporary)) + _NAME_OF_SOCKET < _LONGEST_SOCKET


def _started(builder: SparkSession.Builder, packages: str | None) -> SparkSession:
    try:
        return builder.getOrCreate()
    except PySparkException as error:
        if packages is None:
            raise
        raise RunError(
            f"Spark did not start with {packages}: is there such a version, and is a Maven repository reachable? (--packages names "
            "others, --debug shows what Spark says)"
        ) from error


@contextmanager
def settings(session: SparkSession, given: Mapping[str, str]) -> Iterator[None]:
    """Applies settings to a session for a block, and restores the user's own."""
    conf = session.conf
    before = {key: conf.get(key, None) for key in given}
    for key, value in given.items():
        conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                conf.unset(key)
            else:
                conf.set(key, old)


def on_one_machine(session: SparkSession) -> bool:
    """Whether the executors of a session run on this machine, so that they can access its folders."""
    return str(session.sparkContext.master).startswith("local")


def in_one_process(session: SparkSession) -> bool:
    """Whether the session's executor is in the driver's JVM."""
    master = str(session.sparkContext.master)
    return master == "local" or master.startswith("local[")


def shuffle_partitions(session: SparkSession, slots: int) -> int:
    """The number of tasks of a shuffle: as set or, with adaptive execution, which merges small ones, about the task slots."""
    if str(session.conf.get("spark.sql.adaptive.enabled")).lower() == "true":
        return slots
    return int(str(session.conf.get("spark.sql.shuffle.partitions")))


def _file_manager(session: SparkSession) -> str | None:
    """The class that writes Spark's checkpoint logs through ``FileSystem``; its package differs between versions.

    Spark's default, through ``FileContext``, starts processes for many operations on local files if Hadoop's native library is
    absent, which takes 70 to 90 ms per batch.
    """
    loader = session.sparkContext._jvm.java.lang.ClassLoader.getSystemClassLoader()  # type: ignore[union-attr]
    streaming = "org/apache/spark/sql/execution/streaming/"
    for place in (f"{streaming}checkpointing/", streaming):
        name = f"{place}FileSystemBasedCheckpointFileManager"
        if loader.getResource(f"{name}.class") is not None:
            return name.replace("/", ".")
    return None


@contextmanager
def _standard_error_to(path: Path) -> Iterator[None]:
    """Redirects the standard error that a process started inside inherits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
