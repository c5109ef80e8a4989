"""The statistics of a window against a recount of its rows, over random steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cqels_opt.stats import SlotCounts, WindowStatistics, slot_counts, slot_parts
from cqels_opt.stats.frequencies import Ints
from cqels_opt.stats.window import MOST_WAITING

Intervals = Callable[[Ints], tuple[Ints, Ints]]


def now(t: Ints) -> tuple[Ints, Ints]:
    return t, t + 1


def half(t: Ints) -> tuple[Ints, Ints]:
    return t, t + 5


def grid(t: Ints) -> tuple[Ints, Ints]:
    return -(-t // 3) * 3, -(-(t + 4) // 3) * 3


def sparse(t: Ints) -> tuple[Ints, Ints]:
    """Windows [6k, 6k + 3): elements between them are never in one."""
    return t, np.where(t % 6 < 3, t // 6 * 6 + 3, t)


WINDOWS: list[Intervals] = [now, half, grid, sparse]


@dataclass(frozen=True)
class Row:
    t: int
    x: int


BATCHES = st.lists(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), max_size=8), min_size=1, max_size=6)


def batches_of(drawn: list[list[tuple[int, int]]]) -> list[list[Row]]:
    """Batches whose times rise by batch, with some lateness."""
    return [[Row(4 * step + t, x) for t, x in batch] for step, batch in enumerate(drawn)]


def told(slot: int, rows: list[Row], parts: int | None = None) -> tuple[SlotCounts, ...]:
    times, columns = np.array([row.t for row in rows], np.int64), {"x": np.array([row.x for row in rows], np.int64)}
    return slot_parts(slot, times, columns, parts) if parts else (slot_counts(slot, times, columns),)


def ends(intervals: Intervals, row: Row) -> tuple[int, int]:
    start, end = intervals(np.array([row.t]))
    return int(start[0]), int(end[0])


def living(intervals: Intervals, rows: list[Row], frontier: int) -> list[Row]:
    return [row for row in rows if (span := ends(intervals, row))[0] < span[1] and span[1] > frontier]


def valid_at(window: WindowStatistics, instant: int) -> int:
    """The rows that are valid at an instant which is not before the last expiry."""
    return sum(int(chunk.n[(chunk.starts <= instant) & (instant < chunk.ends)].sum()) for chunk in window.chunks())


@settings(deadline=None)
@given(BATCHES, st.sampled_from(WINDOWS), st.integers(-2, 6))
def test_with_a_part_a_time_everything_is_exact(drawn: list[list[tuple[int, int]]], intervals: Intervals, behind: int) -> None:
    window, rows = WindowStatistics(["x"], intervals), list[Row]()
    for step, batch in enumerate(batches_of(drawn)):
        frontier = 4 * step - behind
        window.absorb_delta(frontier)
        window.expire(frontier)
        window.add_delta(told(step, batch, parts=1000))
        old, delta = living(intervals, rows, frontier), living(intervals, batch, -1)
        probe = np.arange(6)
        for contents, expected in ((("old",), old), (("delta",), delta), ((), old + delta)):
            held = Counter(row.x for row in expected)
            assert window.card(*contents) == len(expected)
            assert window.count("x", probe, *contents).tolist() == [held[int(x)] for x in probe]
            assert window.distinct("x", *contents) == pytest.approx(len(held))
            assert window.count("x", probe, *contents).sum() == len(expected)
        for instant in range(max(frontier, 0), frontier + 9):
            spans = [ends(intervals, row) for row in old + delta]
            assert valid_at(window, instant) == sum(start <= instant < end for start, end in spans)
        rows += batch


@settings(deadline=None)
@given(BATCHES, st.sampled_from(WINDOWS), st.integers(-2, 6))
def test_with_a_slot_a_batch_rows_are_exact_and_values_are_a_share(
    drawn: list[list[tuple[int, int]]], intervals: Intervals, behind: int
) -> None:
    window, slots = WindowStatistics(["x"], intervals), list[list[Row]]()
    for step, batch in enumerate(batches_of(drawn)):
        frontier = 4 * step - behind
        window.absorb_delta(frontier)
        before = window.card("old")
        gone = window.expire(frontier)
        window.add_delta(told(step, batch))
        alive = [living(intervals, slot, frontier) for slot in slots]
        assert gone == before - sum(map(len, alive))
        assert window.card("old") == sum(len(slot) for slot in alive)
        counts = np.zeros(6)
        for slot, left in zip(slots, alive):
            for row in slot:
                counts[row.x] += len(left) / len(slot)
        assert window.count("x", np.arange(6), "old") == pytest.approx(counts)
        assert window.count("x", np.arange(6), "old").sum() == pytest.approx(window.card("old"))
        assert 0 <= window.distinct("x", "old") <= window.card("old")
        slots.append(batch)


@settings(deadline=None)
@given(BATCHES, st.sampled_from(WINDOWS), st.integers(-2, 6), st.lists(st.booleans(), min_size=6, max_size=6))
def test_looking_a_few_values_up_gives_the_counts_of_the_whole_slots(
    drawn: list[list[tuple[int, int]]], intervals: Intervals, behind: int, updates: list[bool]
) -> None:
    """Slots that wait are looked up one by one; they stay waiting. It does not matter when the counts are brought up to date."""
    window = WindowStatistics(["x"], intervals)
    for step, batch in enumerate(batches_of(drawn)):
        frontier = 4 * step - behind
        window.absorb_delta(frontier)
        window.expire(frontier)
        window.add_delta(told(step, batch))
        if updates[step]:
            window.update()
        probe = np.array([3, 0, 5, 1, 3, 2, 4])
        expected = sum((held.counts["x"].get(probe) for held in window.held("whole")), np.zeros(len(probe)))
        waiting = [[*slots] for slots in window.waiting]
        assert window.count_whole("x", probe).tolist() == expected.tolist()
        assert [[*slots] for slots in window.waiting] == waiting
        assert window.count_whole("x", np.empty(0, np.int64)).tolist() == []
    window.update()
    assert window.count_whole("x", probe).tolist() == window.counted["x"].get(probe).tolist() == expected.tolist()


def test_if_many_slots_wait_reading_a_few_values_updates_the_counts() -> None:
    window, probe = WindowStatistics(["x"], half), np.array([1, 2])
    for step in range(MOST_WAITING):
        window.add(*told(step, [Row(1, 1)]))
    assert window.count_whole("x", probe).tolist() == [MOST_WAITING, 0]
    assert len(window.waiting[0]) == MOST_WAITING
    window.add(*told(MOST_WAITING, [Row(2, 2)]))
    assert window.count_whole("x", probe).tolist() == [MOST_WAITING, 1]
    assert not any(window.waiting)
    window.expire(6)  # the slots of time 1 have left, and are subtracted one by one
    assert window.count_whole("x", probe).tolist() == [0, 1]


def test_moving_ends_are_asked_anew() -> None:
    """The last two elements: an end is known when the second later element has come."""
    times: list[int] = []

    def last_two(t: Ints) -> tuple[Ints, Ints]:
        later = [sorted(u for u in times if u > one)[1:2] or [1 << 61] for one in t.tolist()]
        return t, np.array([end[0] for end in later], np.int64)

    window = WindowStatistics(["x"], last_two, moving=True)
    for step in range(6):
        times.append(step)
        window.absorb_delta(step - 1)
        window.expire(step - 1)
        window.add_delta(told(step, [Row(step, step)]))
        assert window.card("old") == min(step, 2)  # what ends at this step has not expired at step - 1
        assert valid_at(window, step) == min(step + 1, 2)
    assert [held.slots for held in window.held("old")] == [(3,), (4,)]


def test_moving_ends_follow_steps_without_slots() -> None:
    """Two steps may have the same frontier before them, and no slots: elements of other patterns have come between."""
    end = 1 << 60
    window = WindowStatistics(["x"], lambda t: (t, np.full(len(t), end)), moving=True)
    window.advance(told(0, [Row(1, 1)]), 0, 1)
    window.advance((), 1, 1)
    assert window.ended(5, "old") == []
    end = 4
    window.advance((), 1, 5)
    assert [rows for _, rows in window.ended(5, "old")] == [1]


def test_a_slot_must_have_the_variables() -> None:
    window = WindowStatistics(["x", "y"], now)
    with pytest.raises(ValueError, match="slot 7 has no counts for y"):
        window.add_delta(told(7, [Row(0, 0)]))


def test_the_epoch_rises_with_changes_only() -> None:
    window = WindowStatistics(["x"], half)
    window.add_delta(told(0, [Row(0, 0)]))
    epoch = window.epoch
    window.absorb_delta(0)
    assert window.epoch > epoch
    epoch = window.epoch
    window.expire(4)
    assert window.epoch == epoch
    window.expire(5)
    assert window.epoch > epoch


def test_a_slot_is_cut_into_equal_parts() -> None:
    parts = slot_parts(0, np.arange(12), {}, 4)
    assert [part.times.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
