"""``cqels-opt bench start-up``: from a command to its first answer, over small data.

Contenders take turns, each in new processes: ``cqels-opt run --engine local``, ``cqels-opt run`` on Spark, and a Spark job that only
reads the same stream through one Python stage. The job has PySpark's own settings and, in another turn, the options with which
``cqels-opt`` starts its JVM. CPU seconds are those of all processes at the first answer: the driver, the JVM, and the Python workers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from rich.console import Console

from cqels_opt.bench.apart import scratch_folder
from cqels_opt.bench.circumstances import cpu_seconds
from cqels_opt.bench.tables import show_rows, start_up_rows
from cqels_opt.errors import RunError

ROUNDS, QUICK_ROUNDS = 5, 1
AUTHORS, COAUTHOR_PAIRS, ELEMENTS = 600, 6_000, 1_000
PLAIN_JOB = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[*]").config("spark.log.level", "OFF").getOrCreate()
schema = "s string, p string, o string, t long"
rows = spark.readStream.schema(schema).json(sys.argv[1]).mapInArrow(lambda batches: batches, schema)
job = rows.writeStream.foreachBatch(lambda batch, number: print(batch.collect()[0].s, flush=True))
job.trigger(availableNow=True).start().awaitTermination()
spark.stop()
"""
"""A streaming job whose one Python stage passes rows on; it prints the first row."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start: seconds from the command to its first answer, and CPU seconds until then."""

    contender: str
    seconds: float
    driver: float
    jvm: float
    workers: float
    load: float


def study(quick: bool) -> dict[str, Any]:
    """The starts of all contenders, after one of each that fills the cache folder and the page cache."""
    progress = Console(stderr=True)
    starts: list[Start] = []
    with scratch_folder() as scratch:
        contenders = commands(scratch)
        for number in range((QUICK_ROUNDS if quick else ROUNDS) + 1):
            for name, (command, environment) in contenders.items():
                progress.print(f"start-up: {name}, {'warm-up' if not number else f'round {number}'}")
                found = first_answer(name, command, {**_of_a_user(), **environment})
                starts += [found] if number else []
    return {"elements": ELEMENTS, "starts": [asdict(start) for start in starts]}


def _of_a_user() -> dict[str, str]:
    """The environment of a process that keeps the bytecode of modules, as is the default."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYSPARK_PYTHON": sys.executable}


def commands(folder: Path) -> dict[str, tuple[list[str], Mapping[str, str]]]:
    """The command of each contender with its environment; the data are made in a folder."""
    from cqels_opt.bench.scenarios import QUERIES
    from cqels_opt.bench.social import PLACES_GRAPH, STREAM, social
    from cqels_opt.spark.class_archive import archive_options
    from cqels_opt.spark.jvm import FAST_START

    social(folder / "world", authors=AUTHORS, coauthor_pairs=COAUTHOR_PAIRS, elements=ELEMENTS)
    stream, static, places = (str(folder / "world" / name) for name in ("stream.ndjson", "static.nt", "places.nt"))
    run = [sys.executable, "-m", "cqels_opt.cli.main", "run", str(QUERIES / "q1.rq"), "--stream", STREAM.strip("<>"), stream]
    run += ["--static", static, "--graph", PLACES_GRAPH.strip("<>"), places, "--batch", "1000", "--out", "-"]
    plain = [sys.executable, "-c", PLAIN_JOB, stream.replace(".ndjson", "*.ndjson")]
    ours = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {archive_options(False)} {FAST_START}".strip()
    return {
        "in process": ([*run, "--engine", "local"], {}),
        "run": (run, {}),
        "plain job": (plain, {}),
        "plain job, our JVM options": (plain, {"SPARK_SUBMIT_OPTS": ours}),
    }


def first_answer(name: str, command: list[str], environment: Mapping[str, str]) -> Start:
    """Starts a command, and measures when it prints its first line. RunError if it prints none."""
    began = time.monotonic()
    with (
        TemporaryFile() as errors,  # a pipe that is not read blocks the command when it is full
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds, used = time.monotonic() - began, cpu_seconds(process.pid)
        process.communicate()
        errors.seek(0)
        messages = errors.read().decode(errors="replace").strip().splitlines()
    if not line or process.returncode:
        reason = f": {messages[-1]}" if messages else ""
        raise RunError(f"{name}: no answer (exit code {process.returncode}){reason}")
    return Start(name, seconds, *used, os.getloadavg()[0])


def show(found: Mapping[str, Any]) -> None:
    """Prints medians by contender."""
    show_rows(start_up_rows(found))
