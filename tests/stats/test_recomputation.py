"""Expiry is driven by intervals: at any frontier the statistics equal those recomputed from the slots that have come.

Random windows of every kind, steps of the frontier, lateness and replays. Twice over: against statistics that are given the same slots
anew, whatever their parts; and, where each time is a part of its own, against the rows themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cqels_opt.plans import DeltaRule
from cqels_opt.query.algebra import Window
from cqels_opt.stats import BlockStatistics, Key, SlotCounts, StaticRelation, WindowedRelation, WindowStatistics, slot_parts
from cqels_opt.stats.frequencies import Ints
from cqels_opt.stats.slot_statistics import Intervals
from cqels_opt.windows.intervals import FOREVER
from cqels_opt.windows.kinds import kind_of

NAMES = ("a", "b", "c")
VARIABLES = {"a": ("x", "y"), "b": ("x",), "c": ("x", "z")}
FANOUT = np.array([0, 1, 3, 2, 7])

WINDOWS: list[Window] = [
    Window("w", "s", "now"),
    Window("w", "s", "range", 6),
    Window("w", "s", "range", 40),
    Window("w", "s", "grid", 7, 3),
    Window("w", "s", "delta", 5, 5),
    Window("w", "s", "delta", 3, 6),  # gaps: elements between the windows are never in one
    Window("w", "s", "open-closed", 8, 4),
    Window("w", "s", "closed-open", 4, 7),
    Window("w", "s", "star", 6, 3),
    Window("w", "s", "past", 12, 5),  # begins when the element is 5 old
    Window("w", "s", "last", count=3),
    Window("w", "s", "all"),
]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the pattern: its time and values; whose batch it came in."""

    t: int
    values: dict[str, int]


@dataclass(frozen=True, slots=True)
class Batch:
    """The new rows of each occurrence, where the frontier was and goes, and whether the batch is told twice."""

    rows: dict[str, list[Row]]
    before: int
    after: int
    again: bool


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Window], list[Batch]]:
    """Windows of three occurrences, and batches over them. Times rise from batch to batch but for some lateness."""
    windows = [draw(st.sampled_from(WINDOWS)) for _ in NAMES]
    batches, frontier = [], -1
    for _ in range(draw(st.integers(1, 7))):
        after = frontier + draw(st.integers(1, 9))
        late = draw(st.integers(0, 2))
        times = st.integers(max(0, frontier + 1 - late), max(0, after))
        rows = {
            name: [
                Row(draw(times), {v: draw(st.integers(0, 4)) for v in VARIABLES[name]}) for _ in range(draw(st.integers(0, 5)))
            ]
            for name in NAMES
        }
        batches.append(Batch(rows, frontier, after, draw(st.booleans())))
        frontier = after
    return windows, batches


def intervals(window: Window, elements: Ints) -> Intervals:
    """As the planner has them; an element of a last-n window ends when the n-th after it has come (``elements``: the times of all)."""

    def last(t: Ints) -> tuple[Ints, Ints]:
        place = np.searchsorted(elements, t, "right") - 1 + window.count
        return t, np.append(elements, FOREVER)[np.minimum(place, len(elements))]

    return last if window.kind == "last" else lambda t: kind_of(window).validity(t, 0)


