"""Casts between XSD types (SPARQL 1.1 §17.5, after XPath): ``xsd:integer(?x)`` and the others.

xsd:string of a number follows XPath (``1.50`` becomes ``"1.5"``, ``1e0`` ``"1"``, ``1e6`` ``"1.0E6"``), while STR keeps the
lexical form. Beyond the specification: casts to the types derived from xsd:integer, to xsd:date and to xsd:time. A cast from a
string ignores surrounding white space.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

from cqels_opt.query.numeric import (
    ExpressionError,
    Number,
    decimal_text,
    double,
    integer_text,
    nearest_decimal,
    plain_text,
    single,
)
from cqels_opt.query.temporal import Temporal, convert
from cqels_opt.query.values import INTEGER_TYPES, Item, Text, Value, in_range, read, string, value
from cqels_opt.rdf.terms import (
    XSD,
    XSD_BOOLEAN,
    XSD_DATETIME,
    XSD_DECIMAL,
    XSD_DOUBLE,
    XSD_FLOAT,
    XSD_INTEGER,
    XSD_STRING,
    is_iri,
    literal,
    literal_parts,
)

_WHITE = " \t\r\n"


def to_string(item: Item) -> Item:
    """xsd:string."""
    found = value(item)
    if isinstance(found, Text):
        return string(found.lexical)
    if isinstance(found, bool):
        return string("true" if found else "false")
    if isinstance(found, int):
        return string(integer_text(found))
    if isinstance(found, Decimal):
        return string(decimal_text(found))
    if isinstance(found, float):
        return string(plain_text(found))
    if isinstance(found, Temporal):
        return string(str(found))
    if found.datatype:
        return string(literal_parts(found.term)[0])
    if is_iri(found.term):
        return string(found.term[1:-1])
    raise ExpressionError("a blank node has no string")


def to_boolean(item: Item) -> Item:
    """xsd:boolean."""
    found = _source(item, XSD_BOOLEAN)
    return found == found and found != 0


def to_integer(item: Item) -> Item:
    """xsd:integer: truncates fractions."""
    found = _source(item, XSD_INTEGER)
    if isinstance(found, float) and not math.isfinite(found):
        raise ExpressionError("no integer is infinite or NaN")
    return int(found)


def to_decimal(item: Item) -> Item:
    """xsd:decimal."""
    found = _source(item, XSD_DECIMAL)
    return nearest_decimal(found) if isinstance(found, float) else Decimal(found)


def to_double(item: Item) -> Item:
    """xsd:double."""
    return double(_source(item, XSD_DOUBLE))


def to_float(item: Item) -> Item:
    """xsd:float."""
    return single(double(_source(item, XSD_FLOAT)))


def to_derived(datatype: str) -> Callable[[Item], Item]:
    """The cast to a type derived from xsd:integer; an error if the value is out of its range."""

    def run(item: Item) -> Item:
        whole = to_integer(item)
        assert isinstance(whole, int)
        if not in_range(whole, datatype):
            raise ExpressionError(f"{whole} is out of range")
        return literal(integer_text(whole), datatype)

    return run


def to_temporal(kind: str) -> Callable[[Item], Item]:
    """xsd:dateTime, xsd:date or xsd:time."""

    def run(item: Item) -> Item:
        found: Value | None = value(item)
        if isinstance(found, Text) and not found.language:
            found = read(found.lexical.strip(_WHITE), XSD + kind)
        converted = convert(found, kind) if isinstance(found, Temporal) else None
        if converted is None:
            raise ExpressionError(f"no xsd:{kind}")
        return literal(str(converted), XSD + kind)

    return run


def _source(item: Item, datatype: str) -> Number:
    """The number or boolean to cast from; a simple string is parsed as the target type."""
    found: Value | None = value(item)
    if isinstance(found, Text) and not found.language:
        found = read(found.lexical.strip(_WHITE), datatype)
    if not isinstance(found, (int, float, Decimal)):
        raise ExpressionError("cannot be cast")
    return found


CASTS: dict[str, Callable[[Item], Item]] = {
    **{f"<{derived}>": to_derived(derived) for derived in INTEGER_TYPES},
    f"<{XSD_STRING}>": to_string,
    f"<{XSD_BOOLEAN}>": to_boolean,
    f"<{XSD_INTEGER}>": to_integer,
    f"<{XSD_DECIMAL}>": to_decimal,
    f"<{XSD_DOUBLE}>": to_double,
    f"<{XSD_FLOAT}>": to_float,
    f"<{XSD_DATETIME}>": to_temporal("dateTime"),
    f"<{XSD}date>": to_temporal("date"),
    f"<{XSD}time>": to_temporal("time"),
}
"""The casts, by the function name in :class:`~cqels_opt.query.algebra.Call`."""
