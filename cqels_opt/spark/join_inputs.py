"""The columns of the relations of an adaptive join: their names, the types of their keys, and their times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import count

from pyspark.errors import AnalysisException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t

from cqels_opt.errors import InputError, first_line
from cqels_opt.relational.column_names import quoted
from cqels_opt.relational.conditions import JoinKey
from cqels_opt.relational.spec import JoinInput, JoinSpec

LATEST = ((1 << 63) - 1) // 1000
"""The milliseconds of Spark's last timestamp, which has microseconds."""

AT, LATE = "__at", "__late"
"""Columns added to a stream's rows: the time in milliseconds (null: no time, or late), and whether the row is late."""


def time_columns(columns: Sequence[str], times: Iterable[str | None]) -> dict[str | None, tuple[str, str]]:
    """Names of :data:`AT` and :data:`LATE` for each column of times, which the stream does not have itself."""
    taken, found = {name.lower() for name in columns}, dict[str | None, tuple[str, str]]()
    for time in times:
        suffix = next("_" * n for n in count() if not {AT + "_" * n, LATE + "_" * n} & taken)
        found[time] = (AT + suffix, LATE + suffix)
        taken |= {*found[time]}
    return found


def unresolved(error: AnalysisException, columns: Mapping[str, Sequence[str]]) -> InputError:
    """The error for a text of the user that Spark cannot resolve; ``columns`` are those of each relation."""
    what = first_line(error).partition(" SQLSTATE: ")[0]  # then comes a place in a text that the user has not written
    known = "; ".join(f"{name} has {', '.join(of)}" for name, of in columns.items())
    return InputError(f"{what} The relations: {known}")


def check_names(name: str, frame: DataFrame) -> None:
    """InputError for two columns of one name, which joins of windows cannot distinguish."""
    again = [column for column, n in Counter(map(str.lower, frame.columns)).items() if n > 1]
    if again:
        raise InputError(f"relation {name} has two columns {again[0]}: rename one of them, or select those that the join needs")


def key_type(frame: DataFrame, key: JoinKey, name: str) -> t.DataType:
    """The type of a key of a relation; InputError if the relation does not have its columns."""
    try:
        return frame.alias(name).select(f.expr(key.sql)).schema[0].dataType
    except AnalysisException as error:
        columns = ", ".join(frame.columns)
        if key.is_column:
            raise InputError(f"relation {name} has no column {'.'.join(key.label)}; it has {columns}") from error
        raise InputError(f"{key.sql}: {first_line(error)}; relation {name} has {columns}") from error


def key_types(spec: JoinSpec, frames: Mapping[str, DataFrame]) -> dict[str, t.DataType]:
    """The type in which the keys of each variable are hashed: the one to which Spark casts them to compare them.

    ``frames`` are keyed by relation and may lack the stream. Numbers are compared with numbers, dates with timestamps; anything else that
    Spark would cast, such as text and numbers, is rejected: equality would depend on which two keys are compared. So are three keys of
    which Spark would cast exact numbers to floating-point ones, or decimals to fewer digits.
    """
    names, found = {relation.key: relation.name for relation in spec.relations}, dict[str, t.DataType]()
    for variable, of in spec.variables.items():
        known = [key for name, keys in of.items() if name in frames for key in keys]
        types = [key_type(frames[key.relation], key, names[key.relation]) for key in known]
        for key, kind in zip(known, types):
            same = kind.simpleString() == types[0].simpleString()  # without whether elements may be null
            if not same and not any(isinstance(kind, some) and isinstance(types[0], some) for some in _COMPARABLE):
                raise InputError(
                    f"{known[0]} is {types[0].simpleString()} and {key} is {kind.simpleString()}: "
                    "cast one of them, so that what is joined is of one type"
                )
        inexact = [isinstance(kind, t.FractionalType) and not isinstance(kind, t.DecimalType) for kind in types]
        clocks = [isinstance(kind, t.TimestampNTZType) for kind in types]
        several = (
            f"{', '.join(map(str, known))} are {', '.join(kind.simpleString() for kind in types)}: cast all of them to one type, "
        )
        if len(known) > 2 and any(inexact) and not all(inexact):
            raise InputError(f"{several}because whole numbers and decimals change when they are cast to double")
        if len(known) > 2 and any(clocks) and any(isinstance(kind, t.TimestampType) for kind in types):
            raise InputError(f"{several}because times without a zone that differ are equal to one time where clocks change")
        if len(known) > 2 and _digits(types) > MOST_DIGITS:
            raise InputError(f"{several}because Spark compares fewer digits where more than {MOST_DIGITS} are needed")
        found[variable] = t.NullType() if not types else types[0] if len(set(map(str, types))) == 1 else _common(frames, types)
    return found


