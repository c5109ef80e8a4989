"""Python tasks as a Spark job, without Spark SQL: no query is analysed, planned and compiled for a function that reads files by name.

A small job of one such task takes about a third of the time of the same function in ``mapInArrow`` over ``spark.range``.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, TypeAlias

from pyspark import RDD, SparkContext, TaskContext

from cqels_opt.errors import CqelsOptError
from cqels_opt.storage import disk

Work: TypeAlias = Callable[[], Iterator[Any]]
COMMITTING = "cqels-opt.machine"
"""The local property of a job that names the machine where the driver commits what its tasks wrote: what they write there is durable
with the commit."""
Shuffled: TypeAlias = tuple[int, Any]
"""Something said, behind the number of the task that is to hear it."""


def task_name() -> str:
    """A name for what this attempt of a task writes: no retry and no speculative twin has the same."""
    context = TaskContext.get()
    return f"{context.partitionId()}a{context.taskAttemptId()}" if context else "d"


def task_number() -> int:
    """The number of this task among those of its stage, the same in every attempt."""
    context = TaskContext.get()
    return context.partitionId() if context else 0


def answered(work: Work) -> list[Any]:
    """What a task reports, whose files are durable by then or with the driver's commit; our own errors travel as reports, so that users
    get their one sentence."""
    try:
        found = list(work())
        context = TaskContext.get()
        disk.sync_written(context.getLocalProperty(COMMITTING) if context else None)
        return found
    except CqelsOptError as error:
        return [error]
    finally:
        settle()


@cache
def settle() -> None:
    """Sets aside what a worker holds after its first task: the modules.

    PySpark's daemon collects garbage after each task, and would look at those hundred thousand objects every time.
    """
    gc.collect()
    gc.freeze()


def run_tasks(slots: RDD[int], tasks: Sequence[Work]) -> Iterator[Any]:
    """What the tasks report, in one job with a partition each; the first error of ours is raised here. See :func:`slots`."""
    return reported(one_stage(slots, tasks))


def one_stage(slots: RDD[int], tasks: Sequence[Work]) -> RDD[Any]:
    """The tasks, a partition each."""

    def perform(number: int, rows: Iterable[int]) -> Iterator[Any]:
        _drained(rows)
        return iter(answered(tasks[number]))

    return slots.mapPartitionsWithIndex(perform)


def two_stages(
    slots: RDD[int],
    first: Callable[[int], Iterator[Shuffled]],
    second: Callable[[int, Sequence[Any]], Iterator[Any]],
    parts: int,
) -> RDD[Any]:
    """A first task in each slot; what it says goes through a shuffle to those of the ``parts`` second tasks that it is for.

    For reports, not for rows: all that a task is told is held in memory.
    """

    def saying(number: int, rows: Iterable[int]) -> Iterator[Shuffled]:
        _drained(rows)
        said = answered(lambda: first(number))
        wrong = [error for error in said if isinstance(error, CqelsOptError)]
        return iter([(to, error) for error in wrong[:1] for to in range(parts)] or said)

    def hearing(number: int, rows: Iterable[Shuffled]) -> Iterator[Any]:
        said = [report for _, report in rows]
        wrong = [error for error in said if isinstance(error, CqelsOptError)]
        return iter(wrong[:1] or answered(lambda: second(number, said)))

    return slots.mapPartitionsWithIndex(saying).partitionBy(parts, int).mapPartitionsWithIndex(hearing)


def _drained(rows: Iterable[int]) -> None:
    """Reads a task's number: a worker whose input was not read to its end is not used again."""
    for _ in rows:
        continue


def reported(tasks: RDD[Any]) -> Iterator[Any]:
    """Runs a job and gives what its tasks report; the first error of ours is raised here."""
    for report in tasks.collect():
        if isinstance(report, CqelsOptError):
            raise report
        yield report


def slots(context: SparkContext, number: int) -> RDD[int]:
    """Partitions for that many tasks; worth keeping from batch to batch."""
    return context.parallelize(range(number), number)
