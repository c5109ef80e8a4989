"""Conditions and output columns as Spark SQL, given as texts or as columns of PySpark."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import Column, SparkSession

from cqels_opt.errors import InputError
from cqels_opt.relational.column_names import quoted
from cqels_opt.relational.conditions import without_comments
from cqels_opt.spark.catalyst import items
from cqels_opt.spark.versions import BEFORE_4, function_of, literal_text, tree_of

_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_BINARY = {"and", "or", "=", "==", "<=>", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "|", "^", "||", "div"}


class _NoTextError(Exception):
    """A part of a column that Spark SQL has no text for."""


class _OfADataFrameError(Exception):
    """A column such as ``views.who`` of the DataFrame ``views``, whose name alone does not determine its relation."""


def text_of(spark: SparkSession, given: str | Column, method: str) -> str:
    """A condition or an output column as Spark SQL; ``method`` is that of the user, for the error message."""
    if isinstance(given, Column):
        tree = tree_of(given)
        try:
            found = str(tree.expression()) if _kind(tree) == "SqlExpression" else _sql(spark._jvm, tree)
        except _OfADataFrameError as error:
            raise InputError(
                f"{method}(…): the column {error} is one of a DataFrame: name it with its relation, as in col('RELATION.{error}')"
            ) from error
        except _NoTextError as error:
            raise InputError(
                f"{method}(…): Spark SQL has no text for {error} of a Column: add the column to the DataFrame before, or give a string"
            ) from error
    elif isinstance(given, str):
        found = given
    else:
        raise InputError(f"{method}(…) expects a string or a Column, not {type(given).__name__}")
    if not (found := without_comments(found)).strip():
        raise InputError(f"{method}({given!r}): the text is empty")
    return found


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _sql(jvm: Any, node: Any) -> str:
    """A node of a column's tree as Spark SQL. Its own text has operators before their operands, ``and(=(a, b), <(c, d))``, and names and
    literals without quotation marks."""
    match _kind(node):
        case "Literal":
            return _unreplaced(literal_text(jvm, node))
        case "UnresolvedAttribute":
            return ".".join(part if _PLAIN.fullmatch(part) else quoted(part) for part in map(str, items(node.nameParts())))
        case "UnresolvedStar" if not BEFORE_4:
            return str(node.unparsedTarget().get()) if node.unparsedTarget().isDefined() else "*"
        case "SqlExpression":
            return f"({without_comments(str(node.expression()))})"
        case "Alias":
            return f"{_sql(jvm, node.child())} AS {_name_of(node)}"
        case "Cast":
            tries = str(node.sql()).startswith("TRY_CAST(")
            return f"{'TRY_CAST' if tries else 'CAST'}({_sql(jvm, node.child())} AS {node.dataType().sql()})"
        case "CaseWhenOtherwise":
            return _case(jvm, node)
        case "LambdaFunction":
            arguments = [str(argument.sql()) for argument in items(node.arguments())]
            named = arguments[0] if len(arguments) == 1 else f"({', '.join(arguments)})"
            return f"{named} -> {_sql(jvm, node.function())}"
        case "UnresolvedNamedLambdaVariable":
            return str(node.sql())
        case "UnresolvedExtractValue":
            return f"{_sql(jvm, node.child())}[{_sql(jvm, node.extraction())}]"
        case "UnresolvedFunction":
            return _function(jvm, node)
        case "SortOrder":
            return _sql(jvm, node.child()) + str(node.sql()).removeprefix(str(node.child().sql()))
        case "Window" if not BEFORE_4:
            return _window(jvm, node)
        case "ExpressionColumnNode" if _kind(node.expression()) == "AttributeReference":
            raise _OfADataFrameError(str(node.expression().name()))
        case kind if not BEFORE_4:
            raise _NoTextError("a function of Python" if kind == "ExpressionColumnNode" else kind)
    return _unreplaced(str(node.sql()))


def _unreplaced(literals: str) -> str:
    """Spark's parser replaces ${…} in texts, and joins adjacent strings."""
    return literals.replace("${", "$' '{")


def _name_of(alias: Any) -> str:
    """The name of an alias, which is a list of names in Spark 4."""
    found = alias.name()
    names = [quoted(name) for name in ([found] if isinstance(found, str) else map(str, items(found)))]
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def _case(jvm: Any, node: Any) -> str:
    branches = [f"WHEN {_sql(jvm, when._1())} THEN {_sql(jvm, when._2())}" for when in items(node.branches())]
    otherwise = [] if node.otherwise().isEmpty() else [f"ELSE {_sql(jvm, node.otherwise().get())}"]
    return " ".join(["CASE", *branches, *otherwise, "END"])


def _function(jvm: Any, node: Any) -> str:
    name, is_internal = function_of(node)
    if is_internal:
        raise _NoTextError(f"the function {name}")
    arguments = [_sql(jvm, argument) for argument in items(node.arguments())]
    if name.lower() in _BINARY and len(arguments) == 2:
        return f"({arguments[0]} {name.upper()} {arguments[1]})"
    if name in ("not", "!"):
        return f"(NOT {arguments[0]})"
    if name == "in" and len(arguments) == 1:
        return f"({arguments[0]} IS NOT NULL AND FALSE)"  # among no values
    if name == "in":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    return f"{name}({'DISTINCT ' if node.isDistinct() else ''}{', '.join(arguments)})"


def _window(jvm: Any, node: Any) -> str:
    spec, parts = node.windowSpec(), list[str]()
    for words, columns in (("PARTITION BY", spec.partitionColumns()), ("ORDER BY", spec.sortColumns())):
        if texts := [_sql(jvm, column) for column in items(columns)]:
            parts.append(f"{words} {', '.join(texts)}")
    if spec.frame().isDefined():
        frame = spec.frame().get()
        unit = "ROWS" if _kind(frame.frameType()).startswith("Row") else "RANGE"
        parts.append(f"{unit} BETWEEN {_boundary(jvm, frame.lower())} AND {_boundary(jvm, frame.upper())}")
    return f"{_sql(jvm, node.windowFunction())} OVER ({' '.join(parts)})"


def _boundary(jvm: Any, boundary: Any) -> str:
    if _kind(boundary) != "Value":
        return str(boundary.sql())
    text = _sql(jvm, boundary.value())
    return f"{text[1:]} PRECEDING" if text.startswith("-") else f"{text} FOLLOWING"


__all__ = ["Column", "text_of"]
