"""Contents and instants: the definitions in `contents.py` compared with the intervals of SEMANTICS §1, written out here."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.errors import InputError
from cqels_opt.query.algebra import Bgp, Query, Window
from cqels_opt.verify import Options
from cqels_opt.verify.contents import changes, closings, content
from cqels_opt.verify.instants import instants


def up(a: int, b: int) -> int:
    return -(-a // b)


VALIDITY: dict[str, Callable[[int, int, int, int], tuple[int, int]]] = {
    "now": lambda t, a, b, t0: (t, t + 1),
    "range": lambda t, a, b, t0: (t, t + a),
    "grid": lambda t, a, b, t0: (up(t, b) * b, up(t + a, b) * b),
    "delta": lambda t, a, b, t0: (t, t // b * b + a),
    "purged": lambda t, a, b, t0: (t, t // max(1, b) * max(1, b) + a + 1),
    "open-closed": lambda t, a, b, t0: (t, t0 + (up(t - t0, b) - 1) * b + a + 1),
    "closed-open": lambda t, a, b, t0: (t + 1, t0 + (t - t0) // b * b + a + 1),
    "star": lambda t, a, b, t0: (t0 + a + max(0, (t - t0 - a) // b + 1) * b + 1, t0 + (t - t0) // b * b + a + b + 1),
    "past": lambda t, a, b, t0: (t + b, t + a),
}
"""Start and end of an element of time t; width a, slide b."""


@st.composite
def windows(draw: st.DrawFn) -> Window:
    kind = draw(st.sampled_from(sorted(VALIDITY)))
    width, slide = draw(st.integers(1, 12)), draw(st.integers(1, 8))
    if kind == "purged":
        slide = draw(st.integers(0, 8))
    if kind in ("delta", "past"):
        width = max(width, slide + (kind == "past"))
    return Window("w", "s", kind, width, slide)


@given(windows(), st.lists(st.integers(-5, 30), min_size=1, max_size=8).map(sorted), st.integers(0, 6))
def test_contents_are_the_elements_whose_interval_holds_the_instant(window: Window, times: list[int], t0: int) -> None:
    opened = window.kind in ("open-closed", "closed-open", "star")
    spans = [VALIDITY[window.kind](t, window.width, window.slide, t0) for t in times]
    for at in range(-10, 70):
        first = t0 if window.kind != "open-closed" else t0 + 1  # elements before the first opening belong to no window
        wanted = [i for i, (start, end) in enumerate(spans) if start <= at < end and not (opened and times[i] < first)]
        assert list(content(window, times, at, t0)) == wanted, at


@given(windows(), st.lists(st.integers(-5, 30), min_size=1, max_size=8).map(sorted), st.integers(0, 6))
def test_changes_misses_none(window: Window, times: list[int], t0: int) -> None:
    every = [at for at in range(-40, 100) if content(window, times, at, t0) != content(window, times, at - 1, t0)]
    assert changes(window, times, t0) == every


def test_last_elements() -> None:
    times = [1, 2, 2, 5, 9]
    last = Window("w", "s", "last", count=2)
    assert [list(content(last, times, at, 0)) for at in (0, 1, 2, 5, 9)] == [[], [0], [1, 2], [2, 3], [3, 4]]
    every = Window("w", "s", "last", count=3, every=2)
    assert [list(content(every, times, at, 0)) for at in (1, 2, 5, 9)] == [[], [0, 1], [1, 2, 3], [1, 2, 3]]
    assert list(content(Window("w", "s", "all"), times, 5, 0)) == [0, 1, 2, 3]


def test_closings() -> None:
    stepped = Window("w", "s", "open-closed", 5, 2)
    assert closings(stepped, [1], 1, 1, 11) == [6, 8, 10]
    assert closings(stepped, [1], 1, 7, 11) == [8, 10]
    assert closings(Window("w", "s", "grid", 5, 4), [1], 1, 1, 9) == [4, 8]
    assert closings(Window("w", "s", "past", 5, 1, step=3), [1], 1, 1, 12) == [6, 9, 12]
    assert closings(Window("w", "s", "range", 5), [1], 0, 1, 9) == [1, 6]  # no step: closes when its content changes


# ------------------------------------------------------------------ E
def when(options: Options, *found: Window, times: list[int]) -> list[int]:
    return instants(Query("", "cqels", (), Bgp(()), found, ()), {w.name: times for w in found}, options)


RANGE, STEPPED = Window("r", "s", "range", 4), Window("c", "s", "open-closed", 3, 3)


def test_content_change_up_to_the_greatest_time() -> None:
    assert when(Options(), RANGE, times=[3, 5]) == [3, 5]
    assert when(Options(), RANGE, times=[3, 5, 8]) == [3, 5, 7, 8]


def test_policies() -> None:
    times = [2, 4, 11]
    assert when(Options("wc"), STEPPED, times=times) == [3, 6, 9]
    assert when(Options("wc,nc"), STEPPED, times=times) == [3, 6]  # (6, 9] is empty
    assert when(Options("ea"), RANGE, times=times) == [2, 4, 11]
    assert when(Options("ea", policies={"c": "wc"}), RANGE, STEPPED, times=times) == [2, 3, 4, 6, 9, 11]
    assert when(Options("p:5"), STEPPED, times=times) == [5, 10]
    assert when(Options("p:5", t0=1), STEPPED, times=times) == [6, 11]
    assert when(Options("wc", t0s={"c": 1}), STEPPED, times=times) == [4, 7, 10]
    assert when(Options("cc", policies={"c": "wc"}), RANGE, STEPPED, times=times) == [2, 3, 4, 6, 8, 9, 11]


def test_nc_without_a_name_means_some_window_of_the_query() -> None:
    long = Window("l", "s", "range", 100)
    assert when(Options("wc,nc"), STEPPED, long, times=[2, 11]) == [2, 3, 6, 9, 11]
    assert when(Options("wc", policies={"c": "wc,nc"}), STEPPED, long, times=[2, 11]) == [2, 3, 11]


def test_drain_ends_when_all_windows_are_empty() -> None:
    assert when(Options(drain=True), RANGE, times=[3, 5]) == [3, 5, 7, 9]
    assert when(Options("wc", drain=True), STEPPED, times=[3, 5]) == [3, 6, 9]
    assert when(Options("wc,nc", drain=True), STEPPED, times=[3, 5]) == [3, 6]
    past = Window("p", "s", "past", 6, 4)
    assert when(Options(drain=True), past, times=[1]) == [5, 7]  # it first fills, then empties
    assert when(Options("p:5", drain=True), past, times=[1]) == [5, 10]


@pytest.mark.parametrize("policy", ["nc", "soon", "p:0", "p:x", ""])
def test_a_policy_that_names_no_instants_is_refused(policy: str) -> None:
    with pytest.raises(InputError, match="report policy"):
        when(Options(policy), RANGE, times=[1])


def test_no_elements_no_instants() -> None:
    assert when(Options(drain=True), RANGE, times=[]) == []
