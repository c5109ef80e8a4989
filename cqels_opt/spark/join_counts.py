"""The key counts of the relations of an adaptive join, exact or from a sample, the bytes of their rows, and the cost model for these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t

from cqels_opt.planner.calibration_store import known
from cqels_opt.plans.cost_models.spark import SparkCost
from cqels_opt.relational.column_names import quoted
from cqels_opt.relational.counting import WHOLE, Counted, Extent, Layout, sampled_counts, weights_of
from cqels_opt.relational.fanouts import KeyCounts, heavy_for, level_for
from cqels_opt.relational.planner import Counts
from cqels_opt.relational.spec import JoinInput, JoinSpec
from cqels_opt.spark.catalyst import LogicalPlan, analyzed, is_table
from cqels_opt.spark.session import shuffle_partitions
from cqels_opt.spark.versions import arrow_table
from cqels_opt.stats import SlotCounts, tally

PLACE = f"monotonically_increasing_id() & {(1 << 33) - 1}"
"""The number of a row in its partition."""
_WEIGHT = f"shiftleft(1L, CAST(greatest(0, floor(log2(place / {WHOLE})) + 1) AS INT))"
IN_SAMPLE = f"place < {WHOLE} OR place % {_WEIGHT} = 0"
"""The condition on the sample: see :func:`weights_of`."""

HASH_OF_NULL = 42
"""What ``xxhash64`` returns for null: its seed."""

_BYTES = {"boolean": 1, "byte": 1, "short": 2, "integer": 4, "float": 4, "date": 4}
"""The bytes of a value of a type, if they are not 8."""

COUNTS = "counts"
"""The name of the exact counts of a micro-batch, or of a relation."""

UNKNOWN = 1 << 50
"""Spark's estimate of the bytes of a relation is at least this if it has no statistics: 2^63, less where columns are left out."""
FEW_BYTES, FEW_ROWS = 4 << 20, 1 << 16
"""The size of a relation, as Spark estimates it, up to which the driver counts its keys, and the most rows of a partition for that."""


def _hashed(value: SparkColumn) -> SparkColumn:
    """A 64-bit hash of a key, null for null. Spark's hash is equal in all relations for equal values of one type."""
    return f.when(value.isNotNull(), f.xxhash64(value))


def spec_keys(relation: JoinInput, spec: JoinSpec, types: Mapping[str, t.DataType]) -> dict[str, SparkColumn]:
    """The join keys of a relation, by variable, in the type in which they are compared."""
    of = {variable: spec.variables[variable][relation.key][0] for variable in spec.joins_on(relation.key)}
    return {variable: f.expr(key.sql).cast(types[variable]) for variable, key in of.items()}


def static_counts(rows: DataFrame, columns: Mapping[str, SparkColumn]) -> Counts:
    """The number of rows of a static relation and its key counts by variable.

    Few rows are counted in the driver, from one job without a shuffle; more of them in one pass plus one per variable. The bytes of a row
    are measured unless the relation is a whole table whose size Spark knows: rows of an RDD have no size, and that of a filter, an
    aggregate or a join is not the size of the rows that they leave.
    """
    variables, keys = list(columns), [_hashed(key).alias(f"h{j}") for j, key in enumerate(columns.values())]
    plan = analyzed(rows)
    size = int(plan.stats().sizeInBytes())
    measured = size >= UNKNOWN or not is_table(plan)
    fixed, texts = _bytes_of(rows, nested=True) if measured else (0.0, "0")
    hashed = rows.select(*keys, f.expr(texts).alias("texts"))
    if keys and size <= FEW_BYTES and (found := _few_counts(hashed, variables, fixed if measured else None)) is not None:
        return found
    about = [f.approx_count_distinct(f"h{j}").alias(f"d{j}") for j, _ in enumerate(variables)]
    whole = hashed.agg(f.count(f.lit(1)).alias("rows"), f.avg("texts").alias("texts"), *about).collect()[0]
    number, counts = int(whole["rows"]), dict[str, KeyCounts]()
    for j, variable in enumerate(variables):
        level = level_for(float(whole[f"d{j}"]))
        heavy = heavy_for(number, level)
        counted = hashed.groupBy(f.col(f"h{j}").alias("key")).count().where("key IS NOT NULL")
        if level:
            counted = counted.where(f"shiftrightunsigned(key, {64 - level}) = 0 OR count >= {heavy}")
        table = arrow_table(counted)
        held = tally(table.column("key").to_numpy(), table.column("count").to_numpy())
        counts[variable] = KeyCounts(number, float(whole[f"d{j}"]) if level else float(len(held.values)), held, level, heavy)
    return Counts(number, counts, fixed + (whole["texts"] or 0.0) if measured else None)


