"""A wall clock that is set back changes nothing: durations come from a monotonic clock, and answers from the elements' own times."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import pytest
from local_runs import Cut, register
from random_cases import make


def test_a_clock_that_runs_backwards_changes_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = make(7_009)
    query = register(case.query(), case.world, tmp_path / "q", case.settings)
    before = query.run(Cut("3")).lines
    ticks = itertools.count()
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.0 - 3_600.0 * next(ticks))
    monkeypatch.setattr(time, "time_ns", lambda: 10**9 * (1_700_000_000 - 3_600 * next(ticks)))
    assert before
    assert query.run(Cut("3")).lines == before
