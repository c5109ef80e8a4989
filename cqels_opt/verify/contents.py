"""The content of a window at an instant, computed from the definitions of SEMANTICS §1, without validity intervals.

This is the one module of the independent evaluation that compares window kinds. It shares nothing with :mod:`cqels_opt.windows`, so that
an error in one of them shows (docs/decisions/005). The content of every window is a contiguous run of its stream, ordered by
(time, arrival), so it is a ``range`` of stream positions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from cqels_opt.errors import InputError
from cqels_opt.query.algebra import Window

OPENINGS = ("open-closed", "closed-open", "star")
PERIODIC = (*OPENINGS, "grid", "delta", "purged")
ENDLESS = ("all", "last")
"""Kinds that never empty by time alone."""


def content(window: Window, times: Sequence[int], at: int, t0: int) -> range:
    """The positions of the elements that the window holds at the instant ``at``; ``times`` are the elements' times, ascending."""
    if window.kind == "last":
        return _last(window, bisect_right(times, at))
    span = _span(window, at, t0)
    if span is None:
        return range(0)
    first, last = span
    start, stop = bisect_left(times, first), bisect_right(times, last)
    return range(start, stop) if start < stop else range(0)


def _last(window: Window, seen: int) -> range:
    """The last n of the elements seen so far, re-evaluated after every m elements."""
    seen -= seen % (window.every or 1)
    return range(max(0, seen - window.count), seen) if seen else range(0)


def _span(window: Window, at: int, t0: int) -> tuple[int, int] | None:
    """The first and the last time (inclusive) of the elements that the window holds; None if it is empty."""
    width, slide = window.width, window.slide
    match window.kind:
        case "now":
            return at, at
        case "range":  # at - width < t <= at
            return at - width + 1, at
        case "grid":  # the content of the range at the last grid point
            point = at - at % slide
            return point - width + 1, point
        case "delta":  # whole cells of length slide; a cell expires a width after its start
            oldest = at - width + 1
            return oldest + -oldest % slide, at
        case "purged":  # both ends of the range; its begin moves to multiples of the slide only
            oldest = at - width
            return oldest + -oldest % max(1, slide), at
        case "open-closed":  # (opening, closing], up to the instant
            return _present_opening(window, at, t0) + 1, at
        case "closed-open":  # [opening, closing), before the instant
            return _present_opening(window, at, t0), at - 1
        case "star":  # [x - width, x) with the greatest closing x before the instant
            if at <= t0 + width:
                return None
            closing = at - 1 - (at - 1 - t0 - width) % slide
            return closing - width, closing - 1
        case "past":
            return at - width + 1, at - slide
        case "all":
            return -(1 << 63), at
    raise InputError(f"verify has no definition of the window kind {window.kind}")


def _present_opening(window: Window, at: int, t0: int) -> int:
    """The opening of the earliest window that has not closed before the instant."""
    closed = max(0, at - t0 - window.width)
    return t0 + closed + -closed % window.slide


def candidates(window: Window, t: int, t0: int) -> Iterator[int]:
    """A superset of the instants at which an element of time t can enter or leave; the caller checks each."""
    width, slide = window.width, window.slide
    yield from (t, t + 1, t + width, t + width + 1, t + slide, t0 + width + 1)  # the last: just after the first closing
    if window.kind in PERIODIC and slide:
        origin = t0 if window.kind in OPENINGS else 0
        for near in (t, t + width):  # every opening and closing within two slides before and after entry and exit
            first = near - (near - origin) % slide - 2 * slide
            for point in range(first, first + 5 * slide, slide):
                yield from (point, point + 1, point + width % slide, point + width % slide + 1)


def changes(window: Window, times: Sequence[int], t0: int) -> list[int]:
    """Every instant at which an element enters or leaves the window, ascending."""
    moments = {at for t in set(times) for at in candidates(window, t, t0)}
    return sorted(at for at in moments if content(window, times, at, t0) != content(window, times, at - 1, t0))


def arrivals(window: Window, times: Sequence[int], t0: int) -> list[int]:
    """Every instant at which an element enters the window, ascending."""
    found = []
    for at in changes(window, times, t0):
        now, before = content(window, times, at, t0), content(window, times, at - 1, t0)
        if now and not (before and before.start <= now.start and now.stop <= before.stop):
            found.append(at)
    return found


def closings(window: Window, times: Sequence[int], t0: int, begin: int, end: int) -> list[int]:
    """The closings of the window from ``begin`` to ``end``; a window without a step closes at each change of its content."""
    match window.kind:
        case kind if kind in OPENINGS:
            first, step = t0 + window.width, window.slide
        case "past" if window.step:
            first, step = t0 + window.width, window.step
        case "grid":
            first, step = begin - begin % window.slide, window.slide
        case "purged" if window.slide:  # just after the ages of multiples of the slide reach the width
            first, step = begin - (begin - window.width - 1) % window.slide, window.slide
        case "delta":
            first, step = begin - (begin - window.width) % window.slide, window.slide
        case _:
            return [at for at in changes(window, times, t0) if begin <= at <= end]
    return periodic(first, step, begin, end)


def periodic(first: int, step: int, begin: int, end: int) -> list[int]:
    """first, first + step, first + 2 step … from ``begin`` to ``end``."""
    start = first if first >= begin else first + (begin - first + step - 1) // step * step
    return list(range(start, end + 1, step))
