"""The descriptions of Spark jobs, read back from Spark's status store, which feeds its UI."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from cqels_opt.spark.join_run import JoinRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Jobs:
    """The descriptions of the jobs that a block started, in order; empty where a job has none."""

    def __init__(self, spark: SparkSession) -> None:
        for function in [each for each in gc.get_objects() if issubclass(type(each), JoinRun)]:
            function.wait_for_counts()  # of other tests, whose jobs run in the background
        self._context = spark.sparkContext._jsc.sc()
        self._last = next((job.jobId() for job in self._newest_first()), -1)

    def _newest_first(self) -> Iterator[Any]:
        self._context.listenerBus().waitUntilEmpty(60_000)
        jobs = self._context.statusStore().jobsList(None)
        yield from (jobs.apply(number) for number in range(jobs.size()))

    @property
    def texts(self) -> list[str]:
        ours = list(takewhile(lambda job: job.jobId() > self._last, self._newest_first()))
        texts = [job.description() for job in reversed(ours)]
        return [text.get() if text.isDefined() else "" for text in texts]
