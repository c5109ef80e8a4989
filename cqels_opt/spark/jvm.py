"""The JVM of a command's session, started before the session is made: it starts while this process imports and parses.

This module imports neither pyspark nor anything else that takes long. The JVM is that of ``spark-submit``, with its settings.
"""

from __future__ import annotations

import os
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cqels_opt.errors import RunError
from cqels_opt.spark.class_archive import USE, archive_file, archive_options, spark_home
from cqels_opt.spark.scratch import process_folder

DEFAULT_MASTER = "local[*]"
_POLL = 0.02
_CONNECTION = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_LENGTH = struct.Struct("!i")
FAST_START = "-XX:TieredStopAtLevel=1"
"""Compiles once and lightly. Most of what the optimizing compiler gains a JVM that only schedules tasks, it takes itself."""
_LAUNCHER = f"{FAST_START} -XX:+UseSerialGC"  # of the JVM that reads the settings and prints the command of the other one


@dataclass(frozen=True, slots=True)
class JvmSettings:
    """What a JVM is started with. The rest of a session's settings is set when the session is made.

    ``packages`` are Maven coordinates that Spark fetches before it starts. ``works`` is whether the JVM processes rows. ``quiet`` sends
    its standard error to a file. ``conf`` are further settings of the user.
    """

    master: str = DEFAULT_MASTER
    packages: str | None = None
    works: bool = False
    quiet: bool = True
    conf: tuple[tuple[str, str], ...] = ()

    def of_spark(self) -> dict[str, str]:
        """These settings under Spark's names."""
        packages = {} if self.packages is None else {"spark.jars.packages": self.packages}
        return {"spark.master": self.master, **packages, **dict(self.conf)}


@dataclass(slots=True)
class Jvm:
    """A JVM that starts; it ends with this process, whose end it sees at its standard input. ``archive`` is that of the classes it maps."""

    process: subprocess.Popen[bytes]
    connection: Path
    settings: JvmSettings
    archive: Path | None

    def connect(self) -> Mapping[str, str]:
        """Waits for the JVM; the variables through which PySpark finds it. RunError if it has ended.

        A damaged archive can end a JVM: another one starts without it and, if that lives, the archive is deleted.
        """
        try:
            return self._connected()
        except RunError:
            if self.archive is None:
                raise
        again = start_jvm(self.settings, archived=False)
        self.process, self.connection = again.process, again.connection
        variables = self._connected()
        self.archive.unlink(missing_ok=True)
        return variables

    def _connected(self) -> Mapping[str, str]:
        while not self.connection.exists():
            if self.process.poll() is not None and not self.connection.exists():
                raise RunError("the JVM of Spark ended before it was ready; --debug shows what it prints")
            time.sleep(_POLL)
        content = self.connection.read_bytes()
        (port,), rest = _LENGTH.unpack_from(content), content[_LENGTH.size :]
        (length,) = _LENGTH.unpack_from(rest)
        secret = rest[_LENGTH.size : _LENGTH.size + length].decode()
        return {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}

    def kill(self) -> None:
        """Ends it at once."""
        self.process.kill()
        self.process.wait()


_started: list[Jvm] = []
"""The JVM that no session uses yet."""


@contextmanager
def jvm_started(settings: JvmSettings) -> Iterator[None]:
    """A JVM for the session that is made inside. It is ended if none is made; a process that has a JVM already keeps that."""
    pyspark = sys.modules.get("pyspark")
    if pyspark is None or pyspark.SparkContext._gateway is None:
        _started.append(start_jvm(settings))
    try:
        yield
    finally:
        while _started:
            _started.pop().kill()


def take_jvm(settings: JvmSettings) -> Jvm:
    """The JVM that was started with these settings, or else a new one."""
    if _started and _started[-1].settings == settings:
        return _started.pop()
    return start_jvm(settings)


def start_jvm(settings: JvmSettings, archived: bool = True) -> Jvm:
    """Starts a JVM and does not wait for it; ``archived``: with the archive of classes, or so that it makes one.

    The JVM ignores Ctrl-C and SIGTERM, which this process handles: a service manager sends SIGTERM to all processes at once, and the
    current batch needs the JVM to finish.
    """
    home = spark_home()
    if home is None:
        raise RunError("there is no Spark: neither in SPARK_HOME nor as the package pyspark")
    temporary = process_folder()
    connection = Path(tempfile.mkdtemp(prefix="jvm-", dir=temporary)) / "connection"
    given = [word for key, value in settings.of_spark().items() for word in ("--conf", f"{key}={value}")]
    command = [str(home / "bin" / "spark-submit"), *given, *shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))]
    of_archive = archive_options(make=True) if archived else ""
    options = (
        of_archive,
        "" if settings.works else FAST_START,
        os.environ.get("SPARK_SUBMIT_OPTS", ""),
        f'"-Djava.io.tmpdir={temporary}"',
    )
    environment = {
        **os.environ,
        "SPARK_SUBMIT_OPTS": " ".join(filter(None, options)),  # the user's follow ours, so they win
        "SPARK_LAUNCHER_OPTS": f"{_LAUNCHER} {os.environ.get('SPARK_LAUNCHER_OPTS', '')}".strip(),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "SPARK_CONNECT_MODE": "0",
        _CONNECTION: str(connection),
    }
    with (temporary / "spark.log").open("ab") as log:
        output = log if settings.quiet else sys.stderr  # not that of the answers, which ends with the command
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment, preexec_fn=_ignore_signals
        )
    return Jvm(process, connection, settings, archive_file() if USE in of_archive else None)


def _ignore_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
