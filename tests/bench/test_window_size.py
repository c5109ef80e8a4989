"""The study of the cost of a row as windows grow: its independent count of answers, and a run of it."""

from __future__ import annotations

import pytest

from cqels_opt.bench import window_size
from cqels_opt.errors import RunError


@pytest.mark.parametrize(("rows", "size"), [(600, 100), (900, 200)])
def test_the_expected_answers_are_the_pairs_within_a_window(rows: int, size: int) -> None:
    times, keys = window_size.times(0, rows, size).tolist(), window_size.keys(0, rows, size).tolist()
    upto = times[-1] - 1
    pairs = [
        (left, right)
        for left in range(0, rows, 2)
        for right in range(1, rows, 2)
        if keys[left] == keys[right]
        and abs(times[left] - times[right]) < window_size.SPAN
        and max(times[left], times[right]) <= upto
    ]
    assert window_size.expected(rows, size, upto) == len(pairs) > 100


def test_a_small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_size, "BATCH", 100)
    monkeypatch.setattr(window_size, "FILL", 300)
    found = window_size.measure(500, timed=5)
    assert found["answers"] > 500
    assert found["cpu us a row"] > 0


def test_a_wrong_number_of_answers_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_size, "BATCH", 100)
    monkeypatch.setattr(window_size, "expected", lambda rows, size, upto: 7)
    with pytest.raises(RunError, match="instead of 7: this is a bug"):
        window_size.measure(500, timed=1)
