"""The driver's times of a stream, against a plain set; and that it holds no more than it says."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.windows.timeline import Timeline

STEPS = st.lists(st.one_of(st.lists(st.integers(0, 60), max_size=8), st.integers(0, 70)), max_size=30)


@given(STEPS)
def test_a_timeline_by_brute_force(steps: list[list[int] | int]) -> None:
    line, expected = Timeline(), set[int]()
    for step in steps:
        if isinstance(step, int):
            line.forget(step)
            expected = {t for t in expected if t >= step}
        else:
            line.add(np.array(sorted(set(step)), np.int64))
            expected |= set(step)
        assert line.times.tolist() == sorted(expected)


def test_a_sliding_window_of_times_takes_as_much_room_as_the_window() -> None:
    line = Timeline()
    for at in range(0, 2_000_000, 5_000):
        line.add(np.arange(at, at + 5_000))
        line.forget(at - 100_000)
        assert line.nbytes <= 4 * 8 * len(line.times) + 8192
    assert len(line.times) == 105_000
