"""The evaluation instants E of a query: the times at which it is evaluated (RSP-QL 2014, §Report)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isqrt

import numpy as np

from cqels_opt.errors import InputError
from cqels_opt.query.algebra import Window
from cqels_opt.stats.frequencies import distinct_values
from cqels_opt.windows.intervals import BEFORE_TIME, FOREVER, Times, periodic
from cqels_opt.windows.kinds import kind_of
from cqels_opt.windows.window_kind import WindowKind


@dataclass(frozen=True, slots=True)
class Policy:
    """When a window reports: on content change, on window close, every ``period`` ms; restricted to non-empty windows or not.

    ``arrival``: when an element enters the window, but not when one leaves: content change with the tuple-driven tick of SECRET (Botan et
    al. 2010).
    """

    content_change: bool = False
    window_close: bool = False
    non_empty: bool = False
    period: int = 0
    arrival: bool = False

    @classmethod
    def named(cls, names: Collection[str], period: int = 0) -> Policy:
        """The policy of the names ``cc``, ``ea``, ``wc`` and ``nc`` that queries' options and profiles use."""
        return cls("cc" in names, "wc" in names, "nc" in names, period, "ea" in names)


@dataclass(frozen=True, slots=True)
class Report:
    """The report policies of a query: one for all windows, and those of single windows. ``t0`` by window name, "" for all."""

    default: Policy
    by_window: Mapping[str, Policy] = field(default_factory=dict)
    t0: Mapping[str, int] = field(default_factory=dict)

    def policy(self, window: str) -> Policy:
        """The policy of a window."""
        return self.by_window.get(window, self.default)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for equal policies; hashable."""
        return self.default, *sorted(self.by_window.items(), key=lambda item: item[0]), *sorted(self.t0.items())

    def origin(self, window: str) -> int:
        """The t0 of a window."""
        return self.t0.get(window, self.t0.get("", 0))


def changes(window: Window, times: Times, t0: int, after: int, upto: int, leaving: bool = True) -> Times:
    """Instants in ``(after, upto]`` at which an element of sorted distinct ``times`` enters the window or, with ``leaving``, leaves it."""
    kind = kind_of(window)
    if kind.counts_elements:
        found = times[slice(*np.searchsorted(times, [after, upto], "right"))]
    else:
        times = _held(kind, times, t0)
        edges = (0, 1) if leaving else (0,)
        crossing = [times[_reached(kind, times, t0, edge, after) : _reached(kind, times, t0, edge, upto)] for edge in edges]
        validity = kind.validity(np.concatenate(crossing), t0)
        found = np.concatenate([validity[edge][validity[0] < validity[1]] for edge in edges])
    return distinct_values(found[(found > after) & (found <= upto)], in_runs=True)


def _held(kind: WindowKind, times: Times, t0: int) -> Times:
    """The times from the first on that the window holds: among these, starts and ends never fall."""
    return times[np.searchsorted(times, kind.first(t0)) :]


def _reached(kind: WindowKind, times: Times, t0: int, edge: int, instant: int) -> int:
    """How many of ``times`` have their start (edge 0) or their end (edge 1) by an instant: of √n blocks first, then of rows in a block."""
    size = isqrt(len(times)) + 1
    before = size * int(np.searchsorted(kind.validity(times[size - 1 :: size], t0)[edge], instant, "right"))
    return before + int(np.searchsorted(kind.validity(times[before : before + size], t0)[edge], instant, "right"))


def _content(kind: WindowKind, times: Times, t0: int, tau: Times) -> np.ndarray:
    """Whether the window has content at each of these rising instants."""
    if len(tau):
        # Of the elements that started before the first instant, the last one ends last.
        times = _held(kind, times, t0)
        ended, started = (_reached(kind, times, t0, edge, int(tau[0])) for edge in (1, 0))
        times = times[started - (ended < started) :]
    start, end = kind.validity(times, t0)
    start, end = start[start < end], end[start < end]
    return np.searchsorted(start, tau, "right") > np.searchsorted(end, tau, "right")


def instants(
    windows: Sequence[Window],
    report: Report,
    times: Mapping[str, Times],
    first: int,
    after: int,
    upto: int,
    moves: Mapping[str, Times] | None = None,
) -> Times:
    """E in ``(after, upto]``, from the sorted distinct times of each stream's elements that can still matter.

    ``first`` is the time of the first element on any stream: E begins at or after it. ``moves`` has, by window name, the times at which
    windows change that do so with each m-th element.
    """
    seen_by = {w.name: (moves or {}).get(w.name, times[w.stream]) for w in windows}
    after = max(after, first - 1)
    if upto <= after:
        return np.empty(0, np.int64)
    found = []
    for window in windows:
        policy, t0, stream = report.policy(window.name), report.origin(window.name), seen_by[window.name]
        own = []
        closing = kind_of(window).closings(t0, after + 1, upto) if policy.window_close else None
        if policy.content_change or (policy.window_close and closing is None):
            own.append(changes(window, stream, t0, after, upto))
        elif policy.arrival:
            own.append(changes(window, stream, t0, after, upto, leaving=False))
        if closing is not None:
            own.append(closing)
        if policy.period:
            own.append(periodic(t0, policy.period, max(after + 1, t0), upto))
        mine = distinct_values(np.concatenate(own), in_runs=True) if own else np.empty(0, np.int64)
        if policy.non_empty:
            if window.name in report.by_window:
                seen = _content(kind_of(window), stream, t0, mine)
            else:
                seen = np.zeros(len(mine), bool)
                for other in windows:
                    seen |= _content(kind_of(other), seen_by[other.name], report.origin(other.name), mine)
            mine = mine[seen]
        found.append(mine)
    return distinct_values(np.concatenate(found), in_runs=True) if found else np.empty(0, np.int64)


def check_drain(windows: Iterable[Window]) -> None:
    """InputError for a window that never empties (``--drain``)."""
    for window in windows:
        if kind_of(window).reach is None:
            raise InputError(f"--drain: window {window.name} ({window.kind}) never empties; leave --drain out")


def emptied(windows: Sequence[Window], report: Report, times: Mapping[str, Times]) -> int:
    """The first instant from which on all windows stay empty, from the sorted times of each stream that can still matter (``--drain``)."""
    check_drain(windows)
    ends = [BEFORE_TIME]
    for window in windows:
        start, end = kind_of(window).validity(times[window.stream], report.origin(window.name))
        ends += end[start < end][-1:].tolist()  # the last element may be in no window, while an earlier one is still to enter
    return int(max(ends))


def drained(windows: Sequence[Window], report: Report, times: Mapping[str, Times], greatest: int) -> int:
    """Where ``--drain`` moves the frontier: the first instant of E, taken without NC, at which all windows are empty for good."""
    empty = max(emptied(windows, report, times), greatest)
    found = []
    for window in windows:
        policy, t0 = report.policy(window.name), report.origin(window.name)
        closes = policy.window_close and kind_of(window).closings(t0, empty, empty) is not None
        if closes:
            found.append(_next_closing(kind_of(window), t0, empty))
        if policy.content_change or (policy.window_close and not closes):
            found += changes(window, times[window.stream], t0, empty - 1, empty).tolist()
        if policy.period:
            found.append(t0 + max(0, -((t0 - empty) // policy.period)) * policy.period)
    return min(found, default=empty)


def _next_closing(kind: WindowKind, t0: int, at: int) -> int:
    """The first closing from an instant on."""
    span = 1
    while (found := kind.closings(t0, at, at + span)) is not None and not len(found):
        span *= 2
    assert found is not None
    return int(found[0])


def filled_until(window: Window, t0: int, times: Times, upto: int) -> int | None:
    """The last instant up to ``upto`` at which the window has content, of elements at these sorted times."""
    kind, times = kind_of(window), times[: np.searchsorted(times, upto, "right")]
    if kind.counts_elements:
        return upto if len(times) else None
    start, end = kind.validity(times, t0)
    ends = end[(start < end) & (start <= upto)]
    return min(upto, int(ends[-1]) - 1) if len(ends) else None


def retained_from(windows: Sequence[Window], report: Report, stream: str, reported: int) -> int | None:
    """Elements of a stream with a time below this can be deleted after instant ``reported``; None: all must stay.

    Found by bisection on the ends, which never fall as t rises. For windows that count elements see
    :mod:`cqels_opt.windows.binding_slots`.
    """
    bound = int(FOREVER)
    for window in windows:
        kind = kind_of(window)
        if window.stream != stream or kind.counts_elements:
            continue
        if kind.reach is None:
            return None
        low, high = reported - 2 * kind.reach - 2, reported + 1
        while low < high:  # the first t whose end is after `reported`
            middle = (low + high) // 2
            _, end = kind.validity(np.array([middle], np.int64), report.origin(window.name))
            if end[0] > reported:
                high = middle
            else:
                low = middle + 1
        bound = min(bound, low)
    return bound
