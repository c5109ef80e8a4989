"""Which runs are merged: that their number stays logarithmic, and that each row is written few times."""

from __future__ import annotations

import math
import random

from hypothesis import given
from hypothesis import strategies as st
from local_runs import most_merged

from cqels_opt.storage.compaction_policy import CompactionPolicy, runs_to_merge


def settled(sizes: list[int], cap: int) -> list[int]:
    """What is left when nothing is to be merged any more."""
    while found := runs_to_merge(sizes, cap):
        sizes[found] = [sum(sizes[found])]
    return sizes


@given(st.lists(st.integers(1, 1000), max_size=60), st.integers(1, 20))
def test_of_any_runs_few_are_left(sizes: list[int], share: int) -> None:
    tiers = CompactionPolicy(rows=8, share=share)
    cap = tiers.cap(sum(sizes))
    left = settled(sizes, cap)
    assert sum(left) == sum(sizes)
    assert len(left) <= most_merged(tiers, sum(sizes))
    assert max(left, default=0) <= max([cap, *sizes])


def test_a_sliding_window_of_small_slots() -> None:
    """Each row is written a logarithmic number of times, and few rows have expired of what is held."""
    rng, tiers = random.Random(1), CompactionPolicy(files=16, rows=1 << 10, share=16)
    window, runs, slots, written, came = 200_000, list[list[int]](), list[int](), 0, 0
    for _ in range(20_000):
        slots.append(rng.choice([20, 50, 50, 50, 200]))
        came += slots[-1]
        while runs and sum(map(sum, runs[1:])) + sum(slots) >= window:
            runs.pop(0)
        total = sum(map(sum, runs)) + sum(slots)
        arriving = sum(slots) if tiers.due(len(slots), sum(slots)) else 0
        found = runs_to_merge([sum(run) for run in runs], tiers.cap(total), arriving)
        if found:
            made = [n for run in runs[found] for n in run] + (slots if arriving else [])
            runs[found] = [made]
            written += sum(made)
            slots = [] if arriving else slots
        assert total <= window * (1 + 2 / tiers.share) + tiers.rows
        assert len(runs) <= most_merged(tiers, total)
        assert len(slots) <= tiers.files
    assert written / came < math.log2(window / 1024) + 2


def test_what_arrives_is_merged_if_only_by_itself() -> None:
    assert runs_to_merge([], 10, arriving=3) == slice(0, 0)
    assert runs_to_merge([8], 10, arriving=3) == slice(1, 1)
    assert runs_to_merge([], 10) is None
