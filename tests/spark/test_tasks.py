"""Python tasks as jobs: what the driver gets of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cqels_opt.errors import DataError
from cqels_opt.spark.tasks import reported, run_tasks, slots, two_stages


def test_reports_return_in_the_order_of_the_tasks(spark: SparkSession) -> None:
    of_tasks = [range(3), range(3, 3), range(3, 5_003)]
    assert list(run_tasks(slots(spark.sparkContext, 3), lambda number: iter(of_tasks[number]))) == list(range(5_003))


def test_reports_reach_the_tasks_after_a_shuffle(spark: SparkSession) -> None:
    def share(part: int) -> Iterator[tuple[int, int]]:
        yield from ((to, 10 * part + to) for to in range(3))

    job = two_stages(slots(spark.sparkContext, 2), share, lambda part, reports: iter([(part, sorted(reports))]), 3)
    assert sorted(reported(job)) == [(0, [0, 10]), (1, [1, 11]), (2, [2, 12])]


def test_our_error_in_a_task_is_raised_as_it_is(spark: SparkSession) -> None:
    def wrong(number: int) -> Iterator[int]:
        if number == 1:
            raise DataError("line 7: not a triple")
        return iter([number])

    with pytest.raises(DataError, match="line 7: not a triple"):
        list(run_tasks(slots(spark.sparkContext, 2), wrong))


def test_another_error_in_a_task_is_raised_with_its_message(spark: SparkSession) -> None:
    def wrong(number: int) -> Iterator[object]:
        raise ValueError("something unforeseen")

    with pytest.raises(PySparkException, match="something unforeseen"):
        list(run_tasks(slots(spark.sparkContext, 1), wrong))
