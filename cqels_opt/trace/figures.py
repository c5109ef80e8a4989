"""Formats numbers, times and durations for the views of a trace."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def clock(time: int | None) -> str:
    """Stream time in UTC, with milliseconds only if they are not zero; ``-`` for None."""
    if time is None:
        return "-"
    try:
        moment = _EPOCH + timedelta(milliseconds=time)
    except OverflowError:
        return f"{time} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%S") + (f".{time % 1000:03}" if time % 1000 else "")


def duration(ms: float) -> str:
    """Milliseconds for people: ``85 ms``, ``2.4 s``, ``3 min 05 s``."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return f"{int(ms // 60_000)} min {int(ms % 60_000 // 1000):02} s"


def figure(number: float | None) -> str:
    """A number for people: integers with thousands separators, small numbers with three digits; ``-`` for None."""
    if number is None:
        return "-"
    return f"{number:,.0f}" if abs(number) >= 100 or number == int(number) else f"{number:.3g}"


def known(number: float | None) -> str:
    """:func:`figure`, but ``unknown`` for None."""
    return "unknown" if number is None else figure(number)


def plural(number: int, noun: str) -> str:
    """``1 switch``, ``2 switches``."""
    ending = "" if number == 1 else "es" if noun.endswith(("ch", "s")) else "s"
    return f"{number:,} {noun}{ending}"
