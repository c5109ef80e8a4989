"""SPARQL's numbers: integer < decimal < float < double, their arithmetic and their canonical forms.

A number is a Python value: ``int`` (xsd:integer and derived types), ``Decimal``, :class:`Single` (xsd:float) or ``float``
(xsd:double); ``bool`` is never a number here. Choices where XSD and XPath leave freedom:

- Integers and decimals are exact and unbounded (pyoxigraph: 64 and 128 bits, an error beyond).
- A quotient of integers or decimals has 18 digits after the point, truncated, as in pyoxigraph; a quotient below 1e-9 has more,
  so that at least ten significant digits remain.
- Zero divided by a decimal is zero; in pyoxigraph it is an error if the divisor has a fraction.
- Canonical forms are XSD 1.1's: decimals without exponent and without trailing zeros (``"3"``, ``"2.5"``), floats and doubles as
  mantissa and exponent with the fewest digits that parse back (``"1.0E1"``, ``"INF"``, ``"-0.0E0"``). pyoxigraph writes the same
  double as ``10``.
"""

from __future__ import annotations

import math
import re
import struct
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import TypeAlias


class ExpressionError(Exception):
    """A SPARQL expression error: a filter drops the row, BIND leaves the variable unbound."""


class Single(float):
    """An xsd:float: a value that fits into 32 bits."""

    __slots__ = ()


Number: TypeAlias = "int | Decimal | float"

EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""Sums and products of decimals are never rounded; their length is bounded by the digits of the operands."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SPECIAL = {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf, "NaN": math.nan}
_FRACTION_DIGITS = 18
_SIGNIFICANT_DIGITS = 10


# ------------------------------------------------------------------ parsing
def parse_integer(lexical: str) -> int | None:
    """The integer of a lexical form of xsd:integer, of any length."""
    if not _INTEGER.fullmatch(lexical):
        return None
    return int(lexical) if len(lexical) < 4000 else int(Decimal(lexical))


def parse_decimal(lexical: str) -> Decimal | None:
    """The decimal of a lexical form of xsd:decimal."""
    return Decimal(lexical) if _DECIMAL.fullmatch(lexical) else None


def parse_double(lexical: str) -> float | None:
    """The double of a lexical form of xsd:double, including ``INF`` and ``NaN``."""
    if lexical in _SPECIAL:
        return _SPECIAL[lexical]
    return float(lexical) if _DOUBLE.fullmatch(lexical) else None


def parse_single(lexical: str) -> Single | None:
    """The float of a lexical form of xsd:float."""
    value = parse_double(lexical)
    return None if value is None else single(value)


