"""Loads static RDF into a store in parallel, on Spark's executors; see :mod:`cqels_opt.lod.load`."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

from cqels_opt.errors import CqelsOptError
from cqels_opt.lod import load as loading
from cqels_opt.lod.load import LoadReport, Progress, performed
from cqels_opt.lod.loading import Outcome, Task
from cqels_opt.rdf.ids import CollisionError
from cqels_opt.rdf.static import StaticSource
from cqels_opt.spark.job_descriptions import described
from cqels_opt.spark.session import AnySession, session_of

__all__ = ["LoadReport", "StaticSource", "load"]

_POLL_SECONDS: Final = 0.2


def load(
    spark: AnySession,
    sources: Sequence[StaticSource],
    target: Path | str,
    **options: Any,
) -> LoadReport:
    """Loads static data with a session, which a small input does not need; see :func:`cqels_opt.lod.load.load`."""
    return loading.load(_Executors(spark), sources, target, **options)


@dataclass(frozen=True, slots=True)
class _Executors:
    """The executors of a session, which is made when tasks need it."""

    session: AnySession

    @property
    def cores(self) -> int:
        """The number of tasks that run at the same time."""
        return session_of(self.session).sparkContext.defaultParallelism

    def run(self, name: str, tasks: Sequence[Task], progress: Progress | None = None) -> list[Outcome]:
        """Runs a job of the tasks."""
        return _run(session_of(self.session), name, tasks, progress)


def _run(spark: SparkSession, name: str, tasks: Sequence[Task], progress: Progress | None = None) -> list[Outcome]:
    """Runs one job with a task per function. Our errors return as data; the first one in task order is raised."""
    frozen = [pickle.dumps(task) for task in tasks]

    def perform(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_numpy().tolist():
                result = pa.array([_attempt(frozen[number])], pa.binary())
                yield pa.RecordBatch.from_arrays([pa.array([number], pa.int64()), result], ["task", "result"])

    frame = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(perform, "task long, result binary")
    with described(spark.sparkContext, name), _watched(spark, name, progress):
        rows = frame.collect()
    results = [pickle.loads(row["result"]) for row in sorted(rows, key=lambda row: row["task"])]
    outcomes: list[Outcome] = []
    if losers := [text for result in results if isinstance(result, CollisionError) for text in result.losers]:
        raise CollisionError(losers)
    for result in results:
        if isinstance(result, CqelsOptError):
            raise result
        outcomes.append(result)
    return outcomes


def _attempt(task: bytes) -> bytes:
    try:
        return pickle.dumps(performed(pickle.loads(task)))
    except CqelsOptError as error:
        return pickle.dumps(error)


@contextmanager
def _watched(spark: SparkSession, name: str, progress: Progress | None) -> Iterator[None]:
    """Reports the finished tasks of the jobs that run inside, about five times per second; they are a job group for that time."""
    if progress is None:
        yield
        return
    context, group, done = spark.sparkContext, f"cqels-opt {name} {uuid4().hex}", threading.Event()
    tracker = context.statusTracker()

    def watch() -> None:
        while not done.wait(_POLL_SECONDS):
            for job in tracker.getJobIdsForGroup(group):
                info = tracker.getJobInfo(job)
                for stage in info.stageIds if info else ():
                    status = tracker.getStageInfo(stage)
                    if status is not None and status.numTasks:
                        progress(status.numCompletedTasks, status.numTasks)

    before = context.getLocalProperty("spark.jobGroup.id")
    context.setLocalProperty("spark.jobGroup.id", group)
    watcher = threading.Thread(target=watch, name=group, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        context.setLocalProperty("spark.jobGroup.id", before)  # type: ignore[arg-type]  # None removes the property
