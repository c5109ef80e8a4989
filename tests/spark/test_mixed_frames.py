"""Time slices and probes after shuffles have the rows and counts of the whole plan. No session is started (mixed_frames.py)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from local_runs import Cut, register
from mixed_frames import Compared
from random_cases import make


@pytest.mark.long
def test_time_slices_and_probes_behind_shuffles(tmp_path: Path) -> None:
    """More of them in tests/conformance/test_random_queries.py."""
    compared = 0
    for seed in range(15):
        case, runner = make(seed), Compared(random.Random(seed))
        runner.run(register(case.query(), case.world, tmp_path / str(seed), case.settings), Cut("15"))
        compared += runner.mixed
    assert compared > 20
