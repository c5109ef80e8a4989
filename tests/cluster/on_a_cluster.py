"""Runs a query on a Spark master, in a process of its own, and says as JSON what happened where.

Usage: on_a_cluster.py FOLDER WORLD MASTER [STAGE:BATCH:FATE]... With STAGE (``ingest`` or ``evaluate``) and BATCH the first task of that
stage, in its first attempt, has done its work and written its files when FATE strikes, and it does not report: its ``executor``, the
``worker`` that started that, or the ``driver`` is killed with SIGKILL; it is ``slow`` until a speculative twin has done the same work; or
it is ``held`` until the file FOLDER/STAGE:BATCH:go is there: meanwhile Spark asks for another executor where tasks wait, and lets one
go that has none (dynamic allocation).
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark import RDD
from pyspark.sql import DataFrame

from cqels_opt.bench.social import PLACES_GRAPH
from cqels_opt.engine import Engine
from cqels_opt.runtime.evaluate_task import EvaluateTask
from cqels_opt.runtime.file_streams import finite_frontier
from cqels_opt.runtime.ingest import IngestReport, IngestTask
from cqels_opt.runtime.interfaces import StageReports
from cqels_opt.runtime.line_sinks import FileSink
from cqels_opt.runtime.registered_query import catalog_of
from cqels_opt.runtime.run_factory import make_driver
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.spark.batch_tasks import BatchTasks
from cqels_opt.spark.runner import SparkRunner
from cqels_opt.spark.session import SETTINGS, SparkSession, make_session
from cqels_opt.spark.stream import StreamRun, chunk_stream
from cqels_opt.spark.tasks import Numbered, task_number
from cqels_opt.state.remote_checkpoint import checkpoint_folder
from cqels_opt.storage.cache_folder import CACHE_VARIABLE
from cqels_opt.windows.batch_size import BatchSize
from cqels_opt.windows.replay import ReplaySource, cut

QUERY = Path(__file__).resolve().parents[2] / "bench" / "report_queries" / "q2.rq"
BATCH = 2000
CHECKPOINT = "CHECKPOINT"  # names a URI
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "50ms",
    "spark.speculation.multiplier": "1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.task.duration.threshold": "500ms",  # of a stage that has no other task to compare with
}

DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",  # there is no shuffle service
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "2s",
}


def above(name: bytes) -> int:
    """The process above this one with that word in its command: a task's executor, or the worker that started it."""
    pid = os.getpid()
    while name not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        assert pid > 1, f"no {name!r} above this process"
    return pid


def doomed(log: str, fate: str, driver: int) -> Callable[[int, Iterable[Any]], Iterator[Any]]:
    """A stage behind another one in the same tasks, or what follows a function of theirs. It notes attempts of the first part in ``log``,
    and the first one of all meets its fate.
    """

    def strike() -> None:
        if fate == "slow":
            while len(Path(log).read_text().splitlines()) < 2:  # the twin notes itself when it has done all that it does
                time.sleep(0.05)
            return
        if fate == "held":
            while not Path(f"{log}:go").exists():
                time.sleep(0.05)
            return
        found = {"executor": b"CoarseGrainedExecutorBackend", "worker": b"deploy.worker.Worker"}
        os.kill(above(found[fate]) if fate in found else driver, signal.SIGKILL)
        signal.pause()

    def run(part: int, before: Iterable[Any]) -> Iterator[Any]:
        held = list(before)  # the stage before has done all that it does
        if part == 0:
            first = not Path(log).exists()
            with Path(log).open("a") as file:
                file.write(f"{above(b'CoarseGrainedExecutorBackend')}\n")
            if first:
                strike()
        yield from held

    return run


def followed(work: Numbered, strike: Callable[[int, Iterable[Any]], Iterator[Any]]) -> Numbered:
    """A function of a task, and what follows it."""
    return lambda part: strike(part, work(part))


