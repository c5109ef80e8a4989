"""Contenders alternate on every micro-batch of one streaming job in one JVM; answers are compared before times are shown.

Other load on the machine affects all contenders then. Before a turn begins, the process tree is idle: work that a contender leaves
in the background counts for its own CPU seconds and does not slow the next one. At full size, a first pass over small data of the
same shape loads classes; it uses other objects and other files, so each contender's first measured micro-batch is the first of its
job.
"""

from __future__ import annotations

import os
import pickle
import re
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import perf_counter, sleep

from rich.console import Console

from cqels_opt.adaptive_join import JoinRun
from cqels_opt.bench import apart
from cqels_opt.bench.apart import empty_folder
from cqels_opt.bench.circumstances import CpuSeconds, cpu_seconds
from cqels_opt.bench.dataframe_jobs.job import Batch, Case, Digest, Job, Sink, files_of
from cqels_opt.bench.measure import order
from cqels_opt.errors import RunError
from cqels_opt.spark.extension import ENABLED, EXTENSION, spark_extension
from cqels_opt.spark.plain_join import DataFrame
from cqels_opt.spark.session import SparkSession, make_session, settings

IDLE, INTERVAL, LONGEST_WAIT = 0.02, 0.1, 50
"""The process tree is idle if it uses at most ``IDLE`` CPU seconds in ``INTERVAL`` seconds; it is awaited that often."""
CODE = 2_000
"""Classes of generated code that the JVM keeps; by default 100, for which a job has no rivals, while here all contenders use one cache."""
LOOK = 1.0
"""Seconds between two readings of which contender has its turn."""
RUNNING, FOUND = "running", "found"
"""Files of a measurement: the contender whose turn it is, and what has been measured so far."""

OUT_OF_MEMORY = re.compile(r"\[UNABLE_TO_ACQUIRE_MEMORY\][^\n]*|java\.lang\.OutOfMemoryError[^\n]*")


@dataclass(slots=True)
class Measured:
    """Times, CPU seconds, digests and plans of a contender by micro-batch, and the reason if it did not finish."""

    milliseconds: list[float] = field(default_factory=list)
    cpu: list[CpuSeconds] = field(default_factory=list)
    digests: list[Digest] = field(default_factory=list)
    plans: list[str] = field(default_factory=list)
    switches: int | None = None
    failure: str | None = None


def check(measured: Mapping[str, Measured], number: int) -> None:
    """RunError if contenders differ in their answers of a micro-batch."""
    digests = {name: one.digests[number] for name, one in measured.items() if number < len(one.digests)}
    base = next(iter(digests), "")
    for name, digest in digests.items():
        if digest != digests[base]:
            raise RunError(
                f"{name} gives other answers than {base} in micro-batch {number}: {digest[0]:,} rows, not {digests[base][0]:,}"
                if digest[0] != digests[base][0]
                else f"{name} gives other answers than {base} in micro-batch {number}: {digest[0]:,} rows with other values"
            )