def single(value: float) -> Single:
    """A double rounded to 32 bits; infinite if too large."""
    try:
        return Single(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return Single(math.copysign(math.inf, value))


def double(value: Number) -> float:
    """A number as a double; infinite if an integer is too large. No decimal is a negative zero (XML Schema, §3.3.3)."""
    try:
        return float(value) + 0.0 if isinstance(value, Decimal) else float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


# ------------------------------------------------------------------ formatting
def integer_text(value: int) -> str:
    """The canonical form of an integer, of any length."""
    return str(value) if value.bit_length() < 12_000 else format(Decimal(value), "f")


def decimal_text(value: Decimal) -> str:
    """The canonical form of a decimal: ``3``, ``2.5``, ``-0.001``."""
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def double_text(value: float) -> str:
    """The canonical form of a double or float: ``1.0E1``, ``INF``, ``NaN``."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "INF" if value > 0 else "-INF"
    if value == 0:
        return "-0.0E0" if math.copysign(1, value) < 0 else "0.0E0"
    sign, digits, exponent = Decimal(_shortest(value)).as_tuple()
    assert isinstance(exponent, int)
    mantissa = "".join(map(str, digits)).rstrip("0")
    return f"{'-' * sign}{mantissa[0]}.{mantissa[1:] or '0'}E{exponent + len(digits) - 1}"


def plain_text(value: float) -> str:
    """A double or float as XPath casts it to a string: without exponent between 1e-6 and 1e6, else canonical."""
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    return decimal_text(Decimal(_shortest(value))) if 1e-6 <= abs(value) < 1e6 else double_text(value)


def _shortest(value: float) -> str:
    if not isinstance(value, Single):
        return repr(value)
    return next(text for digits in range(1, 10) if single(float(text := f"{value:.{digits}g}")) == value)


# ------------------------------------------------------------------ arithmetic
def promote(a: Number, b: Number) -> tuple[Number, Number]:
    """Both numbers, converted to the wider of their types."""
    if isinstance(a, float) or isinstance(b, float):
        if (isinstance(a, float) and not isinstance(a, Single)) or (isinstance(b, float) and not isinstance(b, Single)):
            return double(a), double(b)
        return single(double(a)), single(double(b))
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        return Decimal(a), Decimal(b)
    return a, b


def add(a: Number, b: Number) -> Number:
    """``a + b``."""
    x, y = promote(a, b)
    if isinstance(x, Decimal) and isinstance(y, Decimal):
        return EXACT.add(x, y)
    return _like(x, x + y)  # type: ignore[operator]


def subtract(a: Number, b: Number) -> Number:
    """``a - b``."""
    x, y = promote(a, b)
    if isinstance(x, Decimal) and isinstance(y, Decimal):
        return EXACT.subtract(x, y)
    return _like(x, x - y)  # type: ignore[operator]


def multiply(a: Number, b: Number) -> Number:
    """``a * b``."""
    x, y = promote(a, b)
    if isinstance(x, Decimal) and isinstance(y, Decimal):
        return EXACT.multiply(x, y)
    return _like(x, x * y)  # type: ignore[operator]


def divide(a: Number, b: Number) -> Number:
    """``a / b``: for integers a decimal; division by an exact zero is an error, by 0.0E0 infinite or NaN."""
    x, y = promote(a, b)
    if isinstance(x, float):
        return _like(x, _float_quotient(x, double(y)))
    if not y:
        raise ExpressionError("division by zero")
    return quotient(Decimal(x), Decimal(y))


def quotient(a: Decimal, b: Decimal) -> Decimal:
    """An exact quotient truncated to 18 digits after the point, or more for a tiny value."""
    if not a:
        return Decimal(0)
    shift = max(_FRACTION_DIGITS, _SIGNIFICANT_DIGITS - 1 + b.adjusted() - a.adjusted() + 1)
    (numerator, down), (denominator, up) = a.as_integer_ratio(), b.as_integer_ratio()
    top, bottom = numerator * up * 10**shift, denominator * down
    whole = abs(top) // abs(bottom)
    return Decimal(whole if (top < 0) == (bottom < 0) else -whole).scaleb(-shift, EXACT)


def _float_quotient(x: float, y: float) -> float:
    if y:
        return x / y
    if math.isnan(x) or not x or math.isnan(y):
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1, y)


def _like(model: Number, value: Number) -> Number:
    return single(double(value)) if isinstance(model, Single) else value


def negate(a: Number) -> Number:
    """``-a``."""
    if isinstance(a, Decimal):
        return a.copy_negate() if a else a
    return _like(a, -a)


def absolute(a: Number) -> Number:
    """ABS."""
    return a.copy_abs() if isinstance(a, Decimal) else _like(a, abs(a))


def rounded(a: Number) -> Number:
    """ROUND: to the nearest integer, halves up."""
    if isinstance(a, Decimal):
        below = floor(a)
        assert isinstance(below, Decimal)
        return EXACT.add(below, Decimal(1)) if EXACT.subtract(a, below) >= Decimal("0.5") else below
    if isinstance(a, float) and math.isfinite(a):
        whole = float(math.floor(a))
        return _like(a, math.copysign(whole + 1 if a - whole >= 0.5 else whole, a))
    return a


def floor(a: Number) -> Number:
    """FLOOR."""
    if isinstance(a, Decimal):
        return a if a == a.to_integral_value(context=EXACT) else Decimal(math.floor(a))
    return _like(a, math.copysign(math.floor(a), a)) if isinstance(a, float) and math.isfinite(a) else a


def ceiling(a: Number) -> Number:
    """CEIL."""
    return negate(floor(negate(a)))


def nearest_decimal(a: float) -> Decimal:
    """The decimal of a float's shortest form; an error for INF and NaN."""
    if not math.isfinite(a):
        raise ExpressionError("no decimal is infinite or NaN")
    return Decimal(_shortest(a))


def binary_units(a: float) -> int:
    """A finite double as an integer multiple of 2**-1074, the smallest double: exact, and exact to add."""
    numerator, denominator = a.as_integer_ratio()
    return numerator * (_UNITS // denominator)


_UNITS = 2**1074


def exact_ratio(units: int, rest: Decimal, count: int) -> float:
    """``(units * 2**-1074 + rest) / count``, rounded once; infinite if too large."""
    numerator, denominator = rest.as_integer_ratio()
    top, bottom = units * denominator + numerator * _UNITS, _UNITS * denominator * count
    try:
        return top / bottom
    except OverflowError:
        return math.inf if top > 0 else -math.inf
