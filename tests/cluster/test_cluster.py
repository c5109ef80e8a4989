"""Executors as processes: both probe a large delta, one that dies costs only time, and rows stay with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from local_run import Cut, World, register

from cqels_opt.bench.social import PLACES_GRAPH, STREAM, social
from cqels_opt.verify import read_inputs

pytestmark = pytest.mark.cluster
QUERY = Path(__file__).resolve().parents[2] / "docs" / "queries" / "q2.rq"
SCRIPT = Path(__file__).with_name("on_a_cluster.py")
CLUSTER = "local-cluster[2,1,1024]"


@dataclass(frozen=True)
class Done:
    """What a run said, and the files that it left."""

    said: dict[str, Any]
    folder: Path

    @property
    def answers(self) -> list[str]:
        return sorted((self.folder / "answers.jsonl").read_text(encoding="utf-8").splitlines())

    @property
    def jobs(self) -> list[int]:
        return [json.loads(line)["jobs"] for line in (self.folder / "trace.jsonl").read_text(encoding="utf-8").splitlines()]


def run(folder: Path, world: Path, *doomed: str) -> Done:
    folder.mkdir()
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, str(SCRIPT), str(folder), str(world), CLUSTER, *doomed]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return Done(json.loads(done.stdout.splitlines()[-1]), folder)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    social(folder, authors=400, papers=400, coauthor_pairs=6000, places=20, elements=6000, rate=200)
    return folder


@pytest.fixture(scope="module")
def expected(world: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The answers of one process without Spark."""
    streams = [(STREAM, world / "stream.ndjson")]
    inputs = read_inputs(streams, [world / "static.nt"], [(PLACES_GRAPH, world / "places.nt")]).inputs
    read = World({STREAM: [inputs.streams[STREAM]]}, inputs.default, inputs.graphs)
    query = register(QUERY.read_text(encoding="utf-8"), read, tmp_path_factory.mktemp("local"))
    return sorted(query.run(Cut("2000")).lines)


def test_both_executors_probe(expected: list[str], world: Path, tmp_path: Path) -> None:
    """Each at least 30 % of the rows; and of all the answers none passes through the driver."""
    there = run(tmp_path / "run", world)
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
    there = run(tmp_path / "run", world, "ingest:1", "evaluate:2")
    for dead, *others in there.said["attempts"].values():
        assert others
        assert dead not in others
    assert len(there.said["attempts"]) == 2
    assert there.answers == expected