class Watched(SparkRunner):
    """Notes the bytes that tasks send to the driver, and lets a task meet its fate where asked to."""

    def __init__(self, spark: SparkSession, folder: Path, fates: Mapping[str, str]) -> None:
        super().__init__(spark, 2)
        self.folder, self.fates, self.now = folder, fates, ""
        self.collected: list[int] = []

    def ingest(self, rows: Any, task: IngestTask) -> list[IngestReport]:
        self.now = f"ingest:{task.batch}"
        return super().ingest(rows, task)

    def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> StageReports:
        self.now = f"evaluate:{tasks[0].step.batch}"
        return super().evaluate(tasks, parts)

    def strike(self) -> Callable[[int, Iterable[Any]], Iterator[Any]] | None:
        """What follows the tasks of this stage; None if they have no fate."""
        return doomed(str(self.folder / self.now), self.fates[self.now], os.getpid()) if self.now in self.fates else None

    def _batch_tasks(self) -> BatchTasks:
        if self._tasks is None:
            self._tasks = WatchedTasks(self)
        return self._tasks

    def _collect(self, frame: DataFrame, what: str) -> Iterator[Any]:
        if (strike := self.strike()) is not None:
            frame = frame.mapInArrow(lambda rows: strike(task_number(), rows), frame.schema)
        runner = self

        class Counted:
            def collect(self) -> list[Any]:
                rows = frame.collect()
                runner.collected.append(sum(len(row["report"]) for row in rows))
                return rows

        yield from super()._collect(Counted(), what)  # type: ignore[arg-type]

    def _reported(self, tasks: RDD[Any]) -> Iterator[Any]:
        if (strike := self.strike()) is not None:
            tasks = tasks.mapPartitionsWithIndex(strike)
        reports = list(super()._reported(tasks))
        self.collected.append(sum(len(pickle.dumps(report)) for report in reports))
        return iter(reports)


class WatchedTasks(BatchTasks):
    """The tasks that stay until a batch ends. Each runs the parts of its own number, also one that starts late, where both have a slot."""

    def __init__(self, runner: Watched) -> None:
        super().__init__(runner.spark.sparkContext, in_one_process=False)
        self.runner = runner

    def _part_for(self, task: int, waiting: Mapping[int, int | None]) -> int | None:
        if {"held", "worker"} & {*self.runner.fates.values()}:  # then there is one slot for a while
            return super()._part_for(task, waiting)
        return task if task in waiting else None

    def run(self, work: Numbered, parts: int = 1, tasks: int = 1) -> list[Any]:
        if (strike := self.runner.strike()) is not None:
            work = followed(work, strike)
        reports = super().run(work, parts, tasks)
        self.runner.collected.append(sum(len(pickle.dumps(report)) for report in reports))
        return reports


def main(folder: Path, world: Path, master: str, given: Sequence[str]) -> None:
    fates = dict(word.rsplit(":", 1) for word in given)
    if "slow" in fates.values():
        SETTINGS.update(SPECULATION)
    if "held" in fates.values():
        SETTINGS.update(DYNAMIC)
    spark = make_session(master, folder)
    if place := os.environ.get(CHECKPOINT):  # at a URI: this machine has a copy of its own
        os.environ[CACHE_VARIABLE] = str(folder / "driver")
    state = checkpoint_folder(place, "checkpoint") if place else folder
    engine = Engine(spark, static=world / "static.nt", graphs={PLACES_GRAPH: world / "places.nt"}, folder=folder / "registered")
    query = engine.register(QUERY.read_text(encoding="utf-8"))
    stream = query.program.streams[0]
    plan = cut([ReplaySource(stream, (world / "stream.ndjson",))], state / "replay", BatchSize(count=BATCH))
    frontier = finite_frontier(plan, 0, eager=False)
    runner = Watched(spark, folder, fates)
    options = DriverOptions(large=BATCH // 2)  # so that a batch is a large delta, with a share for each of both
    driver = make_driver(
        catalog_of([query], state),
        state,
        runner,
        FileSink(folder / "answers.jsonl"),
        frontier,
        options,
        folder / "trace.jsonl",
    )
    tracemalloc.start()
    streaming = StreamRun(driver, runner)
    if place:  # its tasks read the chunks, not Spark
        streaming.chunks = [plan.path(number) for number in range(len(plan.chunks))]
    streaming.start(chunk_stream(spark, plan.chunk_folder), state / "spark", to_the_end=True).await_termination()
    said = {
        "shares": [*runner.shares.values()],
        "collected": max(runner.collected),
        "peak": tracemalloc.get_traced_memory()[1],
        "attempts": {stage: (folder / stage).read_text().split() for stage in fates},
    }
    spark.stop()
    print(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4:])
