"""The evaluation instants E of a query over finite input (SEMANTICS §3 and §4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cqels_opt.errors import InputError
from cqels_opt.query.algebra import Query, Window
from cqels_opt.verify.contents import ENDLESS, arrivals, changes, closings, content, periodic
from cqels_opt.verify.model import Options

Times = Mapping[str, Sequence[int]]
"""The elements' times by window name, ascending."""


def t0_of(window: Window, options: Options) -> int:
    """The t0 of a window."""
    return options.t0s.get(window.name, options.t0)


def instants(query: Query, times: Times, options: Options) -> list[int]:
    """E, ascending: from the first element's time to the end of the input or, with ``drain``, until all windows are empty."""
    if not query.windows:
        return [options.t0]  # static data only: evaluated once
    seen = [t for ts in times.values() for t in ts]
    if not seen:
        return []
    begin, end = min(seen), max(seen) if options.until is None else max(options.until, *seen)
    if options.drain:
        end = _drained(query, times, options, begin, end)
    return _instants(query, times, options, begin, end, restrict=True)


def _instants(query: Query, times: Times, options: Options, begin: int, end: int, *, restrict: bool) -> list[int]:
    """The instants of the windows' policies; without ``restrict`` the policy NC is ignored."""
    found: set[int] = set()
    for window in query.windows:
        words = _words(options.policies.get(window.name, options.policy))
        points = _of_window(window, times[window.name], words - {"nc"}, options, begin, end)
        if restrict and "nc" in words:
            named = window.name in options.policies
            watched = (window,) if named else query.windows
            points = {at for at in points if any(_holds(w, times, at, options) for w in watched)}
        found |= points
    return sorted(found)


def _of_window(window: Window, times: Sequence[int], words: set[str], options: Options, begin: int, end: int) -> set[int]:
    """The union of the instants of one window's policies."""
    t0 = t0_of(window, options)
    found: set[int] = set()
    for word in words:
        if word == "cc":
            found.update(at for at in changes(window, times, t0) if begin <= at <= end)
        elif word == "ea":
            found.update(at for at in arrivals(window, times, t0) if begin <= at <= end)
        elif word == "wc":
            found.update(closings(window, times, t0, begin, end))
        else:
            found.update(periodic(t0, int(word.removeprefix("p:")), begin, end))
    return found


def _words(policy: str) -> set[str]:
    """The policies of a list; at least one must name instants, because NC only excludes some."""
    words = set(policy.lower().replace(",", " ").split())
    bad = sorted(
        w for w in words if w not in ("cc", "ea", "wc", "nc") and not (w.startswith("p:") and w[2:].isdigit() and int(w[2:]))
    )
    if bad:
        raise InputError(f"unknown report policy {bad[0]!r}: use cc, ea, wc, nc or p:MILLISECONDS")
    if not words - {"nc"}:
        raise InputError(f"report policy {policy!r} names no instants: add cc, ea, wc or p:MILLISECONDS")
    return words


def _holds(window: Window, times: Times, at: int, options: Options) -> bool:
    return bool(content(window, times[window.name], at, t0_of(window, options)))


def _drained(query: Query, times: Times, options: Options, begin: int, end: int) -> int:
    """The first instant of E, without NC, at which all windows are empty; at least the end of the input."""
    endless = [w.name for w in query.windows if w.kind in ENDLESS]
    if endless:
        raise InputError(f"--drain needs windows that empty with time; ?{endless[0]} does not")
    last_change = max((at for w in query.windows for at in changes(w, times[w.name], t0_of(w, options))), default=end)
    quiet = max(end, last_change)
    longest = max([w.width + w.slide + w.step for w in query.windows] + [_period(options, w) for w in query.windows])
    later = [at for at in _instants(query, times, options, begin, quiet + 2 * longest + 2, restrict=False) if at >= quiet]
    return later[0] if later else quiet


def _period(options: Options, window: Window) -> int:
    """The longest period among the policies of a window, 0 without periodic policies."""
    words = _words(options.policies.get(window.name, options.policy))
    return max((int(w[2:]) for w in words if w.startswith("p:")), default=0)
