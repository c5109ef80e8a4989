"""The relations of a block as Spark DataFrames, for Spark's own joins: the content of a window, a delta, a static relation.

The columns of a frame are ``v<i>`` for the variables, ``a`` and ``z`` for the interval ``[a, z)`` of rows from a window, ``n``
for multiplicities, and ``r<i>`` for the rank at which a row of a last-n window expires. Variable names are never used as column
names, because Spark does not distinguish ``?x`` and ``?X``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cqels_opt.lod.multiplicities import checked
from cqels_opt.operators.blocks import Block, BlockFilter, PatternOccurrence
from cqels_opt.operators.evaluation_step import EvaluationStep, StepFiles
from cqels_opt.operators.expressions import truth
from cqels_opt.operators.rows import RANK, Ints, Rows
from cqels_opt.runtime.evaluate_task import EvaluateTask, ranked
from cqels_opt.spark.scan import Batches as Batches
from cqels_opt.spark.scan import scanned
from cqels_opt.spark.tables import Tables
from cqels_opt.state.time_slices import TIME_SLICE
from cqels_opt.state.window_state import content


@dataclass(frozen=True, slots=True)
class Side:
    """A frame and the meaning of its columns. ``rows`` is its approximate number of rows."""

    frame: DataFrame
    variables: frozenset[str]
    ranks: frozenset[str] = frozenset()
    timed: bool = False
    counted: bool = False
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Columns:
    """The frame columns of a block's variables and ranks."""

    of: Mapping[str, str]

    @classmethod
    def of_block(cls, block: Block) -> Columns:
        """Columns numbered in name order."""
        variables = {v for o in block.occurrences for v in o.binds} | {v for s in block.statics for v in s.variables}
        ranks = {RANK + stream for o in block.occurrences for stream in o.ranked}
        numbered = {v: f"v{i}" for i, v in enumerate(sorted(variables))}
        return cls({**numbered, **{r: f"r{i}" for i, r in enumerate(sorted(ranks))}})

    def rows(self, batch: pa.RecordBatch | pa.Table) -> Rows:
        """The rows of a batch that has some of the columns."""
        named = {v: c for v, c in self.of.items() if c in batch.schema.names}
        size = batch.num_rows
        ends = {c: _array(batch, c) if c in batch.schema.names else np.zeros(size, np.int64) for c in ("a", "z")}
        n = checked(_array(batch, "n")) if "n" in batch.schema.names else np.ones(size, np.int64)
        return Rows({v: _array(batch, c) for v, c in named.items()}, ends["a"], ends["z"], n)


def _array(batch: pa.RecordBatch | pa.Table, column: str) -> Ints:
    found = batch.column(column)
    found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


class Relations:
    """Creates the frames of one block in one step, each once."""

    def __init__(
        self, spark: SparkSession, tables: Tables, task: EvaluateTask, block: Block, parts: int, sized: bool = False
    ) -> None:
        """``parts`` is the number of partitions of a frame. ``sized`` frames report their approximate number of rows to Spark."""
        self.spark, self.tables, self.task, self.block, self.parts, self.sized = spark, tables, task, block, parts, sized
        self.columns = Columns.of_block(block)
        self.occurrences = {o.name: o for o in block.occurrences}
        self.statics = {s.name: s for s in block.statics}
        self._made: dict[tuple[str, str], Side] = {}

    def get(self, name: str, source: str, with_new: bool) -> Side:
        """A relation in a delta source's term: its delta, a window's content (see operators/delta_join.py), or all its rows."""
        kind = "static" if name in self.statics else "delta" if name == source else "all" if with_new else "old"
        if (name, kind) not in self._made:
            self._made[name, kind] = self._static(name) if kind == "static" else self._window(name, kind)
        return self._made[name, kind]

    def variables(self, name: str) -> frozenset[str]:
        """The variables of a relation."""
        return frozenset((self.statics[name] if name in self.statics else self.occurrences[name]).variables)

    def _window(self, name: str, kind: str) -> Side:
        occurrence, step = self.occurrences[name], _lean(self.task.step, self.occurrences[name])
        low = step.after if kind == "delta" else None
        high = step.after if kind == "old" else step.upto
        slots = [*step.select(TIME_SLICE), *step.select("slot")]
        rows = sum(s.rows for s in slots if s.least <= high and (low is None or s.greatest > low))
        rows += occurrence.static.rows if occurrence.static is not None and kind != "delta" else 0
        ranks = frozenset(RANK + stream for stream in occurrence.ranked)
        names = [*occurrence.binds, *ranks]
        schema = [*(self.columns.of[v] for v in names), "a", "z"]

        def read() -> Sequence[Ints]:
            held = _content(occurrence, step, kind)
            return [*held.values(names), held.start, held.end]

        frame = scanned(self.spark, read, schema, self.parts, rows if self.sized else 0)
        return Side(frame, frozenset(occurrence.binds), ranks, timed=True, rows=rows)

    def _static(self, name: str) -> Side:
        static = self.statics[name]
        table = self.tables.get(self.spark, static, self.task)
        named = [f"c{i} AS {self.columns.of[v]}" for i, v in enumerate(static.variables)]
        frame = table.frame.selectExpr(*named, *(["n"] if table.counted else [])).coalesce(self.parts)
        return Side(frame, frozenset(static.variables), counted=table.counted, rows=static.rows)


