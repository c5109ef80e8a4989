"""The runner that ships tasks to Spark's executors, in one job per stage: reports return to the driver, rows do not."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import RDD
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from cqels_opt.errors import CqelsOptError, RunError
from cqels_opt.runtime.evaluate import EvaluateReport, EvaluateTask, evaluate, finish, finish_parts
from cqels_opt.runtime.ingest import ROW_SCHEMA, FileRead, IngestReport, IngestTask, ingest
from cqels_opt.runtime.interfaces import Evaluated
from cqels_opt.runtime.local_runner import whole
from cqels_opt.spark.batch_task import BatchTask
from cqels_opt.spark.chunks import Piece, read, shares
from cqels_opt.spark.files import FileBatch, NumberedBatch, OrderedBatch, in_order, in_places, read_files
from cqels_opt.spark.messages import MessageBatch, check_topics, read_messages, topics_of
from cqels_opt.spark.session import in_one_process
from cqels_opt.spark.tasks import (
    COMMITTING,
    Shuffled,
    Work,
    answered,
    one_stage,
    reported,
    slots,
    task_name,
    task_number,
    two_stages,
)
from cqels_opt.spark.warm_up import await_worker
from cqels_opt.state.compaction import MergeTask, merge
from cqels_opt.storage import disk
from cqels_opt.windows.admission import Admitted
from cqels_opt.windows.binding_slots import SlotFile

Batches = Iterator[pa.RecordBatch]
REPORT = "report binary"


def answering(run: Callable[[], Iterator[tuple[int, Any]]], with_part: bool = False) -> Batches:
    """Runs a task and yields its pickled reports; see :func:`answered`."""
    found = [(0, report) if isinstance(report, CqelsOptError) else report for report in answered(run)]
    if found:
        columns: dict[str, Any] = {"part": pa.array([part for part, _ in found], pa.int64())} if with_part else {}
        columns["report"] = pa.array([pickle.dumps(report) for _, report in found], pa.binary())
        yield pa.RecordBatch.from_pydict(columns)


class SparkRunner:
    """Runs the stages of micro-batches on a session. ``parallelism`` is the number of task slots."""

    def __init__(self, spark: SparkSession, parallelism: int | None = None) -> None:
        self.spark = spark
        self.parallelism = parallelism or spark.sparkContext.defaultParallelism
        self.shares: Counter[str] = Counter()  # rows produced by each executor's Python process
        self.settings: dict[str, str] = {}  # effective planner settings of a session, where they matter
        self._tag = ""
        self._slots: dict[int, RDD[int]] = {}
        self._task: BatchTask | None = None  # of small batches

    # -------------------------------------------------------------- job counts
    def begin(self, batch: int) -> None:
        """Tags all following jobs."""
        context = self.spark.sparkContext
        if self._tag:
            context.removeJobTag(self._tag)
        self._tag = f"cqels-opt-{id(self)}-{batch}-{os.urandom(3).hex()}"
        context.addJobTag(self._tag)
        context.setLocalProperty(COMMITTING, disk.machine())

    @property
    def jobs(self) -> int:
        """The number of Spark jobs with the tag of the batch, from Spark's status tracker."""
        tracker = self.spark.sparkContext._jsc.sc().statusTracker()
        return len(tracker.getJobIdsForTag(self._tag)) if self._tag else 0

    def cancel(self) -> None:
        """Cancels the batch's running jobs."""
        if self._tag:
            self.spark.sparkContext.cancelJobsWithTag(self._tag)

    # -------------------------------------------------------------- stages
    def ingest(
        self, rows: DataFrame | Path | FileBatch | OrderedBatch | NumberedBatch | MessageBatch, task: IngestTask
    ) -> list[IngestReport]:
        """The first stage: a job over the batch's rows or messages, over the files that it lists, or over a chunk of a replay."""
        if isinstance(rows, Path):
            return list(self._run([_reading(piece, task) for piece in shares(rows, self.parallelism)]))
        self.end()
        reading = rows.reading if isinstance(rows, FileBatch) else None
        order = rows.admission if isinstance(rows, OrderedBatch) else None
        first_place = rows.first if isinstance(rows, NumberedBatch) else None
        messages = rows.reading if isinstance(rows, MessageBatch) else None
        frame = rows.frame if isinstance(rows, FileBatch | OrderedBatch | NumberedBatch | MessageBatch) else rows

        def run(batches: Batches) -> Batches:
            first = next(batches, None)
            if first is None:
                return iter(())
            rows = chain([first], batches)

            def work() -> Iterator[tuple[int, IngestReport]]:
                rejected = task.rejects(task_name())
                whole: pa.Table | None = None
                judged: dict[int, Admitted] = {}
                read: list[FileRead] = []
                if reading is not None:
                    files = pa.Table.from_batches(rows)
                    whole, judged, read = read_files(files, reading, task, rejected)
                elif messages is not None:
                    received = pa.Table.from_batches(rows)
                    whole, judged = read_messages(received, messages, task, task_number(), rejected)
                elif first_place is not None:
                    whole = in_places(pa.Table.from_batches(rows).cast(ROW_SCHEMA), first_place)
                elif order is not None:
                    whole, judged = in_order(pa.Table.from_batches(rows).cast(ROW_SCHEMA), order, task, rejected)
                report = ingest(rows if whole is None else whole, task, task_name(), rejected)
                report.suspects = {number: found.suspect for number, found in judged.items()}
                report.files_read = read
                if messages is not None:
                    report.topics = topics_of(received, task)
                yield 0, report

            return answering(work)

        reports = list(self._collect(frame.mapInArrow(run, REPORT)))
        check_topics(reports)
        return reports

    def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> Evaluated:
        """The second stage: one task for a small batch, the one that ingested it; else a job with a task per share and, after a
        shuffle, the answers.
        """
        if parts == 1:
            return self._gather(self._run([_whole(tasks)]))
        self.end()
        spread = max(finish_parts(task, parts) for task in tasks)
        return self._gather(
            self._reported(two_stages(self._slots_of(parts), _share(tasks, parts), finishing(tasks, parts), spread))
        )

    def end(self) -> None:
        """Ends the task that waits for further stages."""
        if self._task is not None:
            self._task.end()

    def merge(self, tasks: Sequence[MergeTask]) -> list[SlotFile]:
        """A separate job of one task, so that the batches keep the other slots; it runs in a thread without the batches' tag."""
        self.spark.sparkContext.setLocalProperty(COMMITTING, disk.machine())  # of this thread
        try:
            return list(self._reported(one_stage(self._slots_of(1), [_merging(tasks)])))
        except (PySparkException, Py4JError) as error:
            raise RunError(str(error).splitlines()[0]) from error

    def _run(self, tasks: Sequence[Work]) -> Iterable[Any]:
        if len(tasks) > 1 or not in_one_process(self.spark):
            self.end()
            return self._reported(one_stage(self._slots_of(len(tasks)), tasks))
        if self._task is None:
            await_worker()
            self._task = BatchTask(self.spark.sparkContext)
        return self._task.run(tasks[0])

    def _reported(self, tasks: RDD[Any]) -> Iterator[Any]:
        return reported(tasks)

    def _slots_of(self, number: int) -> RDD[int]:
        if number not in self._slots:
            self._slots[number] = slots(self.spark.sparkContext, number)
        return self._slots[number]

    def _gather(self, reports: Iterable[Any]) -> Evaluated:
        done = Evaluated()
        for name, report in reports:
            done.add(name, report)
            if isinstance(report, EvaluateReport):
                self.shares[report.worker] += report.probed
        return done

    def _collect(self, frame: DataFrame) -> Iterator[Any]:
        for row in frame.collect():
            report = pickle.loads(row["report"])
            if isinstance(report, CqelsOptError):
                raise report
            yield report


