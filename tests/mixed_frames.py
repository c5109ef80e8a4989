"""Mixed plans over frames that are Arrow tables: the joins of a plan done by operators by lot, without a Spark session.

What executors are sent goes through Spark's pickler, for parts of a plan are told by identity. Spark's own joins are not among the
operators here: tests/spark has them.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
from local_runs import Cut, Outcome, Registered, force_plans
from pyspark import cloudpickle

from cqels_opt.operators.blocks import Block
from cqels_opt.operators.delta_join import DeltaJoin
from cqels_opt.plans import DeltaRule, Join, Plan, Scan, Split, operators
from cqels_opt.plans.join_methods import LOOP, PARTITIONED, REPLICATED, JoinMethod
from cqels_opt.runtime.evaluate_task import EvaluateTask
from cqels_opt.runtime.interfaces import StageReports
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.spark import fixed_order, mixed, relations
from cqels_opt.trace.records import TraceRecord

COUNTED: dict[str, list[int]] = {}
Operators = tuple[JoinMethod | None, ...]


@dataclass(frozen=True)
class Expression:
    text: str

    def alias(self, name: str) -> Expression:
        return self


class Functions:
    """The few of ``pyspark.sql.functions`` that are used."""

    expr = lit = staticmethod(lambda text: Expression(str(text)))
    sum = staticmethod(lambda of: of)
    coalesce = staticmethod(lambda of, other: of)
    count = staticmethod(lambda of: Expression("count"))


def for_duckdb(text: str) -> str:
    """A granule in Spark's SQL as DuckDB says it."""
    return re.sub(r"shiftright\((\w+), (\d+)\)", r"(\1 >> \2)", text)


@dataclass(frozen=True)
class Frame:
    """A table a partition."""

    parts: Sequence[pa.Table]

    def mapInArrow(self, run: Callable[[Iterator[Any]], Iterator[Any]], schema: str) -> Frame:  # noqa: N802
        names, sent = [column.split()[0] for column in schema.split(", ")], cloudpickle.loads(cloudpickle.dumps(run))
        found = [list(sent(iter(part.to_batches(7)))) for part in self.parts]
        nothing = pa.table({name: pa.array([], pa.int64()) for name in names})
        return Frame([pa.Table.from_batches(batches) if batches else nothing for batches in found])

    def observe(self, name: str, *sums: Expression) -> Frame:
        whole = pa.concat_tables(self.parts)
        COUNTED[name] = [self._counted(whole, one.text) for one in sums]
        return self

    def _counted(self, whole: pa.Table, text: str) -> int:
        if text == "count":
            return whole.num_rows
        which = re.fullmatch(r"IF\(k = (\d+), n, 0L\)", text)
        assert which is not None
        return int(whole["n"].to_numpy()[whole["k"].to_numpy() == int(which[1])].sum())

    def where(self, condition: str) -> Frame:
        assert condition == "k < 0"
        return Frame([part.filter(pa.array(part["k"].to_numpy() < 0)) for part in self.parts])

    def drop(self, column: str) -> Frame:
        return Frame([part.drop_columns([column]) for part in self.parts])

    def selectExpr(self, everything: str, text: str) -> Frame:  # noqa: N802
        """The granules of a column, by DuckDB."""
        assert everything == "*"
        asked = for_duckdb(text)
        connection = duckdb.connect()
        found = []
        for part in self.parts:
            connection.register("part", part)
            found.append(connection.execute(f"SELECT *, {asked} FROM part").to_arrow_table())
            connection.unregister("part")
        return Frame(found)

    def repartition(self, parts: int, *columns: str) -> Frame:
        whole = pa.concat_tables(self.parts)
        to = sum((whole[column].to_numpy() for column in columns), np.zeros(whole.num_rows, np.int64)) % parts
        return Frame([whole.filter(pa.array(to == part)) for part in range(parts)])


class Session:
    def range(self, first: int, end: int, step: int, parts: int) -> Frame:
        return Frame([pa.table({"id": ids}) for ids in np.array_split(np.arange(first, end), parts)])


