"""XSD dates and times as values: parsing, comparison on the UTC time line, canonical form.

A time without a zone is UTC (SEMANTICS §6), so any two dateTimes are comparable; pyoxigraph gives an error where the missing zone
could change the answer. Years may have more than four digits or be negative, and ``24:00:00`` is the next midnight.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from cqels_opt.query.numeric import EXACT, decimal_text

_ZONE = r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?"
_DATE = r"(?P<year>-?(?:[1-9][0-9]{3,}|0[0-9]{3}))-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_TIME = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2}(?:\.[0-9]+)?)"
_FORMS = {
    "dateTime": re.compile(f"{_DATE}T{_TIME}{_ZONE}"),
    "date": re.compile(_DATE + _ZONE),
    "time": re.compile(_TIME + _ZONE),
}
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SECONDS_A_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Temporal:
    """A dateTime, date or time (``kind``): its fields as written, and ``instant``, its UTC seconds since the epoch.

    ``zone`` is in minutes, None if the text has none. A time is on the day of the epoch; a date begins at its midnight.
    """

    kind: str
    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: Decimal
    zone: int | None
    instant: Decimal

    def __str__(self) -> str:
        date = f"{'-' * (self.year < 0)}{abs(self.year):04}-{self.month:02}-{self.day:02}"
        whole, _, fraction = decimal_text(self.second).partition(".")
        time = f"{self.hour:02}:{self.minute:02}:{whole:0>2}{'.' * bool(fraction)}{fraction}"
        return {"dateTime": f"{date}T{time}", "date": date, "time": time}[self.kind] + zone_text(self.zone)


MOST_DIGITS: Final = 1000
"""Digits of a year: XML Schema lets a processor limit them (Part 2, §5.4)."""


def parse_temporal(kind: str, lexical: str) -> Temporal | None:
    """The value of a lexical form of xsd:dateTime, xsd:date or xsd:time; None if the form is invalid."""
    match = _FORMS[kind].fullmatch(lexical)
    if match is None:
        return None
    found = match.groupdict()
    if len(found.get("year") or "") > MOST_DIGITS:
        return None
    year, month, day = int(found.get("year") or 1970), int(found.get("month") or 1), int(found.get("day") or 1)
    hour, minute, second = int(found.get("hour") or 0), int(found.get("minute") or 0), Decimal(found.get("second") or 0)
    zone = _zone(found["zone"])
    if not (1 <= month <= 12 and 1 <= day <= days_in_month(year, month) and minute < 60 and second < 60):
        return None
    if hour > 24 or (hour == 24 and (minute or second)) or (zone is not None and abs(zone) > 14 * 60):
        return None
    if hour == 24:
        year, month, day = civil(day_number(year, month, day) + 1) if kind == "dateTime" else (year, month, day)
        hour = 0
    return temporal(kind, (year, month, day), (hour, minute, second), zone)


def temporal(kind: str, date: tuple[int, int, int], time: tuple[int, int, Decimal], zone: int | None) -> Temporal:
    """The value of valid fields."""
    whole = day_number(*date) * _SECONDS_A_DAY + (time[0] * 60 + time[1] - (zone or 0)) * 60
    return Temporal(kind, *date, *time, zone, EXACT.add(Decimal(whole), time[2]))


def from_milliseconds(now: int) -> Temporal:
    """The UTC dateTime of an instant (ms)."""
    days, rest = divmod(now, _SECONDS_A_DAY * 1000)
    minutes, millis = divmod(rest, 60_000)
    return temporal("dateTime", civil(days), (minutes // 60, minutes % 60, Decimal(millis).scaleb(-3)), 0)


def convert(value: Temporal, kind: str) -> Temporal | None:
    """A cast between kinds: a date to its midnight, a dateTime to its date or its time; None if there is no such cast."""
    if kind == value.kind:
        return value
    if kind == "dateTime" and value.kind == "date":
        return temporal(kind, (value.year, value.month, value.day), (0, 0, Decimal(0)), value.zone)
    if value.kind != "dateTime":
        return None
    if kind == "date":
        return temporal(kind, (value.year, value.month, value.day), (0, 0, Decimal(0)), value.zone)
    return temporal(kind, (1970, 1, 1), (value.hour, value.minute, value.second), value.zone)


def zone_text(zone: int | None) -> str:
    """``Z``, ``-05:30``, or ``""``: the result of TZ."""
    if zone is None:
        return ""
    return f"{'-' if zone < 0 else '+'}{abs(zone) // 60:02}:{abs(zone) % 60:02}" if zone else "Z"


def zone_duration(zone: int) -> str:
    """A zone as the dayTimeDuration of TIMEZONE: ``PT0S``, ``-PT5H30M``."""
    hours, minutes = divmod(abs(zone), 60)
    parts = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    return ("-" if zone < 0 else "") + "PT" + (parts or "0S")


def _zone(text: str | None) -> int | None:
    if text is None:
        return None
    if text == "Z":
        return 0
    minutes = int(text[1:3]) * 60 + int(text[4:6])
    if int(text[4:6]) > 59:
        return 15 * 60
    return -minutes if text[0] == "-" else minutes


# ------------------------------------------------------------------ the calendar
def days_in_month(year: int, month: int) -> int:
    """The days of a month in the proleptic Gregorian calendar, which has a year 0."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and leap else _DAYS[month - 1]


def day_number(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01, for any year."""
    y = year - (month <= 2)
    era, of_era = divmod(y, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a day number."""
    era, of_era = divmod(days + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return era * 400 + year + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1