def _merging(tasks: Sequence[MergeTask]) -> Work:
    return lambda: (merge(task) for task in tasks)


def _reading(piece: Piece, task: IngestTask) -> Work:
    def work() -> Iterator[IngestReport]:
        yield ingest(read(piece), task, task_name())

    return work


def _whole(tasks: Sequence[EvaluateTask]) -> Work:
    def work() -> Iterator[tuple[str, Any]]:
        for task in tasks:
            for report in whole(task, task_name()):
                yield task.program.id, report

    return work


def _share(tasks: Sequence[EvaluateTask], parts: int) -> Callable[[int], Iterator[Shuffled]]:
    """Evaluates a share of the deltas; sends the names of its files to each task that computes answers."""

    def work(part: int) -> Iterator[Shuffled]:
        for task in tasks:
            report = evaluate(task, f"{task_name()}p{part}", part, parts, None)
            for to in range(finish_parts(task, parts)):
                yield to, (task.program.id, report)

    return work


def finishing(tasks: Sequence[EvaluateTask], parts: int) -> Callable[[int, Sequence[Any]], Iterator[Any]]:
    """Computes a part of the answers from the reports of all shares."""
    by_id = {task.program.id: task for task in tasks}

    def work(part: int, reports: Sequence[Any]) -> Iterator[Any]:
        reports_by_program: dict[str, list[EvaluateReport]] = {}
        for name, report in reports:
            reports_by_program.setdefault(name, []).append(report)
        for name, of_program in reports_by_program.items():
            task = by_id[name]
            fresh = [f for share in of_program for f in share.fresh]
            if not any(share.failed for share in of_program):
                yield name, finish(task, f"{task_name()}p{part}", fresh, part, finish_parts(task, parts))
            if part == 0:
                yield from ((name, share) for share in of_program)

    return work