def by_lot(plan: Plan, kinds: Iterator[str], rng: random.Random) -> Operators:
    """Replicated or partitioned probes; bushy parts are made in the task."""
    if isinstance(plan, Scan):
        next(kinds)
        return (None,)
    left = by_lot(plan.input, kinds, rng)
    built: Operators = by_lot(plan.build, kinds, rng) if isinstance(plan, Join) else ()
    built = tuple(REPLICATED if by == PARTITIONED else by for by in built)
    kind = next(kinds)
    if kind not in ("probe", "hash"):
        return (*left, *built, LOOP if kind == "cross" else None)
    return (
        *left,
        *built,
        REPLICATED if isinstance(plan, Join) else rng.choice([REPLICATED, PARTITIONED]),
    )


class Comparing(LocalRunner):
    """Does each term once more, with operators by lot."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(1)
        self.rng, self.planners, self.mixed = rng, dict[str, Any](), 0

    def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> StageReports:
        for task in tasks:
            for block in task.program.blocks:
                for source in task.step.rules.get(block.name, DeltaRule()).order:
                    self.compare(task, block, source)
        return super().evaluate(tasks, parts)

    def compare(self, task: EvaluateTask, block: Block, source: str) -> None:
        plan = task.step.plans[block.name][source]
        graph = self.planners[task.program.id].blocks[block.name].optimizer.graph
        by: Operators | None = None
        if not isinstance(plan, Split) and not block.filters:  # which a probe behind a shuffle leaves to a frame of Spark's
            by = by_lot(plan, iter([step.op for step in operators(plan, graph)]), self.rng)
        forced = replace(task, step=replace(task.step, joins={block.name: {source: by}} if by else {}))
        session, tables = Session(), None
        made = relations.Relations(session, tables, forced, block, 2)  # type: ignore[arg-type]
        run = mixed.MixedOrder(made, source, task.step.rules[block.name].before(source), "x")
        COUNTED.clear()
        side, names = run.run(plan), sorted(block.output)
        table: pa.Table = pa.concat_tables(side.frame.parts)  # type: ignore[attr-defined]
        whole = DeltaJoin(block, task.program.store, task.step, task.terms())
        expected: Counter[tuple[int, ...]] = Counter()
        for rows in whole.rows_of(source):
            held = [rows.columns.get(name, np.zeros(len(rows), np.int64)) for name in names]
            for *key, n in np.stack([*held, rows.start, rows.end, rows.n], axis=1).tolist():
                expected[tuple(key)] += n
        nothing = np.zeros(table.num_rows, np.int64)
        found = [table[made.columns.of[name]].to_numpy() if name in side.variables else nothing for name in names]
        got: Counter[tuple[int, ...]] = Counter()
        for *key, n in np.stack([*found, *(table[c].to_numpy() for c in "azn")], axis=1).tolist():
            got[tuple(key)] += n
        assert got == expected, (str(plan), by)
        if "(" not in str(plan):  # a bushy part that each task makes for itself counts once a task
            assert [COUNTED[name][column] for name, column in run.operators] == whole.observed.operators[source]
        self.mixed += by is not None and PARTITIONED in by


class Compared:
    """Runs a query in plans by lot; each term is done once more with operators by lot, and must have the same rows."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.mixed = rng, 0

    def run(self, query: Registered, how: Cut) -> Outcome:
        """All of a query's input. ``mixed`` counts the terms with a probe behind a shuffle."""
        sink, runner, records = LocalSink(), Comparing(self.rng), list[TraceRecord]()
        driver = query.driver(how, runner=runner, sink=sink)
        runner.planners = driver.planners
        with ExitStack() as patches:
            for module in (mixed, fixed_order, relations):
                patches.enter_context(patch.object(module, "f", Functions()))
            for number, rows in enumerate(query.chunks(how)):
                force_plans(driver, self.rng)
                records += driver.batch(number, rows)
        self.mixed += runner.mixed
        return Outcome(query.answers(sink.lines), records, driver, sink.lines)
