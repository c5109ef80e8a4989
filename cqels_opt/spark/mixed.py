"""Plans with several join methods: fused probes, probes after shuffles, and Spark's own joins, in one job (DESIGN §8).

The optimizer chooses the method of each join (:mod:`cqels_opt.plans.physical`). Consecutive replicated probes, loops, filters and
units form one stage, a *segment*, over the rows of the operators below it; a plan that is a single segment runs as the fused
stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from cqels_opt.operators.blocks import Block
from cqels_opt.operators.delta_join import DeltaJoin
from cqels_opt.operators.memory import of_the_machine
from cqels_opt.operators.rows import RANK, Rows
from cqels_opt.plans import Join, Plan, Scan, Split
from cqels_opt.plans.join_methods import PARTITIONED, JoinMethod, Machine
from cqels_opt.plans.physical import size
from cqels_opt.plans.plan import parts as plan_parts
from cqels_opt.plans.plan import relations as names
from cqels_opt.runtime.evaluate_task import EvaluateTask
from cqels_opt.runtime.interfaces import StageReports
from cqels_opt.spark.fixed_order import FixedOrder
from cqels_opt.spark.ingest_rows import Batches
from cqels_opt.spark.joins import JoinRunner
from cqels_opt.spark.partitioned import PartitionedOrder
from cqels_opt.spark.relations import Columns, Side
from cqels_opt.spark.runner import TOGETHER
from cqels_opt.spark.scan import BATCH
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER

MARK = "k"  # the column that distinguishes rows (-1) from counts (their index)


class MixedOrder(PartitionedOrder):
    """The plan of one delta source, each join by its method."""

    def run(self, planned: Plan | Split) -> Side:
        """See :meth:`FixedOrder.run`. A split plan, or one whose joins are all replicated probes, is one segment."""
        relations = self.relations
        by = relations.task.step.joins.get(relations.block.name, {}).get(self.source)
        if isinstance(planned, Split) or by is None:
            return self._segment(planned, planned, None)
        self.plan, self._by = planned, dict[Plan, JoinMethod | None]()
        self._assign(planned, list(by))
        self.placed = {x.name: x for x in relations.block.filters if x.name in names(planned)}
        return self.side(planned)

    def _assign(self, plan: Plan, by: list[JoinMethod | None]) -> None:
        self._by[plan] = by[-1]
        if isinstance(plan, Scan):
            return
        before = by[: size(plan.input)]
        self._assign(plan.input, before)
        if isinstance(plan, Join):
            self._assign(plan.build, by[len(before) : -1])

    def how(self, plan: Plan) -> JoinMethod | None:
        """See :meth:`FixedOrder.how`."""
        return self._by[plan]

    def side(self, plan: Plan) -> Side:
        """See :meth:`FixedOrder.side`."""
        by = self._by[plan]
        if by is not None and by.gives == "spark":
            return FixedOrder.side(self, plan)
        if by == PARTITIONED:
            return super().side(plan)
        below = plan
        while not isinstance(below, Scan) and ((at := self._by[below]) is None or at.in_task):
            below = below.input
        if below == Scan(self.source):
            return self._segment(plan, self.plan, None)
        return super().side(plan) if isinstance(plan, Scan) else self._segment(plan, self.plan, (below, self.side(below)))

    def _segment(self, part: Plan | Split, of: Plan | Split, below: tuple[Plan, Side] | None) -> Side:
        """Operators that form one stage, over the rows of the operators below them, or over the delta's shares."""
        relations, source, task, parts = self.relations, self.source, self.relations.task, self.relations.parts
        block, columns = relations.block, relations.columns
        given, timed = (below[0], below[1].timed) if below else (None, True)
        kept = _columns(part, block, columns)
        schema = [*(columns.of[v] for v in kept), "a", "z", "n", MARK]
        filters = [x.name for x in block.filters]
        first = len(self.operators)
        last = first + sum(map(size, plan_parts(part))) - (size(given) if given is not None else 0)

        def rows_in(batches: Batches) -> Iterator[Rows]:
            for batch in batches:
                rows = columns.rows(batch)
                if not timed:
                    rows = Rows(rows.columns, np.full(len(rows), BEFORE_TIME), np.full(len(rows), FOREVER), rows.n)
                yield rows

        def run(batches: Batches) -> Iterator[pa.RecordBatch]:
            shares = [0] if given is not None else [int(i) for batch in batches for i in batch.column("id").to_numpy()]
            for share in shares:
                step = DeltaJoin(block, task.program.store, task.step, task.terms(), share, parts)
                if isinstance(part, Split) or isinstance(of, Split):
                    found = step.rows_of(source)
                else:
                    lower = None if given is None else (given, rows_in(batches))
                    found = step.rows_of_part(source, part, of, lower)
                for rows in found:
                    yield from _batches(rows, kept, schema)
                seen = step.observed
                counts = seen.operators.get(source, [])[first:last]
                yield _counts([*counts, *(n for name in filters for n in seen.filters.get(name, (0, 0)))], schema)

        frame = below[1].frame if below else relations.spark.range(0, parts, 1, parts)
        frame = frame.mapInArrow(run, ", ".join(f"{c} long" for c in schema))
        metric, many = f"{self.prefix}:{first}", last - first + 2 * len(filters)
        sums = [f.coalesce(f.sum(f.expr(f"IF({MARK} = {i}, n, 0L)")), f.lit(0)).alias(f"c{i}") for i in range(many)]
        frame = frame.observe(metric, *sums).where(f"{MARK} < 0").drop(MARK)
        self.operators += [(metric, i) for i in range(last - first)]
        self.filters += [(name, (metric, i), (metric, i + 1)) for name, i in zip(filters, range(last - first, many, 2))]
        ranks = frozenset(c for c in kept if c.startswith(RANK))
        rows = below[1].rows if below else relations.get(source, source, False).rows
        return Side(frame, frozenset(kept) - ranks, ranks, timed=True, counted=True, rows=rows)


