"""The Spark jobs of the micro-batches of a run: their tags and descriptions, their number, and what they ran."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cqels_opt.spark.executed_plan import ExecutedPlan, executed
from cqels_opt.spark.job_descriptions import batch_name, described
from cqels_opt.spark.trace_page import TracePage, attached


class BatchJobs:
    """The jobs of the current micro-batch on a session. ``parallelism`` is the number of task slots."""

    def __init__(self, spark: SparkSession, parallelism: int | None = None) -> None:
        self.spark = spark
        self.parallelism = parallelism or spark.sparkContext.defaultParallelism
        self._tag, self._name = "", ""
        self._trace: Path | None = None  # until its page is attached
        self._page: TracePage | None = None

    def begin(self, batch: int, queries: Sequence[str] = ()) -> None:
        """Tags all following jobs; their descriptions begin with the queries and the batch."""
        context = self.spark.sparkContext
        if self._trace is not None:
            self._page, self._trace = attached(self.spark, self._trace, self), None
        if self._tag:
            context.removeJobTag(self._tag)
        self._name = batch_name(queries, batch)
        self._tag = f"cqels-opt-{id(self)}-{batch}-{os.urandom(3).hex()}"
        context.addJobTag(self._tag)

    def described(self, what: str) -> AbstractContextManager[None]:
        """Describes the jobs of a block in Spark's UI, as ``q1 batch 12: count keys``."""
        return described(self.spark.sparkContext, f"{self._name}: {what}", self.page)

    def link_to(self, trace: Path) -> None:
        """From the next batch on, descriptions link to the page of this trace if Spark's UI is enabled."""
        self._trace = trace

    @property
    def page(self) -> str | None:
        """The path of the trace's page in Spark's UI, which descriptions link to."""
        return self._page.path if self._page is not None else None

    def unlink(self) -> None:
        """Removes the page from Spark's UI."""
        page, self._page, self._trace = self._page, None, None
        if page is not None:
            page.detach()

    @property
    def jobs(self) -> int:
        """The number of Spark jobs with the tag of the batch, from Spark's status tracker."""
        return len(self._tracker.getJobIdsForTag(self._tag)) if self._tag else 0

    def executed(self) -> list[ExecutedPlan]:
        """The queries that Spark ran with the tag of the batch, for EXPLAIN ANALYZE."""
        return executed(self.spark, self._tag) if self._tag else []

    @cached_property
    def _tracker(self) -> Any:
        return self.spark.sparkContext._jsc.sc().statusTracker()

    def cancel(self) -> None:
        """Cancels the batch's running jobs."""
        if self._tag:
            self.spark.sparkContext.cancelJobsWithTag(self._tag)
