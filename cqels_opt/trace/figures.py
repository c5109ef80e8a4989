"""Formats numbers, times and durations for the views of a trace."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from cqels_opt.trace.records import Milliseconds

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
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
    """Milliseconds for people: ``32.1 µs``, ``0.12 ms``, ``85 ms``, ``2.4 s``, ``3 min 05 s``, ``2 h 07 min``, ``3 d 04 h``."""
    if 0 < ms < 0.1:
        return f"{figure(1000 * ms)} µs"
    if ms < 10:
        return f"{ms:.3g} ms"
    if ms < 999.5:
        return f"{ms:.0f} ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f} s"
    ms = max(ms, MINUTE)  # not "0 min 59 s"
    if ms < HOUR:
        return f"{int(ms // MINUTE)} min {int(ms % MINUTE // 1000):02} s"
    if ms < DAY:
        return f"{int(ms // HOUR)} h {int(ms % HOUR // MINUTE):02} min"
    return f"{int(ms // DAY)} d {int(ms % DAY // HOUR):02} h"


def figure(number: float | None) -> str:
    """A number for people: integers with thousands separators, small numbers with three digits; ``-`` for None."""
    if number is None:
        return "-"
    if abs(number) >= 100 or number == int(number):
        return f"{number:,.0f}"
    return f"{number:.3g}" if abs(number) >= 0.0001 else f"{Decimal(f'{number:.3g}'):f}"


def known(number: float | None) -> str:
    """:func:`figure`, but ``unknown`` for None."""
    return "unknown" if number is None else figure(number)


def plural(number: int, noun: str) -> str:
    """``1 switch``, ``2 switches``."""
    ending = "" if number == 1 else "es" if noun.endswith(("ch", "s")) else "s"
    return f"{number:,} {noun}{ending}"


def batch_times(ms: Milliseconds) -> str:
    """``2.5 s (ingest 85 ms, execute 2.4 s)``: the time of a batch, and its phases if any took time."""
    return f"{duration(ms.total)} ({phase_times(ms)})" if ms.total else duration(0)


def phase_times(ms: Milliseconds) -> str:
    """``ingest 85 ms, execute 2.4 s``: the phases that took any time."""
    return ", ".join(f"{phase} {duration(getattr(ms, phase))}" for phase in ms.PHASES if getattr(ms, phase))
