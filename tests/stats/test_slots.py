"""Counts of slots: those of many tasks, combined, count the same rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.stats import SlotCounts, slot_counts, slot_parts
from cqels_opt.stats.slots import combined

ROWS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 6)), min_size=1, max_size=120)


def rows_of(parts: list[SlotCounts]) -> tuple[Counter[int], Counter[int]]:
    times, values = Counter[int](), Counter[int]()
    for part in parts:
        assert (np.diff(part.times) > 0).all() and (np.diff(part.values["x"].values) > 0).all()
        times.update(dict(zip(part.times.tolist(), part.rows.tolist())))
        values.update(dict(zip(part.values["x"].values.tolist(), part.values["x"].counts.tolist())))
    return times, values


@given(st.lists(ROWS, min_size=1, max_size=30), st.integers(1, 8))
def test_combined_counts_are_those_of_all_rows(tasks: list[list[tuple[int, int]]], most: int) -> None:
    parts = [
        slot_counts(number, np.array([t for t, _ in rows]), {"x": np.array([x for _, x in rows])})
        for number, rows in enumerate(tasks)
    ]
    found = combined(parts, most)
    assert rows_of(found) == rows_of(parts)
    assert len(found) <= most and len({part.slot for part in found}) == len(found)


def test_shares_of_a_replay_become_the_parts_of_one_task() -> None:
    """Tasks with consecutive stretches of time: the parts are as those of one task, so they expire one after the other."""
    t = np.arange(6400) // 2
    columns = {"x": t % 7}
    tasks = [slot_counts(i, t[i * 64 : (i + 1) * 64], {"x": columns["x"][i * 64 : (i + 1) * 64]}) for i in range(100)]
    found, whole = combined(tasks[::-1], 4), slot_parts(0, t, columns, 4)
    assert [(p.times[0], p.times[-1], p.total) for p in found] == [(p.times[0], p.times[-1], p.total) for p in whole]
    assert combined([], 4) == []