_COMPARABLE = (t.NumericType, t.DateType | t.TimestampType | t.TimestampNTZType)
MOST_DIGITS = 38
"""The digits of Spark's largest decimal."""
_INTEGERS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
"""The digits of the decimals to which Spark casts whole numbers."""


def _digits(types: Sequence[t.DataType]) -> int:
    """The digits of a decimal that has every value of some exact numbers; 0 if all have one type, or are no decimals."""
    decimals = [kind for kind in types if isinstance(kind, t.DecimalType)]
    if not decimals or len(set(map(str, types))) == 1:
        return 0
    whole = [kind.precision - kind.scale for kind in decimals] + [_INTEGERS.get(kind.typeName(), 0) for kind in types]
    return max(whole) + max(kind.scale for kind in decimals)


def _common(frames: Mapping[str, DataFrame], types: Sequence[t.DataType]) -> t.DataType:
    """The type that Spark gives to a column with values of all these types."""
    values = ", ".join(f"CAST(NULL AS {kind.simpleString()})" for kind in types)
    spark = next(iter(frames.values())).sparkSession
    return spark.sql(f"SELECT coalesce({values})").schema[0].dataType


def with_times(frame: DataFrame, times: Mapping[str | None, tuple[str, str]], number: int, frontier: int | None) -> DataFrame:
    """A micro-batch with columns of :func:`time_columns`.

    Without a time column the batch number is the time. Rows before the frontier are late.
    """
    added: dict[str, SparkColumn] = {}
    for time, (at_name, late_name) in times.items():
        if time is None:
            added |= {at_name: f.lit(number).cast("long"), late_name: f.lit(False)}
            continue
        at = _milliseconds(frame, time)
        late = f.lit(False) if frontier is None else f.coalesce(at < varying(frontier, time), f.lit(False))
        added |= {at_name: at if frontier is None else f.when(~late, at), late_name: late}
    return frame.withColumns(added)


def varying(number: int, column: str) -> SparkColumn:
    """A number that differs between micro-batches, for rows whose ``column`` is not null.

    Spark's generated code has numeric literals in it, so it would be compiled again, and interpreted at first, for each number. An array
    is data, and an index that depends on a column keeps Spark from replacing its element by a literal.
    """
    return f.expr(f"element_at(array({number}L, 0L), if({quoted(column)} IS NULL, 2, 1))")


def _milliseconds(frame: DataFrame, time: str) -> SparkColumn:
    """The times of a column in milliseconds; null where there is none, or a number that no timestamp has."""
    try:
        kind = frame.select(quoted(time)).schema[0].dataType
    except AnalysisException as error:
        raise InputError(f"time={time!r}: the stream has no such column; it has {', '.join(frame.columns)}") from error
    if isinstance(kind, t.TimestampType | t.TimestampNTZType):
        return f.unix_millis(f.col(quoted(time)).cast("timestamp"))
    if isinstance(kind, t.IntegralType):
        at = f.col(quoted(time)).cast("long")
        return f.when(at.between(-LATEST, LATEST), at)
    raise InputError(f"the time {time} is {kind.simpleString()}: it must be a timestamp, or a long of milliseconds")


def satisfying(frame: DataFrame, relation: JoinInput, spec: JoinSpec) -> DataFrame:
    """The rows that satisfy the relation's own conditions, under its name."""
    return reduce(lambda rows, text: rows.where(f.expr(text)), spec.own_filters(relation.key), frame.alias(relation.name))
