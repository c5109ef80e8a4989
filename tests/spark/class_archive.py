"""``.venv/spark-classes.jsa``: Spark's classes in the form of a JVM's memory; the tests' JVMs need not read or verify them again.

A JVM with other jars, or another Java version, ignores the archive
(https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from small_world import CROWDS, write_query, write_world

from cqels_opt.spark.class_archive import is_complete

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"


LONGEST = 60.0
"""Seconds to wait for the archive after the command has ended."""


def make(archive: Path) -> None:
    """Runs a small query whose JVM writes the archive as it exits, seconds after the command; writes nothing on failure."""
    half = archive.with_suffix(".half")
    half.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        world, query = write_world(folder, 200), write_query(folder, CROWDS)
        words = ["run", str(query), *world.words, "--batch", "50", "--out", str(folder / "answers.jsonl")]
        options = (
            f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -XX:ArchiveClassesAtExit={half}"  # as tests/conftest.py
        )
        command = [sys.executable, "-m", "cqels_opt.cli.main", *words]
        environment = {**os.environ, "SPARK_SUBMIT_OPTS": options}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    end = time.monotonic() + LONGEST
    while not done.returncode and not is_complete(half) and time.monotonic() < end:
        time.sleep(0.2)
    if not is_complete(half):
        print(f"no archive of Spark's classes, tests take longer: {done.stdout}", file=sys.stderr)
    else:
        half.rename(archive)


if __name__ == "__main__":
    make(ARCHIVE)
