"""A checkpoint at a URI on a cluster whose machines share no folder: workers with copies of their own, executors and drivers that die."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import remote_folder
from spark.command import Command, call, lines
from spark.small_world import MET, write_query, write_world

from cqels_opt.query.parser import parse
from cqels_opt.verify import Options, judge, read_answers

from .on_a_cluster import CHECKPOINT
from .script import process, run
from .standalone import Standalone

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with pytest.MonkeyPatch.context() as patch:
        found = remote_folder.installed(tmp_path_factory.mktemp("installed"))
        for name, value in found.items():
            patch.setenv(name, value)
        yield found


@pytest.fixture(scope="module")
def cluster(variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    started = Standalone(tmp_path_factory.mktemp("cluster"))
    yield started
    started.end()


def downloads(variables: dict[str, str]) -> dict[int, int]:
    """The bytes that each process has read from the object store."""
    found: dict[int, int] = {}
    for line in Path(variables[remote_folder.LOG]).read_text().splitlines():
        pid, size, _ = line.split(" ", 2)
        found[int(pid)] = found.get(int(pid), 0) + int(size)
    return found


@pytest.mark.long
def test_what_dies_costs_a_download(
    cluster: Standalone,
    variables: dict[str, str],
    expected: list[str],
    world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster.fill(2)
    folder = tmp_path / "run"
    monkeypatch.setenv(CHECKPOINT, f"{remote_folder.PROTOCOL}://{tmp_path}/bucket/state")
    died = process(folder, world, cluster.url, "ingest:0:executor", "evaluate:1:driver")
    assert died.returncode == -signal.SIGKILL, died.stderr
    before = downloads(variables)
    there = run(folder, world, cluster.url, "evaluate:1:executor")
    assert there.answers == expected
    now = downloads(variables)
    fetched = {pid: size for pid, size in now.items() if size > before.get(pid, 0)}
    assert len(fetched) >= 3  # the driver, an executor of each worker, and one that came later
    assert len(list(cluster.folder.glob("cache-*/checkpoints/state-*"))) >= 2


@pytest.mark.long
def test_the_command_line(cluster: Standalone, tmp_path: Path, variables: dict[str, str]) -> None:
    """Killed in mid-run, and started again on another machine; static data are those that the run has loaded."""
    cluster.fill(2)
    files = write_world(tmp_path / "world", 80)
    query, out, trace = write_query(tmp_path, MET), tmp_path / "out.jsonl", tmp_path / "trace.jsonl"
    words = ["run", str(query), *files.words, "--checkpoint", f"{remote_folder.PROTOCOL}://{tmp_path}/bucket/state"]
    words += ["--out", str(out), "--trace", str(trace), "--batch", "20", "--master", cluster.url]
    command = Command(words)
    command.until(lambda: lines(trace) >= 1)
    command.kill()
    assert lines(trace) < 4
    os.environ["XDG_CACHE_HOME"], cache = str(tmp_path / "other"), os.environ["XDG_CACHE_HOME"]
    try:
        done = call(words)
    finally:
        os.environ["XDG_CACHE_HOME"] = cache
    assert (done.code, done.out) == (0, ""), done.err
    verdict = judge(parse(MET), files.inputs(), Options(), read_answers(out))
    assert verdict.equal, verdict.text()
