"""Executors as processes: both probe a large delta, and rows stay with them. In test_standalone.py they die."""

from __future__ import annotations

from pathlib import Path

import pytest

from .script import run

pytestmark = pytest.mark.cluster
CLUSTER = "local-cluster[2,1,1024]"


@pytest.mark.long
def test_both_executors_probe(expected: list[str], world: Path, tmp_path: Path) -> None:
    """Each at least 30 % of the rows; and of all the answers none passes through the driver."""
    there = run(tmp_path / "run", world, CLUSTER)
    shares = there.said["shares"]
    assert len(shares) == 2
    assert min(shares) >= 0.3 * sum(shares)
    assert there.answers == expected
    assert there.jobs == [2, 2, 2]
    answers = (there.folder / "answers.jsonl").stat().st_size
    assert there.said["collected"] < 100_000 < answers / 100
    assert there.said["peak"] < answers / 2  # walks hold the windows that they go into, which are smaller than the answers
