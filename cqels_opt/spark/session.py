"""The Spark session of the command line, and the settings that we require."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cqels_opt.errors import RunError
from cqels_opt.spark.jvm import DEFAULT_MASTER, Jvm, JvmSettings, take_jvm
from cqels_opt.spark.scratch import process_folder
from cqels_opt.storage.cache_folder import CACHE_VARIABLE

__all__ = [
    "IN_A_BATCH",
    "AnySession",
    "DeferredSession",
    "SparkSession",
    "in_one_process",
    "make_session",
    "on_one_machine",
    "room_for_sockets",
    "session_of",
    "settings",
    "shuffle_partitions",
    "tasks_may_connect",
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
_SEPARATE_JOBS = (
    "spark.speculation",
    "spark.network.crypto.enabled",
    "spark.authenticate.enableSaslEncryption",
    "spark.ssl.enabled",
    "spark.ssl.rpc.enabled",
)
IN_A_BATCH = {
    "spark.sql.adaptive.enabled": "false",  # it would make a job of each stage
    # A repeated task reports files with other names. Spark would consider that as non-deterministic output, and end the job.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
}

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_NAME_OF_SOCKET = len("/.00000000-0000-0000-0000-000000000000.sock")
_LONGEST_SOCKET = 104
"""Maximum bytes of the path of a Unix domain socket: 108 on Linux, 104 on macOS, including the terminator."""
_LOOPBACK = re.compile(r"local|spark://(127\.0\.0\.1|localhost):")


class DeferredSession:
    """A session that is made when it is needed, or by another thread from :meth:`begin` on, while this one prepares what needs none."""

    def __init__(self, scratch: Path, settings: JvmSettings) -> None:
        self._scratch, self._settings = scratch, settings
        self._jvm: Jvm | None = None
        self._session: Future[SparkSession] | None = None

    def begin(self) -> None:
        """Starts the JVM, and makes the session in another thread."""
        if self._session is None:
            self._session, self._jvm = Future(), _jvm_for(self._settings)
            threading.Thread(target=self._make, args=(self._session,), name="cqels-opt session", daemon=True).start()

    def _make(self, session: Future[SparkSession]) -> None:
        try:
            session.set_result(_made(self._jvm, self._scratch, self._settings))
        except BaseException as error:  # noqa: BLE001 - get() raises it
            session.set_exception(error)

    def get(self) -> SparkSession:
        """The session, or the reason why there is none."""
        self.begin()
        assert self._session is not None
        return self._session.result()

    def stop(self) -> None:
        """Stops the session, or ends its JVM if it is still starting."""
        if self._session is None:
            return
        if not self._session.done() and self._jvm is not None:
            self._jvm.kill()
            self._session.exception()  # the other thread sees that the JVM has ended
            _forget(self._jvm)
        elif self._session.exception() is None:
            self._session.result().stop()


AnySession: TypeAlias = "SparkSession | DeferredSession"


def session_of(session: AnySession) -> SparkSession:
    """The session; makes one that is deferred, or waits for it."""
    return session.get() if isinstance(session, DeferredSession) else session


def make_session(master: str | None, scratch: Path, quiet: bool = True, works: bool = True) -> SparkSession:
    """A session for a command. Executors run this Python, or the one that ``PYSPARK_PYTHON`` names.

    A master on this machine uses the loopback address; for other masters Spark, or ``SPARK_LOCAL_IP``, chooses the driver's
    address. With ``quiet``, the JVM's standard error goes to a file. ``works`` is whether the JVM processes rows.
    """
    settings = JvmSettings(master or DEFAULT_MASTER, works=works, quiet=quiet)
    return _made(_jvm_for(settings), scratch, settings)


def _jvm_for(settings: JvmSettings) -> Jvm | None:
    """The JVM of the next session; None if this process has one, which all its sessions share."""
    return None if SparkContext._gateway is not None else take_jvm(settings)


def _made(jvm: Jvm | None, scratch: Path, given: JvmSettings) -> SparkSession:
    python = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("cqels-opt")
    settings = {
        **SETTINGS,
        **given.of_spark(),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.pyspark.python": python,
    }
    if _LOOPBACK.match(given.master) and not room_for_sockets(process_folder()):
        settings["spark.python.unix.domain.socket.dir"] = "/tmp"
    if _in_one_process(given.master):
        settings["spark.python.daemon.module"] = "cqels_opt.spark.worker_daemon"
    if CACHE_VARIABLE in os.environ:
        settings[f"spark.executorEnv.{CACHE_VARIABLE}"] = os.environ[CACHE_VARIABLE]
    if not _LOOPBACK.match(given.master):
        del settings["spark.driver.bindAddress"], settings["spark.driver.host"]
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = _started(builder, jvm, given.packages)
    if manager := _file_manager(session):
        session.conf.set(FILE_MANAGER, manager)
    session.sparkContext.setLogLevel("OFF" if given.quiet else "WARN")
    if given.quiet and (server := getattr(session.sparkContext, "_accumulatorServer", None)) is not None:
        server.handle_error = lambda *_: None  # PySpark prints a stack trace when the JVM is killed
    return session


def _forget(jvm: Jvm) -> None:
    """Another session of this process gets a JVM of its own."""
    if SparkContext._gateway is not None and SparkContext._gateway.proc is jvm.process:
        SparkContext._gateway = SparkContext._jvm = None


def room_for_sockets(temporary: Path) -> bool:
    """Whether the paths of Spark's sockets in the folder are short enough."""
    return len(os.fsencode(temporary)) + _NAME_OF_SOCKET < _LONGEST_SOCKET


def _started(builder: SparkSession.Builder, jvm: Jvm | None, packages: str | None) -> SparkSession:
    try:
        if jvm is not None:
            _connect(jvm)
        return builder.getOrCreate()
    except (PySparkException, RunError) as error:
        if packages is None:
            raise
        raise RunError(
            f"Spark did not start with {packages}: is there such a version, and is a Maven repository reachable? (--packages names "
            "others, --debug shows what Spark says)"
        ) from error


def _connect(jvm: Jvm) -> None:
    """Makes the JVM that of this process's sessions. PySpark reads where it is from variables."""
    variables = jvm.connect()
    os.environ.update(variables)
    try:
        SparkContext._ensure_initialized()
        SparkContext._gateway.proc = jvm.process  # type: ignore[union-attr]  # as long as it is referenced, its input is open
    finally:
        for name in variables:
            del os.environ[name]


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
    return _in_one_process(str(session.sparkContext.master))


def _in_one_process(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def tasks_may_connect(session: SparkSession) -> bool:
    """Whether tasks may connect to the driver's Python, and stay until a batch ends.

    Not in a cluster whose network is encrypted. Nor if tasks have speculative copies: Spark starts these when most of the tasks have ended.
    """
    if in_one_process(session):
        return True
    conf = session.sparkContext.getConf()
    return not any(str(conf.get(key, "false")).lower() == "true" for key in _SEPARATE_JOBS)


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
