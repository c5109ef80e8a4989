"""The task that runs all stages of a small batch: functions in, reports out, until the batch ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cqels_opt.errors import DataError
from cqels_opt.spark.batch_task import BatchTask
from cqels_opt.spark.tasks import task_name


@pytest.fixture
def task(spark: SparkSession) -> Iterator[BatchTask]:
    task = BatchTask(spark.sparkContext)
    yield task
    task.end()


def place() -> Iterator[tuple[int, str]]:
    """The process and the name of the task that run this."""
    yield os.getpid(), task_name()


def test_functions_run_one_after_the_other_in_one_attempt_under_names_of_their_own(task: BatchTask) -> None:
    (one,), (other,) = task.run(place), task.run(place)
    assert one[0] == other[0]
    assert one[1] != other[1]  # a file of the second function cannot replace one of the first
    assert one[1].partition("w")[0] == other[1].partition("w")[0]


def test_reports_of_any_size_return(task: BatchTask) -> None:
    many = list(range(100_000))
    assert task.run(lambda: iter([b"x" * 5_000_000])) == [b"x" * 5_000_000]
    assert task.run(lambda: iter(many)) == many
    assert task.run(lambda: iter(())) == []


def test_the_job_ends_with_the_batch(spark: SparkSession, task: BatchTask) -> None:
    context = spark.sparkContext
    context.addJobTag("a-batch")
    try:
        task.run(place)
        task.run(place)
        job = task._job
        task.end()
        assert list(job.get()) == []  # it returns
        assert len(context._jsc.sc().statusTracker().getJobIdsForTag("a-batch")) == 1
    finally:
        context.removeJobTag("a-batch")


def test_our_error_is_raised_as_it_is_and_the_task_goes_on(task: BatchTask) -> None:
    def wrong() -> Iterator[object]:
        raise DataError("line 7: not a triple")

    with pytest.raises(DataError, match="line 7: not a triple"):
        task.run(wrong)
    assert task.run(place)


def test_another_error_is_that_of_the_job_and_the_next_batch_has_a_new_task(task: BatchTask) -> None:
    def wrong() -> Iterator[object]:
        raise ValueError("something unforeseen")

    with pytest.raises(PySparkException, match="something unforeseen"):
        task.run(wrong)
    assert task.run(place)


def test_a_killed_worker_fails_the_job_and_the_next_batch_has_a_new_task(task: BatchTask) -> None:
    ((process, _),) = task.run(place)

    def killed() -> Iterator[object]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield None

    with pytest.raises((PySparkException, Py4JError)):
        task.run(killed)
    ((other, _),) = task.run(place)
    assert other != process
