"""The runner that ships tasks to Spark's executors, in one job per stage: reports return to the driver, rows do not."""

from __future__ import annotations

import pickle
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import RDD
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from cqels_opt.errors import CqelsOptError, EngineWarning, RunError
from cqels_opt.runtime.chunks import ROWS_PER_TASK, Piece, read, shares
from cqels_opt.runtime.evaluate_task import EvaluateReport, EvaluateTask, finish_parts
from cqels_opt.runtime.ingest import IngestReport, IngestTask, ingest
from cqels_opt.runtime.interfaces import StageReports
from cqels_opt.runtime.live_files import FileBatch
from cqels_opt.runtime.local_runner import part_of_answers, share_of_batch, whole_batch
from cqels_opt.spark.batch_jobs import BatchJobs
from cqels_opt.spark.batch_tasks import BatchTasks, UnreachableError, rows_of_task
from cqels_opt.spark.failures import reason
from cqels_opt.spark.files import reading_files
from cqels_opt.spark.ingest_rows import Batches, RowBatch, frame_of, ingesting
from cqels_opt.spark.job_descriptions import described, joined
from cqels_opt.spark.messages import check_topics
from cqels_opt.spark.session import in_one_process, tasks_may_connect
from cqels_opt.spark.tasks import (
    COMMITTING,
    Numbered,
    Shuffled,
    answered,
    one_stage,
    reported,
    slots,
    task_name,
    two_stages,
)
from cqels_opt.spark.warm_up import await_worker
from cqels_opt.state.compaction import MergeResult, MergeTask, merge_each
from cqels_opt.storage import disk

REPORT = "report binary"
INGEST, TOGETHER = "ingest", "ingest and join"
LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"  # columns then have other types than the schema says


def answering(run: Callable[[], Iterator[tuple[int, Any]]], with_part: bool = False) -> Batches:
    """Runs a task and yields its pickled reports; see :func:`answered`."""
    found = [(0, report) if isinstance(report, CqelsOptError) else report for report in answered(run)]
    if found:
        columns: dict[str, Any] = {"part": pa.array([part for part, _ in found], pa.int64())} if with_part else {}
        columns["report"] = pa.array([pickle.dumps(report) for _, report in found], pa.binary())
        yield pa.RecordBatch.from_pydict(columns)


