"""The soak test at small scale: no counter grows with the number of batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from cqels_opt.bench import soak

BATCHES, SAMPLES = 480, 12


@pytest.mark.long
def test_many_small_batches_leave_nothing_behind(tmp_path: Path) -> None:
    samples = soak.alone(tmp_path, BATCHES, SAMPLES)
    assert [sample["batch"] for sample in samples] == [40 * i for i in range(1, 13)]
    settled = samples[2:-1]  # the windows are full, and the input has not ended
    first, second = settled[:4], settled[4:]
    for name in set(settled[0]) - {"batch", "resident"}:
        more = max(sample[name] for sample in second) - max(sample[name] for sample in first)
        assert more < BATCHES / 8, name  # numbers get more digits, and the interpreter has caches; a leak grows with every batch