# ------------------------------------------------------------------ in the process of a job
@dataclass(slots=True)
class Turns:
    """A ``foreachBatch`` function: runs and measures each contender on a micro-batch."""

    runs: Mapping[str, Batch]
    sinks: Mapping[str, Sink]
    settings: Mapping[str, Mapping[str, str]]
    files: int
    folder: Path
    shown: bool = True
    measured: dict[str, Measured] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.measured = {name: Measured() for name in self.runs}

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Gives every contender that has not failed its turn; then compares answers, stores and shows the measurements."""
        used = cpu_when_idle()
        for name in order(self.runs, number):
            if self.measured[name].failure is None:
                (self.folder / RUNNING).write_text(name, encoding="utf-8")
                used = self._turn(name, frame, number, used)
                (self.folder / RUNNING).unlink()
        (self.folder / FOUND).write_bytes(pickle.dumps(self.measured))
        check(self.measured, number)
        if self.shown:
            taken = ", ".join(
                f"{name} failed" if one.failure is not None else f"{name} {one.milliseconds[-1]:,.0f} ms"
                for name, one in self.measured.items()
            )
            progress = Console(stderr=True, highlight=False)
            progress.print(f"micro-batch {number + 1} of {self.files}: {taken}", soft_wrap=True)

    def _turn(self, name: str, frame: DataFrame, number: int, before: CpuSeconds) -> CpuSeconds:
        """Runs a contender; ``before`` are the CPU seconds when its turn begins, the result those when it has ended."""
        run, mine = self.runs[name], self.measured[name]
        with settings(frame.sparkSession, self.settings[name]):
            begun = perf_counter()
            try:
                own = run(frame, number)
            except Exception as error:  # noqa: BLE001 - a failure is a result, and the others continue
                _end_without_jvm(frame.sparkSession)
                mine.failure = f"micro-batch {number}: {reason(error)}"
                self.sinks[name].take()
                return cpu_when_idle()
            took = 1000 * (perf_counter() - begun)
        mine.milliseconds.append(took if own is None else own)
        after = cpu_when_idle()
        mine.cpu.append(CpuSeconds(*(b - a for a, b in zip(before, after))))
        mine.digests.append(self.sinks[name].take())
        if isinstance(run, JoinRun):
            mine.plans.append("; ".join(run.plans().values()))
            mine.switches = run.switches
        return after


def cpu_when_idle() -> CpuSeconds:
    """The CPU seconds of this process tree, as soon as it is idle."""
    found = cpu_seconds(os.getpid())
    for _ in range(LONGEST_WAIT):
        sleep(INTERVAL)
        before, found = found, cpu_seconds(os.getpid())
        if sum(found) - sum(before) <= IDLE:
            break
    return found


def reason(error: BaseException) -> str:
    """The first line of an error, and what it says about memory."""
    text = str(error).strip()
    found = [f"{type(error).__name__}: {text.partition(chr(10))[0]}"]
    if memory := OUT_OF_MEMORY.search(text):
        found.append(memory.group())
    return " … ".join(found)


def _end_without_jvm(spark: SparkSession) -> None:
    """Ends this process if the JVM has ended: another one continues with the other contenders."""
    try:
        spark.range(1).count()
    except Exception:  # noqa: BLE001 - whatever it is, nothing can run any more
        os._exit(1)


def take_turns(job: Job, quick: bool, folder: Path, names: Sequence[str]) -> None:
    """Runs the contenders in this process and its JVM."""
    words = ["--driver-memory", job.memory, "--conf", f"spark.sql.codegen.cache.maxEntries={CODE}"]
    if any(job.contenders[name].extension for name in names):
        words += ["--jars", spark_extension(), "--conf", f"spark.sql.extensions={EXTENSION}", "--conf", f"{ENABLED}=false"]
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*words, "pyspark-shell"])
    spark = make_session(None, empty_folder(folder / "spark"), works=not quick)  # quick: the JVM compiles lightly
    for key, value in job.settings.items():
        spark.conf.set(key, value)
    if not quick:
        one_pass(spark, job, True, folder, "warm-up", names)
        spark.catalog.clearCache()
    one_pass(spark, job, quick, folder, "data", names)
    spark.stop()


def one_pass(spark: SparkSession, job: Job, quick: bool, folder: Path, part: str, names: Sequence[str]) -> dict[str, Measured]:
    """Runs the contenders on all micro-batches of the data in the folder ``part``."""
    data, own = folder / part, empty_folder(folder / f"state-{part}")
    tables = job.tables(spark, data)
    sinks = {name: Sink(job.columns) for name in names}
    cases = {name: Case(spark, data, empty_folder(own / f"{k}"), tables, sinks[name], quick) for k, name in enumerate(names)}
    runs = {name: job.contenders[name].start(case) for name, case in cases.items()}
    during, files = {name: job.contenders[name].settings() for name in names}, len(files_of(data / job.stream))
    turns = Turns(runs, sinks, during, files, folder, shown=part == "data")
    schema = spark.read.parquet(str(data / job.stream)).schema
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(data / job.stream))
    writer = frame.writeStream.foreachBatch(turns).option("checkpointLocation", str(own / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    for query in spark.streams.active:
        query.stop()
    return turns.measured


# ------------------------------------------------------------------ from outside
def _ended(process: BaseProcess, folder: Path, limit: float) -> tuple[str, str]:
    """Waits for the process, and kills it when one contender has had its turn for more than ``limit`` seconds in total; returns the
    contender whose turn it was (empty: between two turns), and the reason."""
    seconds = defaultdict[str, float](float)
    while process.is_alive():
        before = perf_counter()
        process.join(LOOK)
        seconds[name := _running(folder)] += perf_counter() - before
        if seconds[name] > limit and process.is_alive():
            apart.kill(process)
            return name, f"no end after {limit:,.0f} s"
    return _running(folder), f"its process ended (exit code {process.exitcode})"


def _running(folder: Path) -> str:
    """The contender whose turn it is."""
    try:
        return (folder / RUNNING).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def measure(job: Job, quick: bool, folder: Path) -> dict[str, Measured]:
    """The measurements of a job whose data are in the folder.

    If the process or its JVM ends during a turn, that contender has failed, and another process runs the others from the start.
    """
    failed: dict[str, Measured] = {}
    while names := [name for name in job.contenders if name not in failed]:
        (folder / FOUND).unlink(missing_ok=True)
        (folder / RUNNING).unlink(missing_ok=True)
        process = apart.start(take_turns, job, quick, folder, names)
        name, why = _ended(process, folder, job.limit)
        if process.exitcode == 0 or not name:
            break
        failed[name] = Measured(failure=why)
    measured: dict[str, Measured] = pickle.loads((folder / FOUND).read_bytes()) if (folder / FOUND).exists() else {}
    for number in range(max((len(one.digests) for one in measured.values()), default=0)):
        check(measured, number)
    if names and process.exitcode:
        raise RunError(f"{job.name}: a run in a process of its own failed (exit code {process.exitcode})")
    return {name: failed.get(name) or measured[name] for name in job.contenders}
