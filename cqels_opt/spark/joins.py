"""``--joins spark`` and ``--plan spark``: the second stage with Spark's own joins instead of our operators.

Slots, statistics, result slots and answers are the same; only the joins differ. ``--joins spark`` keeps the chosen plans and the
single job (:mod:`cqels_opt.spark.fixed_order`); ``--plan spark`` also leaves the order to Spark (:mod:`cqels_opt.spark.sql`).
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from cqels_opt.errors import CqelsOptError
from cqels_opt.operators.observed import Observed
from cqels_opt.operators.rows import empty
from cqels_opt.runtime.evaluate import Fresh, finish, keep
from cqels_opt.runtime.evaluate_task import EvaluateReport, EvaluateTask, finish_parts
from cqels_opt.runtime.interfaces import StageReports
from cqels_opt.spark.fixed_order import FixedOrder
from cqels_opt.spark.ingest_rows import Batches
from cqels_opt.spark.relations import Layout, Relations, Side, by_block, layouts, width
from cqels_opt.spark.runner import INGEST, REPORT, SparkRunner, answering, finishing, join_of
from cqels_opt.spark.session import settings
from cqels_opt.spark.sql import SqlPlanner
from cqels_opt.spark.tables import Tables
from cqels_opt.spark.tasks import task_name

SHARE = "part long, report binary"
FIXED = {
    "spark.sql.adaptive.enabled": "false",  # it would make a job of each stage
    "spark.sql.cbo.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",  # a broadcast is a job
}
BY_SPARK = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.cbo.enabled": "true",
    "spark.sql.cbo.planStats.enabled": "true",
    "spark.sql.cbo.joinReorder.enabled": "true",
}


class JoinRunner(SparkRunner):
    """Runs the second stage with Spark's joins. ``effective`` are the settings under which the last batch was planned."""

    order: type[FixedOrder] = FixedOrder
    first_job = INGEST

    def __init__(
        self, spark: SparkSession, parallelism: int | None = None, *, by_spark: bool = False, debug: bool = False
    ) -> None:
        """``by_spark``: Spark plans. ``debug`` prints the effective settings once."""
        super().__init__(spark, parallelism)
        self.by_spark, self.debug = by_spark, debug
        self.effective: dict[str, str] = {}
        self._tables = Tables(by_spark, self._untagged)
        self._sql = SqlPlanner(self._tables)

    def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> StageReports:
        """See :meth:`SparkRunner.evaluate`, which also runs the batch if a block has units (OPTIONAL, MINUS, EXISTS)."""
        found = layouts(tasks)
        making = any(
            task.stores_last_answers or task.backfill is not None for task in tasks
        )  # computes state, not the answers of a step
        if not found or making or not self.joins(tasks):
            return super().evaluate(tasks, parts)
        self.end()
        fixed = {**FIXED, "spark.sql.shuffle.partitions": str(parts)}
        with self._set(BY_SPARK if self.by_spark else fixed):
            metrics = _Metrics()
            if self.by_spark:
                frames = self._sql.frames(self.spark, tasks, found, self.parallelism)
            else:
                terms = (self._in_order(tasks[x.task], x, parts, width(found), metrics) for x in found)
                frames = [frame for some in terms for frame in some]
            rows = reduce(DataFrame.unionAll, frames)
            rows = rows.repartition(parts) if self.by_spark else rows.coalesce(parts)
            if parts == 1:
                frame = rows.mapInArrow(_write_all(tasks, found), REPORT)
            else:
                spread = max(finish_parts(task, parts) for task in tasks)
                shares = rows.mapInArrow(_write_share(tasks, found, parts), SHARE)
                frame = shares.repartition(spread, "part").mapInArrow(_finish(tasks, parts), REPORT)
            done = self._gather(self._collect(frame, join_of(tasks)))
            metrics.into(done, tasks, frame)
        return done

    def joins(self, tasks: Sequence[EvaluateTask]) -> bool:
        """Whether Spark's joins support these tasks: they do not support units."""
        return all(static.kind == "inner" for task in tasks for block in task.program.blocks for static in block.statics)

    def _in_order(self, task: EvaluateTask, layout: Layout, parts: int, columns: int, metrics: _Metrics) -> Iterator[DataFrame]:
        """The terms of the delta rule, one per delta source, by the chosen plans."""
        block = next(b for b in task.program.blocks if b.name == layout.block)
        relations = Relations(self.spark, self._tables, task, block, parts)
        rule = task.step.rules[block.name]
        for place, source in enumerate(rule.order):
            run = self.order(relations, source, rule.before(source), f"{layout.number}:{place}")
            side = run.run(task.step.plans[block.name][source])
            metrics.of.append((layout, source, run))
            yield laid_out(side, layout, relations.columns.of, columns)

    @contextmanager
    def _untagged(self) -> Iterator[None]:
        """Removes the batch's job tag, for work that is done once per run."""
        context, tag = self.spark.sparkContext, self._tag
        if tag:
            context.removeJobTag(tag)
        try:
            yield
        finally:
            if tag:
                context.addJobTag(tag)

    @contextmanager
    def _set(self, given: Mapping[str, str]) -> Iterator[None]:
        """Applies settings while the query inside is planned; reads them back, because a stream's session has its own."""
        with settings(self.spark, given):
            first, self.effective = not self.effective, {key: str(self.spark.conf.get(key)) for key in given}
            if first and self.debug:
                print("\n".join(f"{key} = {value}" for key, value in self.effective.items()), file=sys.stderr)
            yield


