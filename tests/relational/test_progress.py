"""The frontier of several streams: lateness, idle streams, commits; and columns that a stream gets later."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.relational.progress import EventTime, Progress, added_columns

FLIGHTS, WEATHER = EventTime("flight_time", lateness=10), EventTime("observed_at", lateness=100, idle=60_000)


def test_windows_advance_with_the_stream_that_is_furthest_behind() -> None:
    both = (FLIGHTS, WEATHER)
    first = Progress().after(both, {"flight_time": 1_000}, 0)
    assert not first.begun
    second = first.after(both, {"observed_at": 700}, 1)
    assert (second.begun, second.frontier) == (True, 600)
    third = second.after(both, {"flight_time": 1_100, "observed_at": 2_000}, 2)
    assert third.frontier == 1_090
    assert third.after(both, {"observed_at": 100}, 3).greatest == {"flight_time": 1_100, "observed_at": 2_000}


def test_an_idle_stream_is_not_waited_for_and_comes_back() -> None:
    both = (FLIGHTS, WEATHER)
    now = Progress().after(both, {"flight_time": 1_000, "observed_at": 500}, 0)
    now = now.after(both, {"flight_time": 5_000}, 59_999)
    assert (now.idle, now.frontier) == ((), 400)
    now = now.after(both, {"flight_time": 6_000}, 60_000)
    assert (now.idle, now.frontier) == (("observed_at",), 5_990)
    now = now.after(both, {"observed_at": 6_050}, 60_001)
    assert (now.idle, now.frontier) == ((), 5_990)  # not back to 5,950


def test_a_stream_that_never_had_rows_becomes_idle() -> None:
    now = Progress().after((FLIGHTS, WEATHER), {"flight_time": 1_000}, 7)
    assert now.after((FLIGHTS, WEATHER), {"flight_time": 2_000}, 60_007).frontier == 1_990


def test_if_all_streams_are_idle_time_stands_still() -> None:
    only = (EventTime("t", idle=10),)
    now = Progress().after(only, {"t": 100}, 0)
    assert (now.after(only, {}, 10).idle, now.after(only, {}, 10).frontier) == (("t",), 100)


STEP = st.tuples(st.dictionaries(st.sampled_from(["flight_time", "observed_at"]), st.integers(0, 10_000)), st.integers(0, 50_000))


@given(st.lists(STEP, max_size=12))
def test_the_frontier_never_goes_back_and_survives_a_commit(steps: list[tuple[dict[str, int], int]]) -> None:
    """It is at most the latest time minus the lateness of some stream, and that of the slowest one if none has been idle."""
    both, now, clock, idle = (FLIGHTS, WEATHER), Progress(), 0, False
    for times, passed in steps:
        clock += passed
        before, now = now, now.after(both, times, clock)
        idle = idle or bool(now.idle)
        assert now.frontier >= before.frontier
        assert Progress.of_json(json.loads(json.dumps(now.json()))) == now
        ends = {stream.column: now.greatest[stream.column] - stream.lateness for stream in both if stream.column in now.greatest}
        assert not now.begun or now.frontier <= max(ends.values())
        assert idle or now.begun == (len(ends) == 2)
        assert idle or not now.begun or now.frontier == min(ends.values())


def test_a_join_without_times_has_no_frontier() -> None:
    assert Progress().after((EventTime(None),), {}, 5) == Progress()
    assert Progress.of_json({}) == Progress()


# ------------------------------------------------------------------ columns
BEFORE = [("who", "int"), ("Loc", "string")]


def test_columns_may_be_added_anywhere() -> None:
    assert added_columns(BEFORE, BEFORE) == []
    assert added_columns(BEFORE, [("more", "int"), ("loc", "string"), ("who", "int"), ("b", "double")]) == ["more", "b"]


@pytest.mark.parametrize(
    ("now", "why"),
    [
        ([("who", "int")], r"no longer has the column Loc: add it as CAST\(NULL AS string\) AS Loc, or use another folder"),
        (
            [("who", "bigint"), ("loc", "string")],
            "the column who of the stream was int and is bigint: cast it to int, or use another",
        ),
    ],
)
def test_other_changes_are_refused_with_what_to_do(now: list[tuple[str, str]], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        added_columns(BEFORE, now)