class SparkRunner(BatchJobs):
    """Runs the stages of micro-batches on a session."""

    first_job = TOGETHER  # the description of the job whose tasks run all stages of a batch

    def __init__(self, spark: SparkSession, parallelism: int | None = None) -> None:
        super().__init__(spark, parallelism)
        self.shares: Counter[str] = Counter()  # rows produced by each executor's Python process
        self.settings: dict[str, str] = {}  # effective planner settings of a session, where they matter
        self._slots: dict[int, RDD[int]] = {}
        self._tasks: BatchTasks | None = None  # of a batch
        self._may_connect = tasks_may_connect(spark)  # the tasks of a batch, until a network prevents it
        self._parts = 1  # of the last batch
        self._expect_small = False  # the next batch of rows is expected to fit one task, as the last one did
        self._columns: pa.Schema | None = None  # of the rows of a run, once they are expected to be few

    def begin(self, batch: int, queries: Sequence[str] = ()) -> None:
        """See :class:`BatchJobs`."""
        super().begin(batch, queries)
        self.spark.sparkContext.setLocalProperty(COMMITTING, disk.machine())

    # -------------------------------------------------------------- stages
    def ingest(self, rows: Path | FileBatch | RowBatch, task: IngestTask) -> list[IngestReport]:
        """The first stage: a job over the batch's rows or messages, over its files, or over a chunk of a replay."""
        if isinstance(rows, Path):
            pieces = shares(rows, self.parallelism)
            task = replace(task, tasks=len(pieces))
            return self._run(_reading(pieces, task), len(pieces), INGEST, self.first_job)
        if isinstance(rows, FileBatch):
            files = reading_files(rows, task)
            return self._run(lambda part: files(), 1, INGEST, self.first_job)
        self.end()
        work, frame = ingesting(rows, task), frame_of(rows)
        if self._may_connect and self._expect_small and (columns := self._columns) is not None:
            tasks = self._batch_tasks()
            try:
                with self.described(self.first_job):
                    reports = tasks.run(lambda part: work(rows_of_task(columns))) if tasks.start(frame) else []
            except UnreachableError:
                self._use_jobs()
                return self.ingest(rows, task)
        else:
            reading = frame.mapInArrow(lambda batches: answering(lambda: enumerate(work(batches))), REPORT)
            reports = list(self._collect(reading, INGEST))
        elements = sum(seen.elements + seen.late for report in reports for seen in report.streams.values())
        self._expect_small = elements <= ROWS_PER_TASK and self._one_task_possible
        if self._expect_small and self._columns is None:
            self._columns = to_arrow_schema(frame.schema)
        check_topics(reports)
        return reports

    @property
    def repeats(self) -> bool:
        """Whether small batches have one task, which runs all of their stages."""
        return self._may_connect

    @cached_property
    def elsewhere(self) -> bool:
        """Whether tasks may run on machines that do not see the driver's copy of the state."""
        return not in_one_process(self.spark)

    @property
    def _one_task_possible(self) -> bool:
        """Whether one task can run all stages of a batch of rows."""
        return self._may_connect and self._has_plain_types

    @cached_property
    def _has_plain_types(self) -> bool:
        return str(self.spark.conf.get(LARGE_TYPES, "false")).lower() == "false"

    def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> StageReports:
        """The second stage: one task for a small batch; else a task per share, and then one per part of the answers.

        If tasks may connect to the driver, they are those that ingested the batch. Otherwise they are a job with a shuffle.
        """
        what, self._parts = join_of(tasks), parts
        if parts == 1:
            return self._gather(self._run(_whole(tasks), 1, what, what))
        spread = max(finish_parts(task, parts) for task in tasks)
        if self._may_connect:
            done = self._gather(self._run(_share(tasks, parts), parts, what, what))
            done.add(self._run(_answers(tasks, parts, done.shares), spread, what, what))
            return done
        self.end()
        stages = two_stages(self._slots_of(parts), _addressed(tasks, parts), finishing(tasks, parts), spread)
        with self.described(what):
            return self._gather(self._reported(stages))

    def end(self) -> None:
        """Ends the tasks that wait for further stages."""
        if self._tasks is not None:
            self._tasks.end()

    def close(self) -> None:
        """See :meth:`end`: the session is the user's."""
        self.end()

    def merge(self, tasks: Sequence[MergeTask]) -> list[MergeResult]:
        """A separate job of one task, so that the batches keep the other slots; it runs in a thread without the batches' tag."""
        context = self.spark.sparkContext
        context.setLocalProperty(COMMITTING, disk.machine())  # of this thread
        try:
            with described(context, "merge small files of the state"):
                return list(self._reported(one_stage(self._slots_of(1), _merging(tasks))))
        except (PySparkException, Py4JError) as error:
            raise RunError(reason(error)) from error

    def _run(self, work: Numbered, parts: int, apart: str, together: str) -> list[Any]:
        """Runs the parts of a function in a job described as ``apart``, or in the tasks of the batch, in one described as ``together``.

        The tasks of a batch are as many as the last one needed, so that its stages need no second job.
        """
        if self._may_connect:
            tasks = self._batch_tasks()
            try:
                with nullcontext() if tasks.have(parts) else self.described(together):
                    return tasks.run(work, parts, self._parts)
            except UnreachableError:
                self._use_jobs()
        self.end()
        with self.described(apart):
            return list(self._reported(one_stage(self._slots_of(parts), work)))

    def _batch_tasks(self) -> BatchTasks:
        if self._tasks is None:
            await_worker()
            self._tasks = BatchTasks(self.spark.sparkContext, in_one_process(self.spark))
        return self._tasks

    def _use_jobs(self) -> None:
        """No task has reached the driver."""
        self._may_connect = False
        message = (
            "executors cannot connect to the driver's Python: from now on each stage of a micro-batch is a Spark job of its own"
        )
        warnings.warn(message, EngineWarning, stacklevel=2)

    def _reported(self, tasks: RDD[Any]) -> Iterator[Any]:
        return reported(tasks)

    def _slots_of(self, number: int) -> RDD[int]:
        if number not in self._slots:
            self._slots[number] = slots(self.spark.sparkContext, number)
        return self._slots[number]

    def _gather(self, reports: Iterable[Any]) -> StageReports:
        done = StageReports()
        done.add(reports)
        for report in chain.from_iterable(done.shares.values()):
            self.shares[report.worker] += report.probed
        return done

    def _collect(self, frame: DataFrame, what: str) -> Iterator[Any]:
        with self.described(what):
            rows = frame.collect()
        for row in rows:
            report = pickle.loads(row["report"])
            if isinstance(report, CqelsOptError):
                raise report
            yield report


def join_of(tasks: Sequence[EvaluateTask]) -> str:
    """The description of the second stage: the plan of its first delta source, and the number of the others."""
    return joined(plan for task in tasks for sources in task.step.plans.values() for plan in sources.values())


def _merging(tasks: Sequence[MergeTask]) -> Numbered:
    return lambda part: merge_each(tasks)


def _reading(pieces: Sequence[Piece], task: IngestTask) -> Numbered:
    def work(part: int) -> Iterator[IngestReport]:
        yield ingest(read(pieces[part]), task, task_name())

    return work


def _whole(tasks: Sequence[EvaluateTask]) -> Numbered:
    return lambda part: iter(whole_batch(tasks, task_name()))


def _share(tasks: Sequence[EvaluateTask], parts: int) -> Numbered:
    """Evaluates a share of the deltas."""
    return lambda part: iter(share_of_batch(tasks, f"{task_name()}p{part}", part, parts))


def _answers(tasks: Sequence[EvaluateTask], parts: int, shares: Mapping[str, Sequence[EvaluateReport]]) -> Numbered:
    """Computes a part of the answers from the reports of all shares, by program."""
    mine = [task for task in tasks if task.program.id in shares]
    return lambda part: iter(part_of_answers(mine, f"{task_name()}p{part}", part, parts, shares))


def _addressed(tasks: Sequence[EvaluateTask], parts: int) -> Callable[[int], Iterator[Shuffled]]:
    """Evaluates a share of the deltas; sends the names of its files to each task that computes answers."""
    share, receivers = _share(tasks, parts), {task.program.id: finish_parts(task, parts) for task in tasks}

    def work(part: int) -> Iterator[Shuffled]:
        for name, report in share(part):
            for to in range(receivers[name]):
                yield to, (name, report)

    return work


def finishing(tasks: Sequence[EvaluateTask], parts: int) -> Callable[[int, Sequence[Any]], Iterator[Any]]:
    """Computes a part of the answers from the reports of all shares."""

    def work(part: int, reports: Sequence[Any]) -> Iterator[Any]:
        done = StageReports()
        done.add(reports)
        yield from _answers(tasks, parts, done.shares)(part)
        if part == 0:
            yield from reports

    return work
