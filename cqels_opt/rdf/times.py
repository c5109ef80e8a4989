"""Parses times (integer milliseconds or ISO 8601) to int64 milliseconds since the epoch, floored (SEMANTICS §6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

GREATEST = 2**53
"""The greatest absolute time in milliseconds: adding a window's length cannot overflow."""

EXPECTED = "integer milliseconds, at most 2^53, or an ISO 8601 time such as 2007-12-28T09:00:00Z"

_INTEGER = r"^\s*[+-]?[0-9]{1,18}\s*$"
_ISO = (
    r"^\s*(?P<year>[+-]?[0-9]{4,6})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[Tt ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]+))?)?)?"
    r"\s*(?:[Zz]|(?P<sign>[+-])(?P<zh>[0-9]{2})(?::?(?P<zm>[0-9]{2}))?)?\s*$"
)


def parse_times(texts: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The times of an Arrow string array (or of a list of strings), and a mask of the valid ones; invalid times are 0.

    A time without a zone is UTC. A fraction is truncated to milliseconds, which floors also before 1970.
    """
    array = pa.array(texts, pa.string()) if isinstance(texts, list) else texts
    times = np.zeros(len(array), np.int64)
    integer = mask_of(pc.match_substring_regex(array, _INTEGER))
    if integer.any():
        digits = pc.replace_substring(pc.utf8_trim_whitespace(array.filter(pa.array(integer))), "+", "")
        times[integer] = pc.cast(digits, pa.int64()).to_numpy(zero_copy_only=False)
    valid = integer
    rest = np.flatnonzero(~integer)
    if len(rest):
        encoded = array.take(rest).dictionary_encode()  # stream files repeat times: each distinct time is parsed once
        distinct, ok = _iso(encoded.dictionary)
        places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        if not len(distinct):
            distinct, ok = np.zeros(1, np.int64), np.zeros(1, np.bool_)
        times[rest], iso = distinct[places], ok[places] & (places >= 0)
        valid = integer.copy()
        valid[rest] = iso
    valid &= in_range(times)
    times[~valid] = 0
    return times, valid


def in_range(times: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each time is at most :data:`GREATEST`, before or after the epoch."""
    return (times >= -GREATEST) & (times <= GREATEST)


def mask_of(array: Any) -> NDArray[np.bool_]:
    """An Arrow array of booleans as a mask; null is false."""
    whole = pc.fill_null(array, False) if array.null_count else array
    mask: NDArray[np.bool_] = whole.to_numpy(zero_copy_only=False)
    return np.array(mask, np.bool_)


def _iso(array: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    fields = pc.extract_regex(array, _ISO)
    found = mask_of(pc.is_valid(fields))

    def number(name: str, otherwise: int = 0) -> NDArray[np.int64]:
        text = pc.utf8_ltrim(pc.struct_field(fields, name), "+")  # Arrow does not parse a leading plus
        text = pc.if_else(pc.fill_null(pc.equal(text, pa.scalar("")), True), str(otherwise), text)
        return np.asarray(pc.cast(text, pa.int64()).to_numpy(zero_copy_only=False), np.int64)

    year, month, day = number("year"), number("month", 1), number("day", 1)
    hour, minute, second = number("hour"), number("minute"), number("second")
    fraction = pc.utf8_slice_codeunits(pc.fill_null(pc.struct_field(fields, "fraction"), ""), 0, 3)
    millisecond = pc.cast(pc.utf8_rpad(fraction, 3, "0"), pa.int64()).to_numpy(zero_copy_only=False)
    east = np.where(mask_of(pc.equal(pc.struct_field(fields, "sign"), pa.scalar("-"))), -1, 1)
    zone_hour, zone_minute = number("zh"), number("zm")

    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    month_is_one = (month >= 1) & (month <= 12)
    length = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])[np.where(month_is_one, month - 1, 0)]
    length = length + (leap & (month == 2))
    midnight = (hour == 24) & (minute == 0) & (second == 0) & (millisecond == 0)  # xsd:dateTime: the next 00:00
    valid = found & month_is_one & (day >= 1) & (day <= length) & ((hour < 24) | midnight)
    valid &= (minute < 60) & (second < 60) & (zone_hour <= 14) & (zone_minute < 60)

    months = np.where(valid, (year - 1970) * 12 + month - 1, 0)
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + np.where(valid, day - 1, 0)
    minutes = days * 1440 + hour * 60 + minute - east * (zone_hour * 60 + zone_minute)
    times = (minutes * 60 + second) * 1000 + millisecond
    return np.where(valid, times, 0), valid
