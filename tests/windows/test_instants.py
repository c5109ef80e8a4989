"""The evaluation instants: examples of SEMANTICS §3 and §4, and by property against their definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cqels_opt.errors import InputError
from cqels_opt.query.algebra import Bgp, Query, Window
from cqels_opt.verify import Options
from cqels_opt.verify.instants import instants as by_definition
from cqels_opt.windows.instants import Policy, Report, drained, instants, retained_from
from cqels_opt.windows.kinds import kind_of

from .test_intervals import window, windows

CC, WC = Policy(content_change=True), Policy(window_close=True)


def seen(
    ws: list[Window], policy: Policy, times: list[int], after: int = -1, upto: int = 100, first: int | None = None, t0: int = 0
) -> list[int]:
    every = {w.stream: np.array(times, np.int64) for w in ws}
    return instants(ws, Report(policy, t0={"": t0}), every, min(times) if first is None else first, after, upto).tolist()


def test_content_changes_when_elements_enter_and_leave() -> None:
    assert seen([window("range", 5)], CC, [1, 3, 6, 9]) == [1, 3, 6, 8, 9, 11, 14]
    assert seen([window("now")], CC, [1, 3]) == [1, 2, 3, 4]
    assert seen([window("last", count=2)], CC, [1, 3]) == [1, 3]  # what leaves does so as another enters


def test_arrivals_are_the_content_changes_at_which_an_element_enters() -> None:
    arrival = Policy(arrival=True)
    assert seen([window("range", 5)], arrival, [1, 3, 6, 9]) == [1, 3, 6, 9]
    assert seen([window("grid", 5, 4)], arrival, [1, 3, 6, 9]) == [4, 8, 12]
    assert seen([window("last", count=2)], arrival, [1, 3]) == [1, 3]


def test_e3_closings() -> None:
    assert seen([window("open-closed", 5, 2)], WC, [1, 3, 6, 9], upto=9, t0=1) == [6, 8]


def test_a_window_without_a_step_closes_when_its_content_changes() -> None:
    assert seen([window("range", 5)], WC, [1, 3]) == seen([window("range", 5)], CC, [1, 3])


def test_non_empty_leaves_out_the_instants_of_empty_windows() -> None:
    only = replace(CC, non_empty=True)
    assert seen([window("range", 5)], only, [1, 20]) == [1, 20]
    assert seen([window("range", 5)], CC, [1, 20]) == [1, 6, 20, 25]


def test_a_period() -> None:
    assert seen([window("range", 5)], Policy(period=10), [1, 30], upto=35, t0=3) == [3, 13, 23, 33]


def test_nothing_before_the_first_element_of_any_stream() -> None:
    assert seen([window("range", 5)], Policy(period=10), [25], upto=40) == [30, 40]
    assert seen([window("past", 9, 5)], CC, [25], first=27) == [30, 34]


def test_the_frontier_cuts_instants_where_it_stands() -> None:
    whole = seen([window("range", 5)], CC, [1, 3, 6, 9])
    parts = [
        t
        for after, upto in ((-1, 3), (3, 5), (5, 5), (5, 11), (11, 99))
        for t in seen([window("range", 5)], CC, [1, 3, 6, 9], after, upto)
    ]
    assert parts == whole


@st.composite
def policies(draw: st.DrawFn) -> str:
    words = draw(
        st.lists(st.sampled_from(["cc", "ea", "wc", "p:4", "p:7"]), min_size=1, max_size=2, unique=True).filter(
            lambda w: w != ["p:4", "p:7"] and w != ["p:7", "p:4"]
        )
    )
    return ",".join([*words, *(["nc"] if draw(st.booleans()) else [])])


def engine_policy(text: str) -> Policy:
    words = text.split(",")
    period = next((int(w[2:]) for w in words if w.startswith("p:")), 0)
    return Policy.named(words, period)


def assert_by_definition(
    ws: list[Window], times: dict[str, list[int]], default: str, special: dict[str, str], t0: int, drain: bool
) -> None:
    everything = [t for ts in times.values() for t in ts]
    query = Query("", "cqels", (), Bgp(()), tuple(ws), ())
    options = Options(default, special, None, "bag", t0, {}, drain)
    expected = by_definition(query, {w.name: times[w.stream] for w in ws}, options)
    report = Report(engine_policy(default), {w: engine_policy(p) for w, p in special.items()}, {"": t0})
    upto = max(everything)
    distinct = {s: np.unique(np.array(ts, np.int64)) for s, ts in times.items()}
    if drain:
        upto = drained(ws, report, distinct, upto)
    assert instants(ws, report, distinct, min(everything), -10, upto).tolist() == expected


@given(st.data())
def test_instants_by_definition(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 2))
    ws = [replace(data.draw(windows()), name=f"w{i}", stream=f"s{i}") for i in range(count)]
    times = {w.stream: sorted(data.draw(st.lists(st.integers(0, 40), max_size=5))) for w in ws}
    default = data.draw(policies())
    special = {"w0": data.draw(policies())} if data.draw(st.booleans()) else {}
    t0 = data.draw(st.sampled_from([0, 0, 3, 12]))
    assume(any(times.values()))
    assert_by_definition(ws, times, default, special, t0, data.draw(st.booleans()))


@given(
    st.sampled_from(["grid", "open-closed", "closed-open", "star"]),
    st.integers(1, 4),
    st.integers(5, 12),
    st.lists(st.integers(0, 25), min_size=1, max_size=3).map(sorted),
    policies(),
    st.sampled_from([0, 3]),
)
def test_windows_with_gaps_between_them_are_drained(
    kind: str, width: int, slide: int, times: list[int], policy: str, t0: int
) -> None:
    """The last element may be in no window at all, and an earlier one in one that is seen later."""
    w = window(kind, width, slide)
    assert_by_definition([w], {w.stream: times}, policy, {}, t0, drain=True)


def test_drain_needs_windows_that_empty() -> None:
    with pytest.raises(InputError, match="--drain: window w"):
        drained([window("all")], Report(CC), {"http://ex.org/S": np.array([3])}, 3)


@pytest.mark.parametrize(
    ("w", "policy", "times", "upto"),
    [
        (window("grid", 2, 10), CC, [9, 11], 20),  # 9 is seen at 10 and leaves at 20; 11 has left before the grid looks
        (window("star", 2, 10), Policy(period=1), [11, 15], 23),  # [10, 12) is seen from 13 on; 15 is between two windows
        (window("closed-open", 2, 10), CC, [11, 15], 15),  # [10, 12) has closed at 13
        (window("grid", 2, 10), CC, [15], 15),  # is never seen
        (window("grid", 2, 10), CC, [], 3),
    ],
)
def test_drain_waits_for_what_a_window_holds(w: Window, policy: Policy, times: list[int], upto: int) -> None:
    greatest = max(times, default=3)
    assert drained([w], Report(policy), {w.stream: np.array(times, np.int64)}, greatest) == upto


@given(windows(), st.integers(0, 30), st.integers(0, 60))
def test_what_may_be_forgotten_has_ended(w: Window, t0: int, reported: int) -> None:
    bound = retained_from([w], Report(CC, t0={"": t0}), w.stream, reported)
    assert bound is not None
    times = np.arange(-40, 100, dtype=np.int64)
    start, end = kind_of(w).validity(times, t0)
    assert (end[times < bound] <= reported).all()
    assert (end[(times >= bound) & (start < end)] > reported).all()


def test_all_elements_of_an_endless_window_stay() -> None:
    assert retained_from([window("all"), window("now")], Report(CC), "http://ex.org/S", 5) is None