# ------------------------------------------------------------------ the chosen plans
class _Metrics:
    """The metrics of each delta source's plan."""

    def __init__(self) -> None:
        self.of: list[tuple[Layout, str, FixedOrder]] = []

    def into(self, done: StageReports, tasks: Sequence[EvaluateTask], frame: DataFrame) -> None:
        """Copies the metrics of the query that has just run into the reports."""
        if not self.of:
            return
        seen = frame._jdf.queryExecution().observedMetrics()
        for layout, source, run in self.of:
            shares = done.shares.get(tasks[layout.task].program.id)
            if not shares:
                continue
            observed = shares[0].observed.setdefault(layout.block, Observed())
            observed.operators[source] = [seen.apply(name).getLong(column) for name, column in run.operators]
            shares[0].probed += sum(observed.operators[source])
            for filtering, before, after in run.filters:
                counts = [seen.apply(name).getLong(column) for name, column in (before, after)]
                observed.add(Observed({}, {filtering: (counts[0], counts[1])}))


def laid_out(side: Side, layout: Layout, of: Mapping[str, str], columns: int) -> DataFrame:
    """A block's rows in the columns of the union."""
    known = side.variables | side.ranks
    chosen = [f"{of[name] if name in known else '0L'} AS c{i}" for i, name in enumerate(layout.names)]
    padding = [f"0L AS c{i}" for i in range(len(layout.names), columns)]
    return side.frame.selectExpr(f"{layout.number}L AS b", "a", "z", f"{'n' if side.counted else '1L'} AS n", *chosen, *padding)


# ------------------------------------------------------------------ storing the rows
def _kept(
    tasks: Sequence[EvaluateTask], found: Sequence[Layout], batches: Batches, name: str, whole: bool
) -> Iterator[tuple[EvaluateTask, EvaluateReport, Fresh | None]]:
    rows = by_block(batches, found)
    for number, task in enumerate(tasks):
        report = EvaluateReport(worker=str(os.getppid()))
        fresh: Fresh | None = {} if whole else None
        for layout in found:
            if layout.task == number:
                keep(task, name, layout.block, rows.get(layout.number, empty(layout.names)), report, fresh)
        yield task, report, fresh


def _write_all(tasks: Sequence[EvaluateTask], found: Sequence[Layout]) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        def work() -> Iterator[tuple[int, Any]]:
            for task, report, fresh in _kept(tasks, found, batches, task_name(), True):
                yield 0, (task.program.id, report)
                yield 0, (task.program.id, finish(task, task_name(), fresh or {}, 0, 1))

        return answering(work)

    return run


def _write_share(tasks: Sequence[EvaluateTask], found: Sequence[Layout], parts: int) -> Callable[[Batches], Batches]:
    def run(batches: Batches) -> Batches:
        def work() -> Iterator[tuple[int, Any]]:
            for task, report, _ in _kept(tasks, found, batches, task_name(), False):
                for to in range(finish_parts(task, parts)):
                    yield to, (task.program.id, report)

        return answering(work, with_part=True)

    return run


def _finish(tasks: Sequence[EvaluateTask], parts: int) -> Callable[[Batches], Batches]:
    """The parts of the answers, from the rows that the shares stored."""
    work_of = finishing(tasks, parts)

    def run(batches: Batches) -> Batches:
        reports_by_part: dict[int, list[Any]] = {}
        failed: list[CqelsOptError] = []
        for batch in batches:
            for part, blob in zip(batch.column("part").to_numpy(), batch.column("report")):
                reports = pickle.loads(blob.as_py() or b"")
                if isinstance(reports, CqelsOptError):
                    failed.append(reports)
                else:
                    reports_by_part.setdefault(int(part), []).append(reports)

        def work() -> Iterator[tuple[int, Any]]:
            if failed:
                raise failed[0]
            for part, reports in reports_by_part.items():
                yield from ((0, report) for report in work_of(part, reports))

        return answering(work)

    return run
