"""Terms as values: parsing of literals, equality, order and effective boolean value.

While an expression is computed, an :data:`Item` is either the text of a term or, for a computed number or boolean, its Python
value; :func:`term` writes the latter canonically. :func:`value` parses a term's value.

Where SPARQL 1.1 and pyoxigraph differ, this module follows SPARQL 1.1:

- ``=`` and ``!=`` of two literals whose types cannot be compared (``"a" = 1``) is an error (RDFterm-equal); in pyoxigraph they
  differ. Strings are always comparable with strings: ``"a" = "a"@en`` is false in both. Following the W3C's tests (open-world), a
  string with a language differs from any other literal, and a date from a dateTime.
- ``<`` compares numbers, simple strings, booleans and, as an extension, dates and times of the same kind. pyoxigraph does not
  compare booleans but compares strings of one language; a comparison with NaN is false, in pyoxigraph an error.
- The effective boolean value of ``"a"@en`` is true and that of ``"x"^^xsd:integer`` false; pyoxigraph has an error for both. NaN
  is false; in pyoxigraph true.
- A lexical form out of its type's range (``"300"^^xsd:byte``) is ill-typed; pyoxigraph reads 300.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, TypeAlias, TypeGuard, TypeVar

from cqels_opt.query import numeric
from cqels_opt.query.temporal import Temporal, parse_temporal
from cqels_opt.rdf import terms

TRUE: Final = terms.literal("true", terms.XSD_BOOLEAN)
FALSE: Final = terms.literal("false", terms.XSD_BOOLEAN)


@dataclass(frozen=True, slots=True)
class Text:
    """The value of a string, with its language tag or ""."""

    lexical: str
    language: str


@dataclass(frozen=True, slots=True)
class Opaque:
    """An IRI, a blank node, or a literal without a known value; ``datatype`` is that of the literal, else ""."""

    term: str
    datatype: str


Item: TypeAlias = "str | numeric.Number"  # bool is an int to mypy
T = TypeVar("T")
Value: TypeAlias = "numeric.Number | Text | Temporal | Opaque"

_BITS: Final = {"long": 64, "int": 32, "short": 16, "byte": 8}
_RANGES: Final[dict[str, tuple[int | None, int | None]]] = {
    terms.XSD_INTEGER: (None, None),
    terms.XSD + "nonPositiveInteger": (None, 0),
    terms.XSD + "negativeInteger": (None, -1),
    terms.XSD + "nonNegativeInteger": (0, None),
    terms.XSD + "positiveInteger": (1, None),
    **{terms.XSD + name: (-(1 << bits - 1), (1 << bits - 1) - 1) for name, bits in _BITS.items()},
    **{terms.XSD + "unsigned" + name.title(): (0, (1 << bits) - 1) for name, bits in _BITS.items()},
}
"""xsd:integer and the types derived from it, with their bounds."""
INTEGER_TYPES: Final = frozenset(_RANGES)
NUMERIC_TYPES: Final = INTEGER_TYPES | {terms.XSD_DECIMAL, terms.XSD_FLOAT, terms.XSD_DOUBLE}
_TEMPORAL: Final = {
    terms.XSD_DATETIME: "dateTime",
    terms.XSD + "dateTimeStamp": "dateTime",
    terms.XSD + "date": "date",
    terms.XSD + "time": "time",
}
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}


# ------------------------------------------------------------------ reading and writing
CACHED: Final = 256
"""Characters of a term, at most, whose value is kept: the caches are limited by their entries."""


def value(item: Item) -> Value:
    """The value of an item."""
    if not isinstance(item, str):
        return item
    return _parse(item) if len(item) <= CACHED else _parse.__wrapped__(item)


@lru_cache(maxsize=1 << 16)
def _parse(text: str) -> Value:
    if not text.startswith('"'):
        return Opaque(text, "")
    lexical, datatype, language = terms.literal_parts(text)
    if datatype == terms.XSD_STRING or language is not None:
        return Text(lexical, language or "")
    found = read(lexical, datatype)
    return Opaque(text, datatype) if found is None else found


def read(lexical: str, datatype: str) -> numeric.Number | Temporal | None:
    """The value of a lexical form of a known datatype other than a string; None if the form is invalid."""
    if datatype in _RANGES:
        whole = numeric.parse_integer(lexical)
        return whole if whole is not None and in_range(whole, datatype) else None
    if datatype == terms.XSD_DECIMAL:
        return numeric.parse_decimal(lexical)
    if datatype == terms.XSD_DOUBLE:
        return numeric.parse_double(lexical)
    if datatype == terms.XSD_FLOAT:
        return numeric.parse_single(lexical)
    if datatype == terms.XSD_BOOLEAN:
        return _BOOLEANS.get(lexical)
    kind = _TEMPORAL.get(datatype)
    found = parse_temporal(kind, lexical) if kind else None
    return None if found and found.zone is None and datatype.endswith("Stamp") else found


def in_range(whole: int, datatype: str) -> bool:
    """Whether an integer is in the range of a type derived from xsd:integer."""
    low, high = _RANGES[datatype]
    return (low is None or low <= whole) and (high is None or whole <= high)


def term(item: Item) -> str:
    """The canonical text of an item."""
    if isinstance(item, str):
        return item
    if isinstance(item, bool):
        return TRUE if item else FALSE
    if isinstance(item, int):
        return f'"{numeric.integer_text(item)}"^^<{terms.XSD_INTEGER}>'
    if isinstance(item, Decimal):
        return f'"{numeric.decimal_text(item)}"^^<{terms.XSD_DECIMAL}>'
    return f'"{numeric.double_text(item)}"^^<{terms.XSD_FLOAT if isinstance(item, numeric.Single) else terms.XSD_DOUBLE}>'


def is_number(x: object) -> TypeGuard[numeric.Number]:
    """Whether a value is a number (a boolean is not)."""
    return isinstance(x, (int, Decimal, float)) and not isinstance(x, bool)


def number(item: Item) -> numeric.Number:
    """The number of an item; raises ExpressionError."""
    found = value(item)
    if not is_number(found):
        raise numeric.ExpressionError("not a number")
    return found


def text(item: Item) -> Text:
    """The string of an item; raises ExpressionError."""
    found = value(item)
    if not isinstance(found, Text):
        raise numeric.ExpressionError("not a string")
    return found


def simple(item: Item) -> str:
    """The lexical form of a string without language tag; raises ExpressionError."""
    found = text(item)
    if found.language:
        raise numeric.ExpressionError("a string with a language tag")
    return found.lexical


def string(lexical: str, language: str = "") -> str:
    """The term of a string."""
    return terms.literal(lexical, language=language or None)


def datatype(item: Item) -> str:
    """The datatype IRI of a literal, without angle brackets; raises ExpressionError."""
    written = term(item)
    if not written.startswith('"'):
        raise numeric.ExpressionError("not a literal")
    return terms.literal_parts(written)[1]


# ------------------------------------------------------------------ comparing
def effective_boolean(item: Item) -> bool:
    """The effective boolean value (SPARQL 1.1 §17.2.2); raises ExpressionError."""
    if isinstance(item, bool):
        return item
    found = value(item)
    if isinstance(found, float):
        return not math.isnan(found) and found != 0
    if isinstance(found, (int, Decimal)):
        return found != 0
    if isinstance(found, Text):
        return found.lexical != ""
    if isinstance(found, Opaque) and (found.datatype == terms.XSD_BOOLEAN or found.datatype in NUMERIC_TYPES):
        return False
    raise numeric.ExpressionError("no effective boolean value")


def equal(a: Item, b: Item) -> bool:
    """``a = b`` (SPARQL 1.1 §17.3 and RDFterm-equal); raises ExpressionError for literals that cannot be compared."""
    if isinstance(a, str) and isinstance(b, str) and terms.is_triple(a) and terms.is_triple(b):
        return _equal_triples(a, b)
    x, y = value(a), value(b)
    if is_number(x) and is_number(y):
        p, q = numeric.promote(x, y)
        return p == q
    if isinstance(x, Temporal) and isinstance(y, Temporal) and x.kind == y.kind:
        return x.instant == y.instant
    if isinstance(x, bool) and isinstance(y, bool):
        return x is y
    if isinstance(x, Text) and isinstance(y, Text):
        return x == y
    if isinstance(x, Opaque) and isinstance(y, Opaque) and x.term == y.term:
        return True
    if (isinstance(x, Opaque) and not x.datatype) or (isinstance(y, Opaque) and not y.datatype):
        return False
    if (isinstance(x, Text) and x.language) or (isinstance(y, Text) and y.language):
        return False
    if isinstance(x, Temporal) and isinstance(y, Temporal):
        return False
    raise numeric.ExpressionError("literals that cannot be compared")


def _equal_triples(a: str, b: str) -> bool:
    """``=`` of triple terms: whether their components are pairwise equal (SPARQL 1.2); one unequal pair suffices for false."""
    return decided(False, lambda pair: equal(*pair), zip(terms.triple_parts(a), terms.triple_parts(b)))


def decided(by: bool, test: Callable[[T], bool], items: Iterable[T]) -> bool:
    """``by`` if any test gives it; else the error of a test, if any; else ``not by`` (SPARQL 1.1 §17.2)."""
    error = None
    for item in items:
        try:
            if test(item) == by:
                return by
        except numeric.ExpressionError as found:
            error = found
    if error is not None:
        raise error
    return not by


def ordering(compare: Callable[[Any, Any], bool]) -> Callable[[Item, Item], bool]:
    """``<``, ``>``, ``<=`` or ``>=`` of items, from the operator of Python values."""

    def run(a: Item, b: Item) -> bool:
        x, y = value(a), value(b)
        if is_number(x) and is_number(y):
            p, q = numeric.promote(x, y)
            return compare(p, q)
        if isinstance(x, Text) and isinstance(y, Text) and not x.language and not y.language:
            return compare(x.lexical, y.lexical)
        if isinstance(x, Temporal) and isinstance(y, Temporal) and x.kind == y.kind:
            return compare(x.instant, y.instant)
        if isinstance(x, bool) and isinstance(y, bool):
            return compare(x, y)
        raise numeric.ExpressionError("terms that have no order")

    return run


less, greater = ordering(operator.lt), ordering(operator.gt)
less_or_equal, greater_or_equal = ordering(operator.le), ordering(operator.ge)


# ------------------------------------------------------------------ the total order
OrderKey: TypeAlias = tuple[int, Any, str]
_UNBOUND, _BLANK, _IRI, _NUMBER, _BOOLEAN, _TIME, _STRING, _OTHER, _TRIPLE = range(9)


def order_key(item: Item | None) -> OrderKey:
    """The position of a term in the total order of ORDER BY, MIN, MAX, SAMPLE and GROUP_CONCAT.

    Unbound < blank nodes < IRIs < literals < triple terms. Among literals: numbers < booleans < dates and times < strings <
    others; numbers by value (NaN last), strings by code point and then by language. Triple terms compare component by component.
    The text breaks ties.
    """
    if item is None:
        return (_UNBOUND, 0, "")
    written = term(item)
    return _order_key(written) if len(written) <= CACHED else _order_key.__wrapped__(written)


@lru_cache(maxsize=1 << 16)
def _order_key(written: str) -> OrderKey:
    found = value(written)
    if isinstance(found, bool):
        return (_BOOLEAN, found, written)
    if is_number(found):
        return (_NUMBER, (True, 0) if found != found else (False, found), written)
    if isinstance(found, Temporal):
        return (_TIME, (found.kind, found.instant), written)
    if isinstance(found, Text):
        return (_STRING, (found.lexical, found.language), written)
    if written.startswith('"'):
        return (_OTHER, 0, written)
    if terms.is_triple(written):
        return (_TRIPLE, tuple(map(_order_key, terms.triple_parts(written))), written)
    return (_IRI, written[1:-1], written) if written.startswith("<") else (_BLANK, 0, written)


def sort_key(item: Item | None) -> tuple[int, Any]:
    """The key of a term for ORDER BY: as :func:`order_key`, but equal values tie, so that the next sort key decides."""
    return _by_value(order_key(item))


def _by_value(key: OrderKey) -> tuple[int, Any]:
    kind, found, written = key
    if kind == _TRIPLE:
        return kind, tuple(map(_by_value, found))
    return kind, written if kind in (_BLANK, _OTHER) else found