def _lean(step: EvaluationStep, occurrence: PatternOccurrence) -> EvaluationStep:
    """A step with only the files that a window's content reads, because it is sent with each scan."""
    shapes = dict.fromkeys((part.shape.stream, part.shape.key) for part in occurrence.parts)
    files = [file for stream, key in shapes for kind in (TIME_SLICE, "slot") for file in step.select(kind, stream, key)]
    files += [file for stream in occurrence.ranked for file in step.select("elements", stream)]
    return replace(step, files=StepFiles(files), plans={}, rules={}, instants=step.instants[:1])


def _content(occurrence: PatternOccurrence, step: EvaluationStep, kind: str) -> Rows:
    held = content(occurrence, step)
    if kind == "delta":
        return held.new
    return held.rows(kind == "all")


def filtered(side: Side, filters: Sequence[BlockFilter], columns: Columns, task: EvaluateTask, name: str) -> Side:
    """The rows that pass the filters in sequence. Metrics of ``name``: ``rows``, and ``f<i>``, the rows that pass the i-th."""
    names = side.frame.columns
    conditions = [x.condition for x in filters]

    def run(batches: Batches) -> Batches:
        terms = task.terms()
        for batch in batches:
            rows = columns.rows(batch)
            passed, here = np.zeros(len(rows), np.int64), np.arange(len(rows))
            for condition in conditions:
                if len(here):
                    here = here[truth(rows.take(here), condition, terms)]
                    passed[here] += 1
            yield pa.RecordBatch.from_arrays([*(batch.column(c) for c in names), pa.array(passed)], names=[*names, "passed"])

    frame = side.frame.mapInArrow(run, ", ".join(f"{c} long" for c in [*names, "passed"]))
    reached = [f.coalesce(f.sum(f.expr(f"bigint(passed > {i})")), f.lit(0)).alias(f"f{i}") for i in range(len(filters))]
    frame = frame.observe(name, f.count(f.lit(1)).alias("rows"), *reached).where(f"passed = {len(filters)}").select(*names)
    return replace(side, frame=frame)


# ------------------------------------------------------------------ a whole step
@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a block's rows in the union: ``number`` identifies the block, ``c<i>`` hold ``names`` (including ranks)."""

    number: int
    task: int
    block: str
    names: tuple[str, ...]


def layouts(tasks: Sequence[EvaluateTask]) -> list[Layout]:
    """All blocks of all programs. Ranks are included only where rows expire by rank."""
    found: list[Layout] = []
    for number, task in enumerate(tasks):
        for block in task.program.blocks:
            ranks = [c for c in Columns.of_block(block).of if c.startswith(RANK)] if ranked(task.program) else []
            found.append(Layout(len(found), number, block.name, (*block.output, *ranks)))
    return found


def width(found: Sequence[Layout]) -> int:
    """The number of columns of the union."""
    return max((len(layout.names) for layout in found), default=0)


def by_block(batches: Batches, found: Sequence[Layout]) -> dict[int, Rows]:
    """The union's rows, by block."""
    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return {}
    table = pa.Table.from_batches(held)
    number, n = _array(table, "b"), checked(_array(table, "n"))
    start, end = _array(table, "a"), _array(table, "z")
    rows = {}
    for layout in found:
        selected = np.flatnonzero(number == layout.number)
        if len(selected):
            columns = {name: _array(table, f"c{i}")[selected] for i, name in enumerate(layout.names)}
            rows[layout.number] = Rows(columns, start[selected], end[selected], n[selected])
    return rows
