"""Durations: parses ``30 seconds``, ``1h30m`` or ``PT5S`` to milliseconds."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from cqels_opt.errors import InputError

_UNITS: Final[dict[Fraction, str]] = {
    Fraction(1, 1_000_000): "ns nanosecond nanoseconds",
    Fraction(1, 1000): "us µs μs microsecond microseconds",
    Fraction(1): "ms msec msecs milli millis millisecond milliseconds",
    Fraction(1000): "s sec secs second seconds",
    Fraction(60_000): "m min mins minute minutes",
    Fraction(3_600_000): "h hr hrs hour hours",
    Fraction(86_400_000): "d day days",
    Fraction(604_800_000): "w week weeks",
}
_MILLISECONDS: Final = {name: size for size, names in _UNITS.items() for name in names.split()}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-zµμ]+)\s*")
_ISO = re.compile(
    r"P(?:(?P<w>\d+(?:\.\d+)?)W)?(?:(?P<d>\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(?P<h>\d+(?:\.\d+)?)H)?(?:(?P<m>\d+(?:\.\d+)?)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)
_MOST_CHARACTERS: Final = 200
LONGEST: Final = 2**53
"""The longest duration (ms), as great as the greatest time, so that sums of times and durations fit into int64."""


def milliseconds(text: str) -> int:
    """The milliseconds of a duration: ``30 seconds``, ``500ms``, ``1h30m``, ``2 min``, or ISO 8601 ``PT5S``, ``P1DT12H``.

    Units range from nanoseconds to weeks, in any case. Raises ValueError, with a message for the user, if the text is not a
    duration, has an unknown unit, or is not a whole number of milliseconds.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError("a duration this long cannot be read")
    exact = _iso(text) if text.strip().upper().startswith("P") else _parts(text)
    if exact.denominator != 1:
        raise ValueError(f"{text.strip()} is not a whole number of milliseconds, the unit of all times")
    if exact > LONGEST:
        raise ValueError(f"{text.strip()} is longer than any time that can be represented")
    return int(exact)


def unit(text: str) -> int | None:
    """The milliseconds of the last unit in a duration (``30 MINUTE``: 60 000); None without a unit."""
    names = re.findall(r"[A-Za-zµμ]+", text)
    size = _MILLISECONDS.get(names[-1].lower()) if names else None
    return None if size is None else int(size)


def _parts(text: str) -> Fraction:
    total, at = Fraction(0), 0
    text = text.strip()
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            what = (
                "has no unit; write for example 30s, 500ms or 1h30m"
                if text[at:].replace(".", "", 1).isdigit()
                else "is not a duration"
            )
            raise ValueError(f"{text} {what}")
        size = _MILLISECONDS.get(part[2].lower())
        if size is None:
            raise ValueError(f"unknown unit of time {part[2]!r}; the units are ns, us, ms, s, min, h, d, w and their long forms")
        total += Fraction(part[1]) * size
        at = part.end()
    if not at:
        raise ValueError("a duration is missing")
    return total


def _iso(text: str) -> Fraction:
    match = _ISO.fullmatch(text.strip())
    if match is None or not any(match.groupdict().values()):
        hint = (
            "years and months have no fixed length"
            if re.match(r"P\d+[YM]", text, re.IGNORECASE)
            else "write for example PT5S or P1DT12H"
        )
        raise ValueError(f"{text.strip()} is not a duration that can be used: {hint}")
    return sum((Fraction(amount) * _MILLISECONDS[name] for name, amount in match.groupdict().items() if amount), Fraction(0))


def parse_duration(text: str) -> int:
    """The milliseconds of ``500ms``, ``2s``, ``1h30m`` or any duration of a query; ``0`` needs no unit. Raises InputError."""
    try:
        return 0 if text == "0" else milliseconds(text)
    except ValueError as error:
        raise InputError(str(error)) from error


def parse_positive_duration(text: str) -> int:
    """A duration greater than 0. Raises InputError."""
    if (duration := parse_duration(text)) == 0:
        raise InputError(f"{text!r} is too short: it must be longer than 0")
    return duration


def duration_of(value: object, parameter: str, *, positive: bool = False) -> int:
    """The milliseconds of a parameter of the Python API: a duration as text (``"10s"``, ``"1 hour"``), or whole milliseconds.

    Raises InputError, naming the parameter, for anything else.
    """
    if isinstance(value, str):
        try:
            return parse_positive_duration(value) if positive else parse_duration(value)
        except InputError as error:
            raise InputError(f"{parameter}={value!r}: {error}") from None
    if isinstance(value, bool) or not isinstance(value, int) or not positive <= value <= LONGEST:
        kind = "a duration longer than 0" if positive else "a duration"
        raise InputError(
            f'{parameter}={value!r} is not {kind}: write for example "10s" or "1 hour", or a whole number of milliseconds'
        )
    return value
