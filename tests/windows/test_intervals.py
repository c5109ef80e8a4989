"""Validity intervals against SEMANTICS §1: its table by example, and the definition of each window's content by property."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cqels_opt.errors import LimitError
from cqels_opt.query.algebra import Window
from cqels_opt.verify.contents import closings as closings_by_definition
from cqels_opt.verify.contents import content
from cqels_opt.windows import intervals
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER, places_in
from cqels_opt.windows.kinds import kind_of


def window(kind: str, width: int = 0, slide: int = 0, step: int = 0, count: int = 0) -> Window:
    return Window("w", "http://ex.org/S", kind, width, slide, count, 0, step)  # type: ignore[arg-type]


def valid(w: Window, *times: int, t0: int = 0) -> list[tuple[int, int]]:
    start, end = kind_of(w).validity(np.array(times, np.int64), t0)
    return list(zip(start.tolist(), end.tolist()))


@pytest.mark.parametrize(
    ("w", "t0", "t", "interval"),
    [
        (window("now"), 0, 7, (7, 8)),
        (window("range", 30), 0, 7, (7, 37)),
        (window("grid", 5, 5), 0, 7, (10, 15)),  # tumbling: seen at the next point of the grid, until the one after
        (window("grid", 5, 5), 0, 10, (10, 15)),
        (window("grid", 6, 4), 0, 7, (8, 16)),
        (window("grid", 2, 10), 0, 7, (10, 10)),  # left before the grid looks
        (window("delta", 9, 3), 0, 7, (7, 15)),  # with its cell [6, 9)
        (window("purged", 9), 0, 7, (7, 17)),  # both ends: at 16 it is 9 old, and stays
        (window("purged", 60_000, 30_000), 0, 34_125, (34_125, 90_001)),  # the range begins at 60 000 from 90 001 on
        (window("open-closed", 5, 2), 1, 1, (0, 0)),  # openings are exclusive: E3
        (window("open-closed", 5, 2), 1, 3, (3, 7)),  # in (1, 6], which is the last to hold it
        (window("closed-open", 5, 2), 1, 3, (4, 9)),
        (window("closed-open", 5, 2), 1, 0, (0, 0)),
        (window("star", 5, 2), 1, 3, (7, 11)),  # seen while [1, 6) and then [3, 8) is the last to have closed
        (window("past", 10, 4), 0, 7, (11, 17)),
        (window("last", count=3), 0, 7, (7, int(FOREVER))),
        (window("all"), 0, 7, (7, int(FOREVER))),
    ],
)
def test_the_table(w: Window, t0: int, t: int, interval: tuple[int, int]) -> None:
    assert valid(w, t, t0=t0) == [interval]


@st.composite
def windows(draw: st.DrawFn) -> Window:
    kind = draw(st.sampled_from(["now", "range", "grid", "delta", "purged", "open-closed", "closed-open", "star", "past"]))
    width, slide = draw(st.integers(1, 12)), draw(st.integers(1, 6))
    if kind == "delta":
        width = max(width, slide)
    if kind == "purged":
        slide = draw(st.integers(0, 6))
    if kind == "past":
        slide = draw(st.integers(0, 4))
        return window(kind, width + slide, slide, draw(st.sampled_from([0, 0, 3])))
    return window(kind, width, slide)


@given(windows(), st.integers(-5, 30), st.integers(-20, 60), st.integers(-30, 90))
def test_an_element_is_valid_while_the_window_holds_it(w: Window, t0: int, t: int, at: int) -> None:
    """For windows over (α, β, t0), t0 is a time of the stream: before it nothing is seen, and nothing is looked at."""
    assume(at >= t0 or w.kind not in ("open-closed", "closed-open", "star"))
    ((start, end),) = valid(w, t, t0=t0)
    held = bool(content(w, [t], at, t0))
    assert (start <= at < end) == held


@given(windows(), st.integers(-5, 30), st.lists(st.integers(-20, 60), min_size=2))
def test_starts_and_ends_never_fall(w: Window, t0: int, times: list[int]) -> None:
    start, end = kind_of(w).validity(np.array(sorted(times), np.int64), t0)
    inside = start < end
    assert (np.diff(start[inside]) >= 0).all()
    assert (np.diff(end[inside]) >= 0).all()


@given(windows(), st.integers(-5, 30), st.integers(0, 40), st.integers(0, 30))
def test_closings(w: Window, t0: int, first: int, length: int) -> None:
    found = kind_of(w).closings(t0, first, first + length)
    if w.kind in ("now", "range") or (w.kind == "past" and not w.step) or (w.kind == "purged" and not w.slide):
        assert found is None
    else:
        assert found is not None
        assert found.tolist() == closings_by_definition(w, [], t0, first, first + length)


moments = st.one_of(st.integers(-5, 40), st.sampled_from([int(BEFORE_TIME), int(FOREVER), 2 * int(BEFORE_TIME)]))


@given(st.lists(moments, unique=True).map(sorted), st.lists(moments))
def test_places_in_a_table_are_those_of_a_search(instants: list[int], times: list[int]) -> None:
    """With few times and many, with neighbouring instants and with the instant before all others."""
    known, asked = np.array(instants, np.int64), np.array(times * 3, np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "MANY", 1)
        assert places_in(known, asked).tolist() == [sum(instant < time for instant in instants) for time in times * 3]


def test_too_many_instants_are_refused_before_they_are_made() -> None:
    assert intervals.periodic(0, 10, 5, 30).tolist() == [10, 20, 30]
    with pytest.raises(
        LimitError, match=r"a step of 1,000 ms has more than 67,108,864 instants between 0 and 1,700,000,000,000 ms"
    ):
        intervals.periodic(0, 1_000, 0, 1_700_000_000_000)
