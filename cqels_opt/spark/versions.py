"""What Spark 3.5 has under another name than Spark 4. Joins of DataFrames work with both, all else with Spark 4."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

BEFORE_4 = int(pyspark.__version__.partition(".")[0]) < 4


@lru_cache(maxsize=1)
def datasets(jvm: Any) -> Any:
    """The class of DataFrames in a JVM; each part of its name is a call."""
    return jvm.org.apache.spark.sql.Dataset if BEFORE_4 else jvm.org.apache.spark.sql.classic.Dataset


def columns(jvm: Any) -> Any:
    """A function from an expression of Catalyst to a column of the JVM."""
    return jvm.org.apache.spark.sql.Column if BEFORE_4 else jvm.org.apache.spark.sql.classic.ExpressionUtils.column


def literal_text(jvm: Any, literal: Any) -> str:
    """A literal of a column's tree as Spark SQL. In Spark 4 its own text lacks the type: a date is printed as a subtraction of numbers."""
    if BEFORE_4:
        return str(literal.sql())
    converter = getattr(jvm.org.apache.spark.sql.classic, "ColumnNodeToExpressionConverter$")
    return str(getattr(converter, "MODULE$").apply(literal).sql())


def arrow_table(frame: DataFrame) -> pa.Table:
    """The rows of a DataFrame."""
    if not BEFORE_4:
        return frame.toArrow()
    old: Any = frame
    return pa.Table.from_batches(old._collect_as_arrow(), to_arrow_schema(frame.schema))


def await_observations(spark: SparkSession) -> None:
    """Waits up to a second for what the last action has observed, which Spark 3.5 reports from another thread, after the action."""
    if BEFORE_4:
        with suppress(Py4JError):  # the time is over
            spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(1_000)


def tree_of(column: Column) -> Any:
    """The tree of a column in the JVM, in Spark 3.5 an expression of Catalyst."""
    inner: Any = column
    return inner._jc.expr() if BEFORE_4 else inner._jc.node()


def function_of(node: Any) -> tuple[str, bool]:
    """The name of a function in a column's tree, and whether it is one of Spark's own that SQL cannot call."""
    if not BEFORE_4:
        return str(node.functionName()), bool(node.isInternal())
    parts = node.nameParts()
    return ".".join(str(parts.apply(i)) for i in range(parts.size())), False
