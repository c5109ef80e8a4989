"""Times as text, against Python's own parser."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.rdf.times import GREATEST, in_range, parse_times

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_time(text: str) -> int | None:
    """One time in milliseconds, None if invalid."""
    (time,), (valid,) = parse_times([text])
    return int(time) if valid else None


@given(
    moment=st.datetimes(min_value=datetime(1000, 1, 1), max_value=datetime(9998, 1, 1)),
    zone=st.none() | st.integers(-14 * 60, 14 * 60),
    separator=st.sampled_from("T "),
)
def test_iso_times_are_floored_to_milliseconds(moment: datetime, zone: int | None, separator: str) -> None:
    aware = moment.replace(tzinfo=UTC if zone is None else timezone(timedelta(minutes=zone)))
    text = (moment if zone is None else aware).isoformat(sep=separator)
    assert parse_time(text) == (aware - EPOCH) // timedelta(milliseconds=1)


def test_the_least_64_bit_number_is_no_time() -> None:
    """It has no absolute value in 64 bits."""
    assert (
        in_range(np.array([-GREATEST, GREATEST, -GREATEST - 1, GREATEST + 1, -(2**63), 2**63 - 1])).tolist()
        == [True] * 2 + [False] * 4
    )


@given(st.integers(-(2**53), 2**53))
def test_integers_are_milliseconds(ms: int) -> None:
    assert parse_time(str(ms)) == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00Z", 0),
        ("1970-01-01T24:00:00Z", 86_400_000),
        ("1970-01-01T01:00:00+0100", 0),
        ("1970-01-01T01:00:00+01", 0),
        ("1970-01-01T00:00:00.1Z", 100),
        ("1970-01-01T00:00:00,1234567Z", 123),
        ("1970-01-01t00:00:01z", 1000),
        (" +5 ", 5),
    ],
)
def test_other_forms(text: str, ms: int) -> None:
    assert parse_time(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1.5",
        "1e3",
        "2019-13-01",
        "2019-02-29",
        "2019-01-01T25:00:00",
        "2019-01-01T24:00:01",
        "12:00:00",
        "9" * 19,
        str(2**54),
    ],
)
def test_what_is_no_time(text: str) -> None:
    assert parse_time(text) is None


def test_arrays_say_which_are_times() -> None:
    times, valid = parse_times(pa.array(["5", None, "soon", "1970-01-01T00:00:01", "soon"]))
    assert times.tolist() == [5, 0, 0, 1000, 0]
    assert valid.tolist() == [True, False, False, True, False]
    assert [len(column) for column in parse_times(pa.array([], pa.string()))] == [0, 0]
