"""Python tasks as a Spark job without Spark SQL: no query is analysed, planned and compiled to run a function.

A small job of one such task takes about a third of the time of the same function in ``mapInArrow`` over ``spark.range``.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import Any, TypeAlias

from pyspark import RDD, SparkContext, TaskContext

from cqels_opt.errors import CqelsOptError
from cqels_opt.storage import disk

Work: TypeAlias = Callable[[], Iterator[Any]]
Numbered: TypeAlias = Callable[[int], Iterator[Any]]
"""What the task of each number does."""
COMMITTING = "cqels-opt.machine"
"""The local property of a job that names the machine on which the driver commits.

The driver's commit makes files durable that tasks wrote on that machine.
"""
Shuffled: TypeAlias = tuple[int, Any]
"""A report, preceded by the number of the task that receives it."""


def task_name() -> str:
    """A name for the output of this attempt of a task; no retry or speculative copy has the same."""
    context = TaskContext.get()
    return f"{context.partitionId()}a{context.taskAttemptId()}{_work.get()}" if context else "d"


_work: ContextVar[str] = ContextVar("work", default="")


@contextmanager
def numbered_work(number: int) -> Iterator[None]:
    """Gives each function that one attempt of a task runs its own :func:`task_name`."""
    before = _work.set(f"w{number}")
    try:
        yield
    finally:
        _work.reset(before)


def task_number() -> int:
    """The number of this task within its stage, the same in every attempt."""
    context = TaskContext.get()
    return context.partitionId() if context else 0


def answered(work: Work) -> list[Any]:
    """The reports of a task, whose files are durable now or with the driver's commit.

    Our own errors are returned as reports, so that users see only their message.
    """
    try:
        found = list(work())
        context = TaskContext.get()
        disk.sync_written(context.getLocalProperty(COMMITTING) if context else None)
        return found
    except CqelsOptError as error:
        return [error]
    finally:
        freeze_modules()


@cache
def freeze_modules() -> None:
    """Freezes the objects that a worker holds after its first task: the modules.

    PySpark's daemon collects garbage after each task, and would otherwise traverse a hundred thousand objects each time.
    """
    gc.collect()
    gc.freeze()


def run_tasks(slots: RDD[int], work: Numbered) -> Iterator[Any]:
    """The reports of a task per slot, in one job; raises our first error. See :func:`slots`."""
    return reported(one_stage(slots, work))


def one_stage(slots: RDD[int], work: Numbered) -> RDD[Any]:
    """A task per slot."""

    def perform(number: int, rows: Iterable[int]) -> Iterator[Any]:
        drained(rows)
        return iter(answered(partial(work, number)))

    return slots.mapPartitionsWithIndex(perform)


def two_stages(
    slots: RDD[int],
    first: Callable[[int], Iterator[Shuffled]],
    second: Callable[[int, Sequence[Any]], Iterator[Any]],
    parts: int,
) -> RDD[Any]:
    """A first task in each slot; a shuffle delivers its reports to the second tasks (``parts``) that they are addressed to.

    For reports, not for rows: all reports to a task are held in memory.
    """

    def first_stage(number: int, rows: Iterable[int]) -> Iterator[Shuffled]:
        drained(rows)
        reports = answered(lambda: first(number))
        wrong = [error for error in reports if isinstance(error, CqelsOptError)]
        return iter([(to, error) for error in wrong[:1] for to in range(parts)] or reports)

    def second_stage(number: int, rows: Iterable[Shuffled]) -> Iterator[Any]:
        reports = [report for _, report in rows]
        wrong = [error for error in reports if isinstance(error, CqelsOptError)]
        return iter(wrong[:1] or answered(lambda: second(number, reports)))

    return slots.mapPartitionsWithIndex(first_stage).partitionBy(parts, int).mapPartitionsWithIndex(second_stage)


def drained(rows: Iterable[Any]) -> None:
    """Consumes a task's input: Spark does not reuse a worker that did not."""
    for _ in rows:
        continue


def reported(tasks: RDD[Any]) -> Iterator[Any]:
    """Runs a job and yields the reports of its tasks; raises our first error."""
    return successful(tasks.collect())


def successful(reports: Iterable[Any]) -> Iterator[Any]:
    """The reports; raises our first error among them."""
    for report in reports:
        if isinstance(report, CqelsOptError):
            raise report
        yield report


def slots(context: SparkContext, number: int) -> RDD[int]:
    """Partitions for that many tasks; reusable from batch to batch."""
    return context.parallelize(range(number), number)
