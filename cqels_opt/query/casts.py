"""Casts between XSD types (SPARQL 1.1 §17.5, after XPath): ``xsd:integer(?x)`` and the others.

xsd:string of a number follows XPath (``1.50`` becomes ``"1.5"``, ``1e0`` ``"1"``, ``1e6`` ``"1.0E6"``), while STR keeps the
lexical form. Beyond the specification: casts to the types derived from xsd:integer, to xsd:date and to xsd:time. A cast from a
string ignores surrounding white space.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

from cqels_opt.query import numeric
from cqels_opt.query.temporal import Temporal, convert
from cqels_opt.query.values import INTEGER_TYPES, Item, Text, Value, in_range, read, string, value
from cqels_opt.rdf import terms

_WHITE = " \t\r\n"


def to_string(item: Item) -> Item:
    """xsd:string."""
    found = value(item)
    if isinstance(found, Text):
        return string(found.lexical)
    if isinstance(found, bool):
        return string("true" if found else "false")
    if isinstance(found, int):
        return string(numeric.integer_text(found))
    if isinstance(found, Decimal):
        return string(numeric.decimal_text(found))
    if isinstance(found, float):
        return string(numeric.plain_text(found))
    if isinstance(found, Temporal):
        return string(str(found))
    if found.datatype:
        return string(terms.literal_parts(found.term)[0])
    if terms.is_iri(found.term):
        return string(found.term[1:-1])
    raise numeric.ExpressionError("a blank node has no string")


def to_boolean(item: Item) -> Item:
    """xsd:boolean."""
    found = _source(item, terms.XSD_BOOLEAN)
    return found == found and found != 0


def to_integer(item: Item) -> Item:
    """xsd:integer: truncates fractions."""
    found = _source(item, terms.XSD_INTEGER)
    if isinstance(found, float) and not math.isfinite(found):
        raise numeric.ExpressionError("no integer is infinite or NaN")
    return int(found)


def to_decimal(item: Item) -> Item:
    """xsd:decimal."""
    found = _source(item, terms.XSD_DECIMAL)
    return numeric.nearest_decimal(found) if isinstance(found, float) else Decimal(found)


def to_derived(datatype: str) -> Callable[[Item], Item]:
    """The cast to a type derived from xsd:integer; an error if the value is out of its range."""

    def run(item: Item) -> Item:
        whole = to_integer(item)
        assert isinstance(whole, int)
        if not in_range(whole, datatype):
            raise numeric.ExpressionError(f"out of the range of {datatype}")
        return terms.literal(numeric.integer_text(whole), datatype)

    return run


def to_temporal(kind: str) -> Callable[[Item], Item]:
    """xsd:dateTime, xsd:date or xsd:time."""

    def run(item: Item) -> Item:
        found: Value | None = value(item)
        if isinstance(found, Text) and not found.language:
            found = read(found.lexical.strip(_WHITE), terms.XSD + kind)
        converted = convert(found, kind) if isinstance(found, Temporal) else None
        if converted is None:
            raise numeric.ExpressionError(f"no xsd:{kind}")
        return terms.literal(str(converted), terms.XSD + kind)

    return run


def _source(item: Item, datatype: str) -> numeric.Number:
    """The number or boolean to cast from; a simple string is parsed as the target type."""
    found: Value | None = value(item)
    if isinstance(found, Text) and not found.language:
        found = read(found.lexical.strip(_WHITE), datatype)
    if not isinstance(found, (int, float, Decimal)):
        raise numeric.ExpressionError("cannot be cast")
    return found


CASTS: dict[str, Callable[[Item], Item]] = {
    **{f"<{derived}>": to_derived(derived) for derived in INTEGER_TYPES},
    f"<{terms.XSD_STRING}>": to_string,
    f"<{terms.XSD_BOOLEAN}>": to_boolean,
    f"<{terms.XSD_INTEGER}>": to_integer,
    f"<{terms.XSD_DECIMAL}>": to_decimal,
    f"<{terms.XSD_DOUBLE}>": lambda item: numeric.double(_source(item, terms.XSD_DOUBLE)),
    f"<{terms.XSD_FLOAT}>": lambda item: numeric.single(numeric.double(_source(item, terms.XSD_FLOAT))),
    f"<{terms.XSD_DATETIME}>": to_temporal("dateTime"),
    f"<{terms.XSD}date>": to_temporal("date"),
    f"<{terms.XSD}time>": to_temporal("time"),
}
"""The casts, by the function name in :class:`~cqels_opt.query.algebra.Call`."""