class Told:
    """A block whose statistics follow batches; ``elements`` grow with them, so that the ends of last-n windows move."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self.elements: dict[str, Ints] = {name: np.empty(0, np.int64) for name in NAMES}
        self.windows = dict(zip(NAMES, windows))

        def of(name: str) -> Intervals:
            return lambda t: intervals(self.windows[name], self.elements[name])(t)

        self.statistics = BlockStatistics(
            [
                *(WindowedRelation(n, VARIABLES[n], of(n), moving=w.kind == "last") for n, w in self.windows.items()),
                StaticRelation("s", ("x", "y"), 13, {"x": 4}, {"x": lambda values: FANOUT[values]}),
            ]
        )

    def hear(self, batch: Batch) -> None:
        """The times of the elements of a batch."""
        for name, rows in batch.rows.items():
            self.elements[name] = np.sort(np.append(self.elements[name], np.array([row.t for row in rows], np.int64)))


def slots(number: int, batch: Batch, parts: int) -> dict[str, tuple[SlotCounts, ...]]:
    """The counts of a batch, each part under a number of its own."""
    found = {}
    for name, rows in batch.rows.items():
        columns = {v: np.array([row.values[v] for row in rows], np.int64) for v in VARIABLES[name]}
        counted = slot_parts(0, np.array([row.t for row in rows], np.int64), columns, parts)
        found[name] = tuple(replace(part, slot=100 * number + i) for i, part in enumerate(counted))
    return found


def valid_at(window: WindowStatistics, instant: int) -> int:
    """The rows that are valid at an instant which is not before the last expiry."""
    return sum(int(chunk.n[(chunk.starts <= instant) & (instant < chunk.ends)].sum()) for chunk in window.chunks())


@pytest.mark.long
@settings(max_examples=90, deadline=None)
@given(runs(), st.integers(1, 3), st.permutations(NAMES))
def test_statistics_at_any_frontier_are_those_recomputed_from_the_slots(
    run: tuple[list[Window], list[Batch]], parts: int, order: list[str]
) -> None:
    windows, batches = run
    followed = Told(windows)
    for number, batch in enumerate(batches):
        followed.hear(batch)
        for _ in range(2 if batch.again else 1):
            followed.statistics.advance(slots(number, batch, parts), batch.before, batch.after)
        afresh = Told(windows)
        for earlier, one in enumerate(batches[: number + 1]):
            afresh.hear(one)
            if earlier < number:
                for name, counted in slots(earlier, one, parts).items():
                    for slot in counted:
                        afresh.statistics.windows[name].add(slot)
        afresh.statistics.advance(slots(number, batch, parts), batch.before, batch.after)
        for source in NAMES:
            contents = DeltaRule(tuple(order)).contents(source)
            view, other = followed.statistics.view(contents), afresh.statistics.view(contents)
            assert view.values() == pytest.approx(other.values())
            for name in NAMES:
                for variable in VARIABLES[name]:
                    assert view.distinct(name, variable) == pytest.approx(other.distinct(name, variable))
        for name in NAMES:
            one, two = followed.statistics.windows[name], afresh.statistics.windows[name]
            for variable in VARIABLES[name]:
                assert one.count(variable, np.arange(5)) == pytest.approx(two.count(variable, np.arange(5)))
            for instant in range(max(batch.before, 0), batch.after + 9):
                assert valid_at(one, instant) == valid_at(two, instant)


@settings(max_examples=90, deadline=None)
@given(runs(), st.permutations(NAMES))
def test_statistics_at_any_frontier_are_those_of_the_rows(run: tuple[list[Window], list[Batch]], order: list[str]) -> None:
    """With a part a time: cardinalities, distinct values and joins with a static relation exactly, joins of windows as defined."""
    windows, batches = run
    told, seen = Told(windows), dict[str, list[Row]]({name: [] for name in NAMES})
    for number, batch in enumerate(batches):
        told.hear(batch)
        for _ in range(2 if batch.again else 1):
            told.statistics.advance(slots(number, batch, 99), batch.before, batch.after)
        span = {name: _spans(told, name) for name in NAMES}
        old = {n: [r for r in seen[n] if span[n][r.t][1] > max(batch.before, span[n][r.t][0])] for n in NAMES}
        new = {n: [r for r in batch.rows[n] if span[n][r.t][0] < span[n][r.t][1]] for n in NAMES}
        for source in NAMES:
            before = order[: order.index(source)]
            pieces = {n: [new[n]] if n == source else [old[n], new[n]] if n in before else [old[n]] for n in NAMES}
            view = told.statistics.view(DeltaRule(tuple(order)).contents(source))
            begins = min(
                (span[source][row.t][0] for row in new[source]), default=None
            )  # what has ended then meets no row of the delta
            alive = {n: {t: at for t, at in span[n].items() if begins is None or at[1] > begins} for n in NAMES}
            for name in NAMES:
                rows = [row for piece in pieces[name] for row in piece]
                met = [row for row in rows if row.t in alive[name]]
                assert view.cardinality(name) == len(met)
                for variable in VARIABLES[name]:
                    values = len({row.values[variable] for row in rows})
                    assert view.distinct(name, variable) == pytest.approx(min(values, len(met)))
                assert view.join_size(name, "s", "x") == pytest.approx(sum(FANOUT[row.values["x"]] for row in met))
            for left, right in (("a", "b"), ("b", "c"), ("c", "a")):
                expected = sum(
                    _joined(one, other, alive[left], alive[right]) for one, other in product(pieces[left], pieces[right])
                )
                assert view.join_size(left, right, "x") == pytest.approx(expected)
        assert view.value(Key("join_size", ("a", "s", "y"))) is None  # no index was given
        for name in NAMES:
            seen[name] += batch.rows[name]


def _spans(told: Told, name: str) -> dict[int, tuple[int, int]]:
    """The interval of every time that has come, as it is known now."""
    times = np.unique(told.elements[name])
    starts, ends = intervals(told.windows[name], told.elements[name])(times)
    return dict(zip(times.tolist(), zip(starts.tolist(), ends.tolist())))


NEVER = (0, 0)


def _joined(
    left: list[Row], right: list[Row], of_left: dict[int, tuple[int, int]], of_right: dict[int, tuple[int, int]]
) -> float:
    """The pairs with equal values, times the share of all pairs whose intervals meet; a row without an interval meets none."""
    if not left or not right:
        return 0.0
    pairs = [(one, other, of_left.get(one.t, NEVER), of_right.get(other.t, NEVER)) for one, other in product(left, right)]
    equal = sum(one.values["x"] == other.values["x"] for one, other, _, _ in pairs)
    return equal * sum(max(a[0], b[0]) < min(a[1], b[1]) for _, _, a, b in pairs) / len(pairs)