def _few_counts(hashed: DataFrame, variables: Sequence[str], fixed: float | None) -> Counts | None:
    """The exact counts of the hashes of keys, counted in the driver; None if a partition has more than :data:`FEW_ROWS` rows.

    ``fixed`` are the bytes of a row without its texts; None: the bytes of rows are not measured.
    """
    chosen = hashed.observe(COUNTS, f.count(f.lit(1)).alias("rows")).where(f"{PLACE} < {FEW_ROWS}")
    table = arrow_table(chosen)
    if int(chosen._jdf.queryExecution().observedMetrics().apply(COUNTS).getLong(0)) > table.num_rows:
        return None
    found = {}
    for j, variable in enumerate(variables):
        keys = table.column(f"h{j}").drop_null().to_numpy()
        held = tally(keys, np.ones(len(keys), np.int64))
        found[variable] = KeyCounts(table.num_rows, float(len(held.values)), held)
    texts = float(table.column("texts").to_numpy().mean()) if table.num_rows else 0.0
    return Counts(table.num_rows, found, None if fixed is None else fixed + texts)


@dataclass(frozen=True, slots=True)
class Sample:
    """The counts of a micro-batch from a sample of its rows, their estimated number, and the mean bytes of a row."""

    counts: SlotCounts
    rows: int
    width: float


@dataclass(frozen=True, slots=True)
class Sampling:
    """The DataFrame of a sample of rows: 64-bit hashes of their keys, no rows. ``width`` are the bytes of a row without its texts."""

    frame: DataFrame
    variables: tuple[str, ...]
    width: float

    def of(self, frame: DataFrame) -> Sampling:
        """The same sample of other rows."""
        return replace(self, frame=frame)

    def take(self, number: int) -> Sample:
        """The key counts of a micro-batch, from one job."""
        table = arrow_table(self.frame)
        weights = weights_of(table.column("place").to_numpy())
        total, found = int(weights.sum()), {}
        for i, variable in enumerate(self.variables):
            keys = table.column(f"h{i}").to_numpy()
            known = keys != HASH_OF_NULL
            found[variable] = tally(keys[known], weights[known])
        texts = float(table.column("texts").to_numpy().mean()) if total else 0.0
        return Sample(SlotCounts(number, *tally(np.full(1, number), np.array([total])), found), total, self.width + texts)


def sampling_of(rows: DataFrame, columns: Mapping[str, SparkColumn]) -> Sampling:
    """A sample of the rows of a micro-batch, with the keys of each variable.

    Of each partition the first :data:`WHOLE` rows are taken, of as many again every second, of twice as many every fourth, and so on; a
    row of every n-th counts as n.
    """
    fixed, texts = _bytes_of(rows)
    hashes = [f.xxhash64(column).alias(f"h{i}") for i, column in enumerate(columns.values())]
    chosen = rows.select(f.expr(PLACE).alias("place"), f.expr(texts).alias("texts"), *hashes).where(IN_SAMPLE)
    return Sampling(chosen, tuple(columns), fixed)


def _bytes_of(rows: DataFrame, nested: bool = False) -> tuple[float, str]:
    """The bytes of a row without its texts, and the expression of the bytes of its texts; with ``nested``, arrays, maps and structs are
    measured as the texts that Spark shows of them."""
    fields = rows.schema.fields
    names = Counter(field.name.lower() for field in fields)
    once = [field for field in fields if names[field.name.lower()] == 1]
    texts = [quoted(field.name) for field in once if isinstance(field.dataType, t.StringType | t.BinaryType)]
    if nested:
        of = [quoted(field.name) for field in once if isinstance(field.dataType, t.ArrayType | t.MapType | t.StructType)]
        texts += [f"CAST({name} AS STRING)" for name in of]
    added = " + ".join(["0", *(f"coalesce(octet_length({text}), 0)" for text in texts)])
    return float(sum(_BYTES.get(field.dataType.typeName(), 8) for field in fields)), added


