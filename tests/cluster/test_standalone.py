"""A standalone cluster on the loopback, by the command line and by the script: whatever is killed costs only time."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from spark.command import Command, call, lines
from spark.small_world import MET, write_query, write_world
from spark.test_adaptive_join import brute_force, cut, rows_of

from cqels_opt.query.parser import parse
from cqels_opt.trace.records import read_trace
from cqels_opt.verify import Options, judge, read_answers

from .script import joined, process, run
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


@pytest.mark.long
def test_whatever_dies_costs_only_time(cluster: Standalone, expected: list[str], world: Path, tmp_path: Path) -> None:
    """Executors, whose tasks others do again; the driver, whose batch the next start does again; a worker with its executor; and tasks that
    are slow have a speculative twin on the other worker. Whoever strikes, files of more than one attempt lie there, and those of one count.
    """
    folder = tmp_path / "run"
    died = process(folder, world, cluster.url, "ingest:0:executor", "evaluate:0:slow", "evaluate:1:driver")
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert (folder / "evaluate:1").read_text().splitlines()
    there = run(folder, world, cluster.url, "ingest:1:slow", "ingest:2:executor", "evaluate:2:worker")
    for stage in ("ingest:0", "evaluate:0", *there.said["attempts"]):
        struck, *others = (folder / stage).read_text().split()
        assert others, stage
        assert struck not in others, stage
    assert sum(worker.process.poll() is None for worker in cluster.workers) == 1
    assert there.answers == expected
    assert there.jobs == [2, 2, 2]


@pytest.mark.long
def test_executors_join_and_leave(cluster: Standalone, expected: list[str], world: Path, tmp_path: Path) -> None:
    """Dynamic allocation: a second worker joins while a task of the first batch waits for the only executor. One of both executors leaves
    while it has no task, and another one joins when tasks wait, until one of the workers dies; the other one finishes the run.
    """
    cluster.keep(1)
    folder = tmp_path / "run"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, folder, world, cluster.url, "evaluate:0:held", "ingest:1:held", "evaluate:2:worker")
        try:
            await_line(folder / "evaluate:0", running)
            cluster.fill(2)
            cluster.executor_joins(1)
            (folder / "evaluate:0:go").touch()
            busy = executor_number(await_line(folder / "ingest:1", running))
            cluster.executor_leaves(1 - busy)
        finally:
            for stage in ("evaluate:0", "ingest:1"):
                (folder / f"{stage}:go").touch()
        there = running.result()
    assert len(there.said["shares"]) >= 2
    assert sum(worker.process.poll() is None for worker in cluster.workers) == 1
    assert there.answers == expected
    assert there.jobs == [2, 2, 2]


def await_line(path: Path, running: Future[Any]) -> str:
    """The line of a file that a run writes; if the run ends before, its error."""
    while not (path.exists() and path.read_text(encoding="utf-8").endswith("\n")):
        if running.done():
            running.result()
            raise AssertionError(f"the run has ended without {path.name}")
        time.sleep(0.05)
    return path.read_text(encoding="utf-8")


def executor_number(process: str) -> int:
    """The number of the executor that runs as a process."""
    words = Path(f"/proc/{int(process)}/cmdline").read_text(encoding="utf-8").split("\0")
    return int(words[words.index("--executor-id") + 1])


@pytest.mark.long
def test_a_join_of_dataframes(cluster: Standalone, tmp_path: Path) -> None:
    """An AdaptiveJoin whose executor dies within a batch, with what it had broadcast, shuffled and cached: the same answers."""
    doomed = 2
    batches = list(cut(rows_of(1, 40), 3))
    assert batches[doomed] and batches[doomed + 1 :]
    said = joined(tmp_path / "run", cluster.url, doomed)
    assert Counter(tuple(row) for row in said["rows"]) == brute_force(rows_of(1, 40))
    assert said["others"], "nobody went on"
    records = list(read_trace(tmp_path / "run" / "trace.jsonl"))
    assert [record.elements for record in records] == [len(batch) for batch in batches]


@pytest.mark.long
def test_the_command_line(cluster: Standalone, tmp_path: Path) -> None:
    """``run --master spark://…`` killed in mid-run and started again, then with indexes shared out among the executors."""
    files = write_world(tmp_path / "world", 80)
    query, out, trace = write_query(tmp_path, MET), tmp_path / "out.jsonl", tmp_path / "trace.jsonl"
    words = ["run", str(query), *files.words, "--checkpoint", str(tmp_path / "state"), "--out", str(out), "--trace", str(trace)]
    words += ["--batch", "20", "--master", cluster.url]
    command = Command(words)
    command.until(lambda: lines(trace) >= 1)
    command.kill()
    assert lines(trace) < 4
    done = call([*words, "--joins", "partitioned"])
    assert (done.code, done.out) == (0, ""), done.err
    verdict = judge(parse(MET), files.inputs(), Options(), read_answers(out))
    assert verdict.equal, verdict.text()
    records = list(read_trace(trace))
    assert [record.elements for record in records] == [20] * 4
    assert {operator.by for delta in records[-1].deltas for operator in delta.operators if operator.by} == {"partitioned probe"}
