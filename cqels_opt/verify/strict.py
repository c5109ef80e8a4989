"""Comparisons exactly as in SPARQL 1.1 (§17.3, §17.4.1.7): literals without a common value space cannot be compared."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, TypeAlias

from rdflib import RDF, XSD, Literal
from rdflib.plugins.sparql.parserutils import Expr
from rdflib.plugins.sparql.sparql import SPARQLError

Value: TypeAlias = tuple[str, Any]
"""The kind of a literal and its Python value; values of one kind are comparable."""

_NUMBERS = (int, float, Decimal)
_TIMES = {XSD.dateTime: "dateTime", XSD.date: "date", XSD.time: "time"}
_ORDER: dict[str, Callable[[Any, Any], Any]] = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}


def relation(node: Expr, context: Any) -> Any:
    """``=``, ``!=``, ``<``, ``>``, ``<=``, ``>=``, ``IN`` or ``NOT IN`` of an rdflib expression."""
    left, name, right = node.expr, node.op, node.other
    if right is None:
        return left
    if name in ("IN", "NOT IN"):
        return Literal(_among(left, [] if right == RDF.nil else right) == (name == "IN"))
    if name in ("=", "!="):
        return Literal(equal(left, right) == (name == "="))
    x, y = _value(left), _value(right)
    if x is None or y is None or x[0] != y[0]:
        raise SPARQLError(f"{left!r} and {right!r} have no order")
    try:
        return Literal(bool(_ORDER[name](*_promoted(x[1], y[1]))))
    except TypeError as error:  # times with and without a zone
        raise SPARQLError(str(error)) from error


def equal(left: Any, right: Any) -> bool:
    """``left = right``, or an error for literals of different or unknown kinds."""
    if not isinstance(left, Literal) or not isinstance(right, Literal):
        return bool(left == right)
    x, y = _value(left), _value(right)
    if x is not None and y is not None and x[0] == y[0]:
        p, q = _promoted(x[1], y[1])
        return bool(p == q)
    if left == right:
        return True
    if _is_text(left) and _is_text(right):  # one of them has a language: the terms differ
        return False
    raise SPARQLError(f"{left!r} and {right!r} cannot be compared")


def _among(item: Any, others: Iterable[Any]) -> bool:
    """Whether an item equals another one; an error if it equals none and some cannot be compared."""
    problem = None
    for other in others:
        try:
            if equal(item, other):
                return True
        except SPARQLError as error:
            problem = error
    if problem:
        raise problem
    return False


def _value(term: Any) -> Value | None:
    """The kind and value of a literal; None if it has no comparable value."""
    if not isinstance(term, Literal) or term.language:
        return None
    if term.datatype in (None, XSD.string):
        return "string", str(term)
    found = term.value
    if isinstance(found, bool):
        return "boolean", found
    if isinstance(found, _NUMBERS):
        return "number", found
    kind = _TIMES.get(term.datatype)
    return (kind, found) if kind and found is not None else None


def _is_text(term: Literal) -> bool:
    return bool(term.language) or term.datatype in (None, XSD.string)


def _promoted(x: Any, y: Any) -> tuple[Any, Any]:
    """Both numbers in one type: double if either is a double."""
    if isinstance(x, float) or isinstance(y, float):
        return float(x), float(y)
    return x, y