def _columns(part: Plan | Split, block: Block, columns: Columns) -> list[str]:
    """The variables and then the ranks that a part binds; for a split plan, the output variables of the block."""
    inside = {name for plan in plan_parts(part) for name in names(plan)}
    occurrences = [o for o in block.occurrences if o.name in inside]
    bound = {v for o in occurrences for v in o.binds} | {v for s in block.statics if s.name in inside for v in s.binds}
    ranks = {RANK + stream for o in occurrences for stream in o.ranked}
    if isinstance(part, Split):
        bound = set(block.output)
    return [*sorted(bound & columns.of.keys()), *sorted(ranks)]


def _batches(rows: Rows, kept: Sequence[str], schema: Sequence[str]) -> Iterator[pa.RecordBatch]:
    arrays = [*rows.values(kept), rows.start, rows.end, rows.n, np.full(len(rows), -1)]
    for at in range(0, len(rows), BATCH):
        yield pa.RecordBatch.from_arrays([pa.array(a[at : at + BATCH], pa.int64()) for a in arrays], names=[*schema])


def _counts(counts: Sequence[int], schema: Sequence[str]) -> pa.RecordBatch:
    """A task's counts, encoded as marked rows."""
    nothing = np.zeros(len(counts), np.int64)
    arrays = [*(nothing for _ in schema[:-2]), np.array(counts, np.int64), np.arange(len(counts))]
    return pa.RecordBatch.from_arrays([pa.array(a, pa.int64()) for a in arrays], names=[*schema])


class MixedRunner(JoinRunner):
    """Runs the second stage with the methods that the optimizer chose: fused, or with other operators in between."""

    order = MixedOrder
    first_job = TOGETHER

    def joins(self, tasks: Sequence[EvaluateTask]) -> bool:
        """See :meth:`JoinRunner.joins`: whether any join does not run in the task that has the rows."""
        return not all(by is None or by.in_task for by in _used(tasks))

    def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> StageReports:
        """See :meth:`JoinRunner.evaluate`; an index partitioned by key uses at least two tasks."""
        return super().evaluate(tasks, max(parts, min(2, self.parallelism)) if PARTITIONED in _used(tasks) else parts)


def _used(tasks: Sequence[EvaluateTask]) -> set[JoinMethod | None]:
    """The join methods that the plans of tasks use."""
    return {by for task in tasks for block in task.step.joins.values() for by_source in block.values() for by in by_source}


def machine_of(spark: SparkSession) -> Machine:
    """The task slots and executors of a session, and the bytes of an executor's memory for indexes.

    That is the memory set for the session; the tasks of a local session share the machine's memory, of which half is reserved for
    others.
    """
    context = spark.sparkContext
    if str(context.master).startswith("local["):
        return Machine(context.defaultParallelism, 1, of_the_machine() / 2)
    executors = max(1, context._jsc.sc().getExecutorMemoryStatus().size() - 1)
    return Machine(context.defaultParallelism, executors, float(context._jsc.sc().executorMemory() << 20))