@dataclass(frozen=True, slots=True)
class Counting:
    """The DataFrame of the statistics of a micro-batch: a sample of the hashes of its keys, and exact counts as metrics."""

    frame: DataFrame
    layout: Layout

    def of(self, frame: DataFrame) -> Counting:
        """The same of other rows."""
        return replace(self, frame=frame)

    def take(self, number: int) -> Counted:
        """The statistics, from one job without a shuffle, which runs no Python on executors."""
        slots = sampled_counts(arrow_table(self.frame), self.layout, number)
        seen = self.frame._jdf.queryExecution().observedMetrics().apply(COUNTS)
        numbers = (None if seen.isNullAt(i) else int(seen.getLong(i)) for i in range(seen.size()))
        elements, late, rejected = (next(numbers) or 0 for _ in range(3))
        extents = {}
        for name in self.layout.names:
            rows, first, last = (next(numbers) or 0 for _ in range(3))
            extents[name] = Extent(rows, first, last)
        return Counted(elements, late, rejected, slots, extents, tuple(numbers))


def counting_of(
    frame: DataFrame,
    columns: Sequence[str],
    times: Mapping[str | None, tuple[str, str]],
    spec: JoinSpec,
    types: Mapping[str, t.DataType],
    number: int,
) -> Counting:
    """How a micro-batch with these ``columns`` is counted.

    Rows of a relation without a window are counted under the batch number, whatever their times.
    """
    place, relations = {time: i for i, time in enumerate(times)}, spec.streams
    layout = Layout(
        tuple(spec.joins_on(r.key) for r in relations),
        tuple(r.name for r in relations),
        tuple(place[r.time] for r in relations),
    )
    row = f.struct(*(f.col(quoted(name)) for name in columns))
    timed = any(relation.window is not None for relation in relations)
    chosen = [f.expr(PLACE).alias("place")]
    for i, (at, _) in enumerate(times.values()):
        chosen.append((f.col(at) if timed else f.lit(number).cast("long")).alias(f"t{i}"))
    whole, late, any_of = (list[SparkColumn]() for _ in range(3))
    for i, relation in enumerate(relations):
        at, is_late = times[relation.time]
        own = f.coalesce(_all(map(f.expr, spec.own_filters(relation.key))), f.lit(False))
        any_of.append(own)
        late.append(own & f.col(is_late))
        whole.append(own & ~f.col(is_late) & (f.col(at).isNotNull() if timed else f.lit(True)))
        chosen.append(whole[-1].alias(f"p{i}"))
        keys = enumerate(spec_keys(relation, spec, types).values())
        chosen += [f.when(own, _hashed(key)).alias(f"h{i}_{j}") for j, key in keys]  # of other rows a key may be an error
    chosen += [_any(late).alias("late"), (_any(any_of) & ~_any(whole) & ~_any(late)).alias("rejected")]
    internal = [name for pair in times.values() for name in pair]
    rows = frame.select(*internal, *(row.alias(relation.name) for relation in relations)).select(*chosen)
    exact = [f.count(f.lit(1)).alias("elements"), f.count_if("late").alias("late"), f.count_if("rejected").alias("rejected")]
    for i, stream in enumerate(layout.streams):
        at_i = f.when(f.col(f"p{i}"), f.col(f"t{stream}"))
        exact += [f.count_if(f"p{i}").alias(f"rows{i}"), f.min(at_i).alias(f"first{i}"), f.max(at_i).alias(f"last{i}")]
    exact += [f.max(f"t{i}").alias(f"latest{i}") for i, _ in enumerate(times)]
    sample = rows.observe(COUNTS, *exact).where(IN_SAMPLE).drop("late", "rejected")
    return Counting(sample, layout)


def _all(conditions: Iterable[SparkColumn]) -> SparkColumn:
    return reduce(lambda one, other: one & other, conditions, f.lit(True))


def _any(conditions: Iterable[SparkColumn]) -> SparkColumn:
    return reduce(lambda one, other: one | other, conditions, f.lit(False))


# ------------------------------------------------------------------ costs
def broadcast_bytes(session: SparkSession) -> float:
    """The bytes up to which Spark broadcasts a side of a join; negative: none."""
    return float(session._jsparkSession.sessionState().conf().autoBroadcastJoinThreshold())


def spark_cost(session: SparkSession, slots: int, width: float) -> SparkCost:
    """The cost model for a session's settings, if the widest row has ``width`` bytes."""
    rows = broadcast_bytes(session) / width
    return SparkCost(known().constants, slots=slots, partitions=shuffle_partitions(session, slots), broadcast_rows=rows)


def row_width(plan: LogicalPlan, counts: Counts | None = None) -> float:
    """The bytes of a row: measured, or by the size of a table of that many rows, and at least the default sizes of its types."""
    size, least = int(plan.stats().sizeInBytes()), float(plan.schema().defaultSize())
    if counts is None or not counts.rows:
        return least
    return max(least, counts.width if counts.width is not None else size / counts.rows if size < UNKNOWN else least)
