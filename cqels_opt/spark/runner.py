"""The runner that ships tasks to Spark's executors, in one job a stage: reports come back, rows do not."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from cqels_opt.errors import CqelsOptError
from cqels_opt.operators.driver import Evaluated
from cqels_opt.operators.evaluate import EvaluateReport, EvaluateTask, FinishReport, evaluate, finish
from cqels_opt.operators.ingest import ROW_SCHEMA, IngestReport, IngestTask, Rejected, ingest
from cqels_opt.operators.local import finish_parts, whole
from cqels_opt.spark.files import FileBatch, OrderedBatch, in_order, modified, read_files

Batches = Iterator[pa.RecordBatch]
REPORT = "report binary"
SHARE = "part long, report binary"


def task_name() -> str:
    """A name for what this attempt of a task writes: no retry and no speculative twin has the same."""
    context = TaskContext.get()
    return f"{context.partitionId()}a{context.taskAttemptId()}" if context else "d"


def answering(run: Callable[[], Iterator[tuple[int, Any]]], with_part: bool = False) -> Batches:
    """Runs a task and yields its pickled reports; our own errors travel as reports, so that users get their one sentence."""
    try:
        found = list(run())
    except CqelsOptError as error:
        found = [(0, error)]
    if found:
        columns: dict[str, Any] = {"part": pa.array([part for part, _ in found], pa.int64())} if with_part else {}
        columns["report"] = pa.array([pickle.dumps(report) for _, report in found], pa.binary())
        yield pa.RecordBatch.from_pydict(columns)


class SparkRunner:
    """Runs the stages of micro-batches on a session. ``parallelism`` is the number of task slots."""

    def __init__(self, spark: SparkSession, parallelism: int | None = None) -> None:
        self.spark = spark
        self.parallelism = parallelism or spark.sparkContext.defaultParallelism
        self.shares: Counter[str] = Counter()  # rows that each executor's Python has made
        self.settings: dict[str, str] = {}  # what a session's planner was set to, where that mattered
        self._tag = ""

    # -------------------------------------------------------------- counting jobs
    def begin(self, batch: int) -> None:
        """Tags the jobs that follow."""
        context = self.spark.sparkContext
        if self._tag:
            context.removeJobTag(self._tag)
        self._tag = f"cqels-opt-{id(self)}-{batch}-{os.urandom(3).hex()}"
        context.addJobTag(self._tag)

    @property
    def jobs(self) -> int:
        """Spark jobs with the tag of the batch, as Spark's own status tracker counts them."""
        tracker = self.spark.sparkContext._jsc.sc().statusTracker()
        return len(tracker.getJobIdsForTag(self._tag)) if self._tag else 0

    # -------------------------------------------------------------- stages
    def ingest(self, rows: DataFrame | FileBatch | OrderedBatch, task: IngestTask) -> list[IngestReport]:
        """The first stage: a job over the batch's rows, or over the files that the batch names."""
        reading = rows.reading if isinstance(rows, FileBatch) else None
        order = (rows.greatest, rows.lateness) if isinstance(rows, OrderedBatch) else None
        frame = rows.frame if isinstance(rows, FileBatch | OrderedBatch) else rows

        def run(batches: Batches) -> Batches:
            held = list(batches)

            def work() -> Iterator[tuple[int, IngestReport]]:
                rejected: list[Rejected] = []
                if reading is not None:
                    table, rejected = read_files(pa.Table.from_batches(held), reading, task)
                else:
                    table = pa.Table.from_batches(held).cast(ROW_SCHEMA)
                    table = in_order(table, *order) if order else table
                report = ingest(table, task, task_name())
                report.rejected += rejected
                if reading is not None:
                    report.modified = modified(pa.Table.from_batches(held))
                yield 0, report

            return answering(work) if held else iter(())

        return list(self._collect(frame.mapInArrow(run, REPORT)))

    def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> Evaluated:
        """The second stage in one job: one task for a small batch, else a task a share and, behind a shuffle of names, the answers."""
        if parts == 1:
            return self._gather(self.spark.range(0, 1, 1, 1).mapInArrow(_whole(tasks), REPORT))
        spread = max(finish_parts(task.program, parts) for task in tasks)
        shares = self.spark.range(0, parts, 1, parts).mapInArrow(_share(tasks, parts, spread), SHARE)
        return self._gather(shares.repartition(spread, "part").mapInArrow(_finish(tasks, parts), REPORT))

    def _gather(self, frame: DataFrame) -> Evaluated:
        done = Evaluated()
        for name, report in self._collect(frame):
            if isinstance(report, FinishReport):
                done.finished.setdefault(name, []).append(report)
            else:
                done.shares.setdefault(name, []).append(report)
                self.shares[report.worker] += report.probed
        return done

    def _collect(self, frame: DataFrame) -> Iterator[Any]:
        for row in frame.collect():
            report = pickle.loads(row["report"])
            if isinstance(report, CqelsOptError):
                raise report
            yield report


def _whole(tasks: Sequence[EvaluateTask]) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        for _ in batches:  # one row that says: go
            continue

        def work() -> Iterator[tuple[int, Any]]:
            for task in tasks:
                for report in whole(task, task_name()):
                    yield 0, (task.program.id, report)

        return answering(work)

    return run


def _share(tasks: Sequence[EvaluateTask], parts: int, spread: int) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        mine = [int(part) for batch in batches for part in batch.column("id").to_numpy()]

        def work() -> Iterator[tuple[int, Any]]:
            for part in mine:
                for task in tasks:
                    report = evaluate(task, f"{task_name()}p{part}", part, parts, None)
                    for to in range(finish_parts(task.program, parts)):
                        yield to, (task.program.id, report)

        return answering(work, with_part=True)

    return run


def _finish(tasks: Sequence[EvaluateTask], parts: int) -> Callable[[Batches], Batches]:
    by_id = {task.program.id: task for task in tasks}

    def run(batches: Batches) -> Batches:
        heard: dict[tuple[int, str], list[EvaluateReport]] = {}
        failed: list[CqelsOptError] = []
        for batch in batches:
            parts_of = batch.column("part").to_numpy()
            for part, blob in zip(parts_of, batch.column("report")):
                said = pickle.loads(blob.as_py() or b"")
                if isinstance(said, CqelsOptError):
                    failed.append(said)
                else:
                    heard.setdefault((int(part), said[0]), []).append(said[1])

        def work() -> Iterator[tuple[int, Any]]:
            if failed:
                raise failed[0]
            for (part, name), shares in heard.items():
                task = by_id[name]
                fresh = [f for share in shares for f in share.fresh]
                yield 0, (name, finish(task, f"{task_name()}p{part}", fresh, part, finish_parts(task.program, parts)))
                if part == 0:
                    for share in shares:
                        yield 0, (name, share)

        return answering(work)

    return run
