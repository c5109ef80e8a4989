"""Late, and too far ahead: by the definition, element by element, whatever the cut into batches."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.windows.admission import Admission, Admitted

YEAR_9999 = 253_402_300_799_000


def judge(times: list[int], lateness: int = 0, max_ahead: int | None = None) -> Admitted:
    return Admission(lateness=lateness, max_ahead=max_ahead).judge(0, np.array(times, np.int64))


def by_definition(times: list[int], lateness: int, max_ahead: int | None) -> list[str]:
    """docs/semantics.md, word by word."""
    found: list[str] = []
    for place, t in enumerate(times):
        taken = [u for u, what in zip(times, found) if what != "ahead"]
        if not taken:
            found.append("good")
            continue
        if max_ahead is not None and t > max(taken) + max_ahead:
            agrees = found[-1] == "ahead" and abs(t - times[place - 1]) <= max_ahead
            found.append("good" if agrees else "ahead")
        else:
            found.append("late" if t <= max(taken) - 1 - lateness else "good")
    return found


TIMES = st.lists(st.one_of(st.integers(0, 30), st.sampled_from([100, 105, 120, 1000])), max_size=12)


@given(TIMES, st.integers(0, 5), st.one_of(st.none(), st.integers(1, 40)), st.lists(st.integers(0, 12), max_size=4))
def test_as_defined_however_it_is_cut(times: list[int], lateness: int, max_ahead: int | None, cuts: list[int]) -> None:
    rule, found = Admission(lateness=lateness, max_ahead=max_ahead), list[str]()
    for piece in np.split(np.array(times, np.int64), sorted(min(cut, len(times)) for cut in cuts)):
        got = rule.judge(7, piece)
        found += ["late" if late else "ahead" if ahead else "good" for late, ahead in zip(got.late, got.ahead)]
        assert len(got.after) == got.ahead.sum()
        rule = rule.after({7: got})
    assert found == by_definition(times, lateness, max_ahead)


def test_one_element_of_the_year_9999_stops_nothing() -> None:
    times = [1000, 2000, YEAR_9999, 3000, 4000]
    assert judge(times).late.tolist() == [False, False, False, True, True]
    found = judge(times, max_ahead=3_600_000)
    assert (found.late.any(), found.ahead.tolist(), found.after) == (False, [False, False, True, False, False], (2000,))
    assert found.greatest == 4000


def test_a_stream_that_has_moved_on_is_followed_from_its_second_element() -> None:
    found = judge([1000, 1_000_000, 1_000_100, 1_000_200], max_ahead=60_000)
    assert found.ahead.tolist() == [False, True, False, False]
    assert (found.greatest, found.suspect) == (1_000_200, None)


def test_the_reason_says_both_times() -> None:
    assert Admission(max_ahead=3_600_000).reason(YEAR_9999, 0) == (
        "t is 9999-12-31T23:59:59.000Z, more than the maximum of 3,600,000 ms after 1970-01-01T00:00:00.000Z, the greatest time before it; "
        "if the times are right, allow more"
    )
