"""Conditions and output columns as Spark SQL, given as texts or as columns of PySpark."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import Column, SparkSession

from cqels_opt.errors import InputError
from cqels_opt.relational.column_names import quoted
from cqels_opt.spark.catalyst import items
from cqels_opt.spark.versions import literal_text, tree_of

_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_BINARY = {"and", "or", "=", "==", "<=>", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "|", "^", "||", "div"}


def text_of(spark: SparkSession, given: str | Column, method: str) -> str:
    """A condition or an output column as Spark SQL; ``method`` is that of the user, for the error message."""
    if isinstance(given, Column):
        return _sql(spark._jvm, tree_of(given))
    if not isinstance(given, str):
        raise InputError(f"{method}(…) expects a string or a Column, not {type(given).__name__}")
    return given


def _sql(jvm: Any, node: Any) -> str:
    """A node of a column's tree as Spark SQL. Its own text has operators before their operands, ``and(=(a, b), <(c, d))``, and names and
    literals without quotation marks."""
    match node.getClass().getSimpleName():
        case "Literal":
            return literal_text(jvm, node)
        case "UnresolvedAttribute":
            return ".".join(part if _PLAIN.fullmatch(part) else quoted(part) for part in map(str, items(node.nameParts())))
        case "SqlExpression":
            return f"({node.expression()})"
        case "Alias":
            return f"{_sql(jvm, node.child())} AS {quoted(_name_of(node))}"
        case "Cast":
            return f"CAST({_sql(jvm, node.child())} AS {node.dataType().sql()})"
        case "CaseWhenOtherwise":
            return _case(jvm, node)
        case "LambdaFunction":
            arguments = [str(argument.sql()) for argument in items(node.arguments())]
            named = arguments[0] if len(arguments) == 1 else f"({', '.join(arguments)})"
            return f"{named} -> {_sql(jvm, node.function())}"
        case "UnresolvedExtractValue":
            return f"{_sql(jvm, node.child())}[{_sql(jvm, node.extraction())}]"
        case "UnresolvedFunction":
            return _function(str(node.functionName()), [_sql(jvm, argument) for argument in items(node.arguments())])
    return str(node.sql())


def _name_of(alias: Any) -> str:
    """The name of an alias, which is a list of names in Spark 4."""
    name = alias.name()
    return name if isinstance(name, str) else str(name.apply(0))


def _case(jvm: Any, node: Any) -> str:
    branches = [f"WHEN {_sql(jvm, when._1())} THEN {_sql(jvm, when._2())}" for when in items(node.branches())]
    otherwise = [] if node.otherwise().isEmpty() else [f"ELSE {_sql(jvm, node.otherwise().get())}"]
    return " ".join(["CASE", *branches, *otherwise, "END"])


def _function(name: str, arguments: list[str]) -> str:
    if name.lower() in _BINARY and len(arguments) == 2:
        return f"({arguments[0]} {name.upper()} {arguments[1]})"
    if name in ("not", "!"):
        return f"(NOT {arguments[0]})"
    if name == "in":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    return f"{name}({', '.join(arguments)})"


__all__ = ["Column", "text_of"]
