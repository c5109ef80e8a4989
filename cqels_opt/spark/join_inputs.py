"""The relations of an adaptive join as DataFrames: columns, types, times, and key counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t

from cqels_opt.errors import InputError
from cqels_opt.relational.conditions import ColumnReference
from cqels_opt.relational.counting import SCHEMA, Counted, Layout, count, gathered
from cqels_opt.relational.fanouts import KeyCounts, heavy_for, level_for
from cqels_opt.relational.planner import Counts
from cqels_opt.relational.spec import JoinInput, JoinSpec
from cqels_opt.stats import tally

AT, LATE = "__at", "__late"
"""Columns added to a stream's rows: the time in milliseconds (null: no time, or late), and whether the row is late."""

Batches = Iterator[pa.RecordBatch]


# ------------------------------------------------------------------ columns
def field_type(schema: t.StructType, column: ColumnReference, name: str) -> t.DataType:
    """The type of a column; InputError if the relation does not have it."""
    kind: t.DataType = schema
    for part in column.path:
        fields = {field.name.lower(): field.dataType for field in kind.fields} if isinstance(kind, t.StructType) else {}
        if part not in fields:
            raise InputError(f"relation {name} has no column {'.'.join(column.path)}; it has {', '.join(schema.names)}")
        kind = fields[part]
    return kind


def key_types(spec: JoinSpec, schemas: Mapping[str, t.StructType]) -> dict[str, t.DataType]:
    """The type in which the keys of each variable are hashed. Compared columns must have one type.

    ``schemas`` are keyed by relation and may lack the stream's. Integers of any width are one type. Types that Spark would cast,
    such as text and numbers, are rejected: equality would depend on which two columns are compared.
    """
    names, found = {relation.key: relation.name for relation in spec.relations}, dict[str, t.DataType]()
    for variable, columns in spec.variables.items():
        known = [c for key, some in columns.items() if key in schemas for c in some]
        types = [field_type(schemas[c.relation], c, names[c.relation]) for c in known]
        whole = [isinstance(kind, t.IntegralType) for kind in types]
        for column, kind, integral in zip(known, types, whole):
            if kind != types[0] and not (integral and whole[0]):
                raise InputError(
                    f"{known[0]} is {types[0].simpleString()} and {column} is {kind.simpleString()}: "
                    "cast one of them, so that what is joined is of one type"
                )
        found[variable] = t.LongType() if whole and all(whole) else types[0] if types else t.NullType()
    return found


def _hashed(column: ColumnReference, kind: t.DataType) -> SparkColumn:
    """A 64-bit hash of a key, null for null. Spark's hash is equal in all relations for equal values of one type."""
    value = f.expr(column.sql).cast(kind)
    return f.when(value.isNotNull(), f.xxhash64(value))


def with_times(frame: DataFrame, time: str | None, number: int, frontier: int | None) -> DataFrame:
    """A micro-batch with :data:`AT` and :data:`LATE`.

    Without a time column the batch number is the time. Rows before the frontier are late.
    """
    if time is None:
        return frame.withColumns({AT: f.lit(number).cast("long"), LATE: f.lit(False)})
    kind = field_type(frame.schema, ColumnReference("", (time.lower(),)), "over the stream")
    if isinstance(kind, t.TimestampType | t.TimestampNTZType):
        at = f.unix_millis(f.col(quoted(time)).cast("timestamp"))
    elif isinstance(kind, t.IntegralType):
        at = f.col(quoted(time)).cast("long")
    else:
        raise InputError(f"the time {time} is {kind.simpleString()}: it must be a timestamp, or a long of milliseconds")
    if frontier is None:
        return frame.withColumns({AT: at, LATE: f.lit(False)})
    late = f.coalesce(at < frontier, f.lit(False))
    return frame.withColumns({AT: f.when(~late, at), LATE: late})


def satisfying(frame: DataFrame, relation: JoinInput, spec: JoinSpec) -> DataFrame:
    """The rows that satisfy the relation's own conditions, under its name."""
    return reduce(lambda rows, text: rows.where(f.expr(text)), spec.own_filters(relation.key), frame.alias(relation.name))


# ------------------------------------------------------------------ counting
def static_counts(frame: DataFrame, relation: JoinInput, spec: JoinSpec, types: Mapping[str, t.DataType]) -> Counts:
    """The number of rows of a static relation and its key counts by variable, in one pass plus one per variable."""
    variables = spec.joins_on(relation.key)
    rows = satisfying(frame, relation, spec)
    keys = [_hashed(spec.variables[v][relation.key][0], types[v]).alias(f"h{j}") for j, v in enumerate(variables)]
    hashed = rows.select(*keys) if keys else rows.select(f.lit(0).alias("h"))
    about = [f.approx_count_distinct(f"h{j}").alias(f"d{j}") for j, _ in enumerate(variables)]
    whole = hashed.agg(f.count(f.lit(1)).alias("rows"), *about).collect()[0]
    number, found = int(whole["rows"]), dict[str, KeyCounts]()
    for j, variable in enumerate(variables):
        level = level_for(float(whole[f"d{j}"]))
        heavy = heavy_for(number, level)
        counted = hashed.groupBy(f.col(f"h{j}").alias("key")).count().where("key IS NOT NULL")
        if level:
            counted = counted.where(f"shiftrightunsigned(key, {64 - level}) = 0 OR count >= {heavy}")
        table = counted.toArrow()
        held = tally(table.column("key").to_numpy(), table.column("count").to_numpy())
        found[variable] = KeyCounts(number, float(whole[f"d{j}"]) if level else float(len(held.values)), held, level, heavy)
    return Counts(number, found)


def stream_counts(
    frame: DataFrame, columns: Sequence[str], spec: JoinSpec, types: Mapping[str, t.DataType], number: int
) -> Counted:
    """The statistics of a micro-batch with these ``columns``, in one job without a shuffle.

    Rows of a relation without a window are counted under the batch number, whatever their times.
    """
    layout = Layout(tuple(spec.joins_on(r.key) for r in spec.streams), tuple(r.name for r in spec.streams))
    row = f.struct(*(f.col(quoted(name)) for name in columns))
    timed = any(relation.window is not None for relation in spec.streams)
    chosen = [(f.col(AT) if timed else f.lit(number).cast("long")).alias("t"), f.col(LATE).alias("late")]
    for i, relation in enumerate(spec.streams):
        own = reduce(lambda one, other: one & other, map(f.expr, spec.own_filters(relation.key)), f.lit(True))
        chosen.append(own.alias(f"p{i}"))
        for j, variable in enumerate(layout.variables[i]):
            chosen.append(_hashed(spec.variables[variable][relation.key][0], types[variable]).alias(f"h{i}_{j}"))

    def run(batches: Batches) -> Batches:
        yield count(batches, layout)

    rows = frame.select(AT, LATE, *(row.alias(relation.name) for relation in spec.streams))
    return gathered(rows.select(*chosen).mapInArrow(run, SCHEMA).toArrow(), layout, number)


def quoted(name: str) -> str:
    """A name quoted for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"
