"""The Spark session of the command line, and what a session must be for us."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from pyspark.sql import SparkSession

from cqels_opt.lod.places import CACHE_VARIABLE

__all__ = ["IN_A_BATCH", "SparkSession", "make_session"]

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.files.maxPartitionBytes": "8m",
    "spark.python.worker.reuse": "true",
    "spark.python.unix.domain.socket.enabled": "true",  # over TCP each hand-over to a worker waits 40 ms for an acknowledgement
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
IN_A_BATCH = {
    "spark.sql.adaptive.enabled": "false",  # it would make a job of each stage
    # A task that is done again reports files with other names. Spark would take that for data that is not to be trusted, and end the job.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
}


def make_session(master: str | None, scratch: Path, quiet: bool = True) -> SparkSession:
    """A session for a command. Executors run this very Python (PySpark reads it from the environment).

    The JVM's own standard error, with Spark's greetings and warnings, goes to ``spark.log`` below ``scratch`` unless not ``quiet``.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    master = master or "local[*]"
    builder = SparkSession.builder.appName("cqels-opt").master(master)
    settings = {**SETTINGS, "spark.sql.warehouse.dir": str(scratch / "warehouse"), "spark.pyspark.python": sys.executable}
    if CACHE_VARIABLE in os.environ:
        settings[f"spark.executorEnv.{CACHE_VARIABLE}"] = os.environ[CACHE_VARIABLE]
    if not master.startswith("local"):
        del settings["spark.driver.bindAddress"], settings["spark.driver.host"]
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _standard_error_to(scratch / "spark.log") if quiet else nullcontext():
        session = builder.getOrCreate()
        if manager := _file_manager(session):
            session.conf.set("spark.sql.streaming.checkpointFileManagerClass", manager)
        session.sparkContext.setLogLevel("OFF" if quiet else "WARN")
    return session


def _file_manager(session: SparkSession) -> str | None:
    """The class that writes Spark's logs of a checkpoint through ``FileSystem``; its package has changed between versions.

    Spark's own choice, through ``FileContext``, starts a process for much of what it does with a local file where Hadoop's native
    library is absent, which is 70 to 90 ms a batch.
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
    """What is started meanwhile inherits the file as its standard error."""
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
