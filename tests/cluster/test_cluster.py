"""Executors as processes: both probe a large delta, one that dies costs only time, and rows stay with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from .script import run

pytestmark = pytest.mark.cluster
CLUSTER = "local-cluster[2,1,1024]"


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


def test_executors_die_in_the_middle_of_a_batch(expected: list[str], world: Path, tmp_path: Path) -> None:
    """What they wrote does not count; their tasks run again on others."""
    there = run(tmp_path / "run", world, CLUSTER, "ingest:1:executor", "evaluate:2:executor")
    for dead, *others in there.said["attempts"].values():
        assert others
        assert dead not in others
    assert len(there.said["attempts"]) == 2
    assert there.answers == expected
