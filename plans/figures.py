"""Rows, costs, bytes and statistics as text for people: never an exponent, and a unit with each figure that has one."""

from __future__ import annotations

import math
import re

_SECONDS = ((1e-6, "ns", 1e9), (1e-3, "µs", 1e6), (1.0, "ms", 1e3), (120.0, "s", 1.0), (7200.0, "min", 1 / 60))
_NAMED = re.compile(r"(\w+)\((.*)\)$", re.DOTALL)


def digits(number: float) -> str:
    """Three significant digits without an exponent, thousands grouped.

    >>> digits(1234567.8), digits(33.333), digits(0.25), digits(4.38e-16), digits(3.2e17)
    ('1,234,568', '33.3', '0.25', '<0.01', '3.2×10^17')
    >>> digits(9.96e15)
    '1×10^16'
    """
    if not math.isfinite(number):
        return "infinite" if number > 0 else "unknown"
    if abs(number) >= 1e15:
        mantissa, exponent = f"{number:.1e}".split("e")
        return f"{mantissa.removesuffix('.0')}×10^{int(exponent)}"
    if abs(number) >= 100 or number == int(number):
        return f"{number:,.0f}"
    if abs(number) < 0.01:
        return "<0.01" if number > 0 else ">-0.01"
    return f"{number:.1f}".removesuffix(".0") if abs(number) >= 10 else f"{number:.2f}".rstrip("0").rstrip(".")


def rows(count: float | None) -> str:
    """A number of rows: ``-`` for unknown."""
    return "-" if count is None else digits(count)


def seconds(count: float) -> str:
    """A duration with three digits and its unit.

    >>> seconds(2.75e-05), seconds(0.0183), seconds(61.0), seconds(9000.0)
    ('27.5 µs', '18.3 ms', '61 s', '2.5 h')
    """
    if count == 0 or not math.isfinite(count):
        return "0 s" if count == 0 else digits(count)
    for least, unit, factor in _SECONDS:
        if abs(count) < least:
            return f"{digits(count * factor)} {unit}"
    return f"{digits(count / 3600)} h"


def cost(value: float, unit: str) -> str:
    """A cost of a model with its unit."""
    return seconds(value) if unit == "s" else f"{digits(value)} {unit}".rstrip()


def milliseconds(count: float | None) -> str:
    """Measured milliseconds, as Postgres prints them: three decimals below a second."""
    return "-" if count is None else f"{count:.3f}" if count < 1000 else f"{count:,.0f}"


def nbytes(size: float | None) -> str:
    """Bytes with three digits; ``-`` for unknown.

    >>> nbytes(999), nbytes(1_210_000), nbytes(999_700)
    ('999 B', '1.21 MB', '1 MB')
    """
    if size is None:
        return "-"
    exponent = int(f"{size:.2e}".split("e")[1])  # of three digits: 999,700 bytes are 1 MB
    power = min(4, max(0, exponent // 3))
    return f"{size / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"


def ratio(number: float | None) -> str:
    """A q-error or a skew, with two decimals below 100."""
    return "-" if number is None else f"{number:.2f}" if number < 100 else digits(number)


def counted(number: int, noun: str) -> str:
    """``1 alternative``, ``2 alternatives``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def in_words(statistic: str) -> str:
    """A statistic in words.

    >>> in_words("join_size(lsnow, coauthor, ?person1)")
    'rows of lsnow joined with coauthor on ?person1'
    """
    found = _NAMED.match(statistic)
    names = found[2].split(", ") if found else []
    match found[1] if found else "", names:
        case "cardinality", [relation]:
            return f"rows of {relation}"
        case "distinct", [relation, variable]:
            return f"distinct values of {variable} in {relation}"
        case "join_size", [left, right, variable]:
            return f"rows of {left} joined with {right} on {variable}"
        case "rows", [*relations, last] if ">=" in last:
            return f"rows of {' joined with '.join(relations)} with {last}"
        case "rows", [*relations, last]:
            return f"rows of {', '.join(relations)} and {last} joined"
        case "selectivity", [*_]:
            return f"share of rows that pass {found[2] if found else ''}"
    return statistic
