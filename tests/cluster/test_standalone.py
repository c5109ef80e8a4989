"""A standalone cluster on the loopback, by the command line and by the script: whatever is killed costs only time."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from spark.command import Command, call, lines
from spark.small_world import MET, write_query, write_world

from .script import process, run
from .standalone import Standalone

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def one_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A master, and room for workers."""
    cluster = Standalone(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.end()


@pytest.fixture
def cluster(one_cluster: Standalone) -> Standalone:
    """The cluster with two workers that live, whatever the test before did to them."""
    one_cluster.fill(2)
    return one_cluster


def test_executors_and_a_worker_die_in_the_middle_of_a_batch(
    cluster: Standalone, expected: list[str], world: Path, tmp_path: Path
) -> None:
    """The master starts other executors; what the worker's executor had begun is done by the other worker's."""
    there = run(tmp_path / "run", world, cluster.url, "ingest:0:executor", "evaluate:1:executor", "evaluate:2:worker")
    assert len(there.said["attempts"]) == 3
    for dead, *others in there.said["attempts"].values():
        assert others
        assert dead not in others
    assert sum(worker.process.poll() is None for worker in cluster.workers) == 1
    assert there.answers == expected


def test_the_driver_dies_and_slow_tasks_have_twins(cluster: Standalone, expected: list[str], world: Path, tmp_path: Path) -> None:
    """The dead driver's tasks had written their files; the next start does the batch again. Then tasks are slow that have a speculative
    twin on the other worker: both have written their files when one of them counts."""
    died = process(tmp_path / "run", world, cluster.url, "evaluate:1:driver")
    assert died.returncode == -signal.SIGKILL
    assert (tmp_path / "run" / "evaluate:1").read_text().splitlines()
    there = run(tmp_path / "run", world, cluster.url, "ingest:2:slow", "evaluate:2:slow")
    for slow, *twins in there.said["attempts"].values():
        assert twins
        assert slow not in twins
    assert there.answers == expected
    assert there.jobs == [2, 2, 2]


def records(path: Path) -> list[dict[str, Any]]:
    """Trace records without what depends on the machine."""
    read = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in record.items() if key not in ("ms", "jobs")} for record in read]


def test_the_command_line(cluster: Standalone, tmp_path: Path) -> None:
    """``run --master spark://…`` killed in mid-run and started again, then with indexes shared out among the executors; next to an
    undisturbed run on this machine's threads."""
    files = write_world(tmp_path / "world", 100)
    query = write_query(tmp_path, MET)

    def words(folder: str, master: str, *more: str) -> list[str]:
        below = tmp_path / folder
        own = ["--checkpoint", str(below), "--out", f"{below}.jsonl", "--trace", f"{below}.trace", "--batch", "20"]
        return ["run", str(query), *files.words, *own, "--master", master, *more]

    alone = call(words("alone", "local[2]"))
    assert alone.code == 0, alone.err
    command = Command(words("spread", cluster.url))
    command.until(lambda: lines(tmp_path / "spread.trace") >= 2)
    command.kill()
    assert lines(tmp_path / "spread.trace") < 5
    done = call(words("spread", cluster.url, "--joins", "partitioned"))
    assert (done.code, done.out) == (0, ""), done.err
    assert sorted((tmp_path / "spread.jsonl").read_text().splitlines()) == sorted(
        (tmp_path / "alone.jsonl").read_text().splitlines()
    )
    assert records(tmp_path / "spread.trace") == records(tmp_path / "alone.trace")
