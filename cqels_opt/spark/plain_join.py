"""Queries over a micro-batch as DataFrames that Spark plans: of a declared join, and of SQL."""

from __future__ import annotations

from functools import reduce
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from cqels_opt.errors import InputError
from cqels_opt.spark.catalyst import LogicalPlan, items, relations_of, temporary_view
from cqels_opt.spark.replanned_join import Build
from cqels_opt.spark.windowed_join import Declared

_HOW = {"optional": "left", "semi": "leftsemi", "anti": "leftanti"}


def plain_join(declared: Declared, frame: DataFrame, number: int) -> DataFrame:
    """The answers of a declared join without windows, in the order of declaration. Raises InputError for a column that does not exist."""
    spec = declared.spec
    frames = {r.name: declared.current(r.name, number) if r.static else frame for r in spec.relations}
    inner = [frames[r.name].alias(r.name) for r in spec.relations if r.kind == "inner"]
    try:
        rows = reduce(DataFrame.crossJoin, inner)
        after = [c.text for c in spec.conditions if c.relations & spec.units]
        for text in (c.text for c in spec.conditions if c.text not in after):
            rows = rows.where(f.expr(text))
        for relation in (r for r in spec.relations if r.kind != "inner"):
            on = [f.expr(condition.text) for condition in spec.joined[relation.key]]
            rows = rows.join(frames[relation.name].alias(relation.name), reduce(Column.__and__, on), _HOW[relation.kind])
        rows = reduce(DataFrame.where, map(f.expr, after), rows)
        if declared.projection:
            return rows.selectExpr(*declared.projection)
        shown = [r.name for r in spec.relations if r.kind in ("inner", "optional")]
        return rows.select(*(f.struct(f.col(f"`{name}`.*")).alias(name) for name in shown))
    except AnalysisException as error:
        columns = "; ".join(f"{name} has {', '.join(one.columns)}" for name, one in frames.items())
        raise InputError(f"{str(error).splitlines()[0]} The relations: {columns}") from error


def query_of_sql(spark: SparkSession, query: str, stream: str | None) -> Build:
    """The query as a function of the micro-batch and its id, and nothing else."""
    try:
        tree = spark._jsparkSession.sessionState().sqlParser().parsePlan(query)
    except ParseException as error:
        raise InputError(f"adaptive_sql: {str(error).strip().splitlines()[0]}") from error
    if stream is None:
        single = [leaf for leaf in relations_of(tree) if leaf.multipartIdentifier().size() == 1]
        unknown = sorted({_name(leaf) for leaf in single if not spark.catalog.tableExists(leaf.tableName())})
        if len(unknown) != 1:
            found = f"{', '.join(unknown)} are" if unknown else "none of its names is"
            raise InputError(f"adaptive_sql: {found} unknown to Spark; name the one of the micro-batch by stream=NAME")
        stream = unknown[0]
    name = stream.strip("`")

    def build(frame: DataFrame, number: int) -> DataFrame:
        with temporary_view(frame, name):
            return frame.sparkSession.sql(query)

    return build


def _name(relation: LogicalPlan) -> str:
    """The name of a relation of one part, in lower case, because Spark ignores case."""
    return str(relation.multipartIdentifier().apply(0)).lower()


def text_of(condition: str | Column, method: str) -> str:
    """A condition as Spark SQL."""
    if isinstance(condition, Column):
        column: Any = condition
        return _sql(column._jc.node())
    if not isinstance(condition, str):
        raise InputError(f"{method}(…) expects a condition as a string or a Column, not {type(condition).__name__}")
    return condition


_BINARY = {"and", "or", "=", "==", "<=>", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "|", "^", "||", "div"}


def _sql(node: Any) -> str:
    """A node of a column's tree as Spark SQL. Its own text has operators before their operands: ``and(=(a, b), <(c, d))``."""
    kind = node.getClass().getSimpleName()
    if kind == "Cast":
        return f"CAST({_sql(node.child())} AS {node.dataType().sql()})"
    if kind != "UnresolvedFunction":
        return str(node.sql())
    name, arguments = str(node.functionName()), [_sql(argument) for argument in items(node.arguments())]
    if name.lower() in _BINARY and len(arguments) == 2:
        return f"({arguments[0]} {name.upper()} {arguments[1]})"
    if name in ("not", "!"):
        return f"(NOT {arguments[0]})"
    if name == "in":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    return f"{name}({', '.join(arguments)})"
