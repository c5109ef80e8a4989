"""Several processes of the local engine: the same bags of answers, whichever process runs a task, ends or fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from local_runs import Cut, register
from random_cases import make, seeds_with_answers
from spark.small_world import MAP, MET, STREAM, write_world

import cqels_opt as cq
from cqels_opt.errors import DataError, EngineWarning, InputError
from cqels_opt.local import worker_pool
from cqels_opt.local.worker_pool import PoolRunner
from cqels_opt.query.parser import parse
from cqels_opt.runtime import growing_files
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.runtime.run_state import RunState
from cqels_opt.verify import Options, evaluate, read_answers

WAIT = 60.0
"""Seconds for processes to start or to end."""


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def started(processes: int) -> PoolRunner:
    """A runner whose processes are ready, as after a batch that took long."""
    runner = PoolRunner(processes)
    runner._seconds = worker_pool.PAYS + 1
    runner.begin(0)
    until(lambda: all(worker.ready for worker in runner._workers))
    runner.begin(1)
    assert runner.parallelism == processes
    return runner


@pytest.fixture(scope="module")
def three() -> Iterator[PoolRunner]:
    runner = started(3)
    yield runner
    runner.close()


def pids(runner: PoolRunner) -> list[int]:
    return [worker._process.pid for worker in runner._workers]


def raising(error: Exception) -> None:
    raise error


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds_with_answers(24))
def test_any_query_has_the_lines_of_one_process(three: PoolRunner, seed: int, tmp_path: Path) -> None:
    """Input, deltas and answers in three shares, whose files all processes read: the lines of three shares in this process."""
    case = make(seed)
    query = register(case.query(), case.world, tmp_path, case.settings)
    how, sink = Cut("11", parts=3), LocalSink()
    driver = query.driver(how, runner=three, sink=sink)
    for number, rows in enumerate(query.chunks(how)):
        driver.batch(number, rows)
    assert three.parallelism == 3, "a process has ended"
    assert sink.lines == query.run(how).lines


def test_tasks_run_in_different_processes_and_in_order(three: PoolRunner) -> None:
    assert three._run([os.getpid] * 3) == [os.getpid(), *pids(three)]
    assert three._run([partial(pow, 2, n) for n in range(7)]) == [2**n for n in range(7)]


@pytest.mark.long
def test_the_first_error_is_raised_once_all_tasks_have_ended(three: PoolRunner, tmp_path: Path) -> None:
    late, works = tmp_path / "late", list[Callable[[], Any]]()
    works += [partial(raising, DataError("f:1: first")), partial(raising, DataError("f:2: second")), partial(_touch, late)]
    with pytest.raises(DataError, match="first"):
        three._run(works)
    assert late.exists()
    assert three._run([os.getpid] * 3) == [os.getpid(), *pids(three)]  # no reply is left over


class TwoArgumentsError(Exception):
    """An exception that can be pickled, but not unpickled."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def raising_of_two() -> None:
    raise TwoArgumentsError(1, 2)


def test_an_error_that_cannot_be_unpickled_is_raised_all_the_same() -> None:
    runner = started(2)
    with pytest.raises(TwoArgumentsError, match="1 and 2"):
        runner._run([os.getpid, raising_of_two])
    assert runner._run([os.getpid] * 2) == [os.getpid()] * 2
    runner.close()


def _touch(path: Path) -> None:
    time.sleep(0.2)  # a task that is slower than those that fail; the runner alone waits for it
    path.touch()


@pytest.mark.long
def test_what_a_function_prints_is_not_a_reply(three: PoolRunner) -> None:
    assert three._run([partial(print, "here", file=sys.stderr), partial(print, "a reply?")]) == [None, None]


def test_a_process_that_is_killed_costs_a_warning() -> None:
    runner = started(2)
    (pid,) = pids(runner)
    os.kill(pid, signal.SIGKILL)
    assert runner._run([os.getpid] * 2) == [os.getpid()] * 2
    until(lambda: runner._workers[0].ended)
    with pytest.warns(EngineWarning, match="a process of the local engine has ended"):
        runner.begin(2)
    assert (runner.parallelism, runner._workers) == (1, [])
    runner._seconds = worker_pool.PAYS + 1
    runner.begin(3)
    assert runner._workers == []


def test_a_runner_may_end_while_its_processes_start() -> None:
    """What waits for a process has ended before the pipe that it reads is closed."""
    runner = PoolRunner(2)
    runner._seconds = worker_pool.PAYS + 1
    runner.begin(0)
    (worker,) = runner._workers
    runner.close()
    assert worker.ended and not worker._starting.is_alive() and worker._replies.closed


@pytest.mark.long
def test_processes_end_with_the_one_that_started_them() -> None:
    """Also within a task: else they would write into the checkpoint of the next run."""
    text = (
        "from functools import partial; import time; from cqels_opt.local.worker_pool import PoolRunner\n"
        "if True:\n"
        "    runner = PoolRunner(2); runner._seconds = 9.0; runner.begin(0)\n"
        "    while not runner._workers[0].ready: time.sleep(0.01)\n"
        "    runner._workers[0].begin(partial(time.sleep, 600)); print(runner._workers[0]._process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        os.kill(pid, 0)
        process.kill()
    until(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2])


def test_a_process_whose_engine_was_killed_before_its_reply_is_silent() -> None:
    """A reply that nobody reads printed a stack trace into the terminal."""
    words = [sys.executable, "-c", "from cqels_opt.local.worker import main; main()"]
    read, write = os.pipe()
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=write, stderr=subprocess.PIPE) as process:
        os.close(read)
        os.close(write)
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(WAIT)) == (b"", 0)


@pytest.mark.long
@pytest.mark.parametrize(
    "options", [{"batch": 9}, {"follow": True, "to_the_end": True, "commit_every": "1h"}], ids=["replay", "growing"]
)
def test_a_run_uses_them_from_a_batch_on_in_which_they_are_ready(
    options: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first batches run in one process; when it has ended, there is no other process. A lambda of this test is called everywhere.
    What batches of one process keep in memory until the next commit record is in files once there are more.
    """
    monkeypatch.setattr(growing_files, "MOST_BYTES", 800)
    monkeypatch.setattr(worker_pool, "PAYS", 0.0)
    monkeypatch.setattr(RunState, "shares", lambda self, rows: self.runner.parallelism)
    made: list[PoolRunner] = []

    def waiting(self: PoolRunner, batch: int, queries: Any = ()) -> None:
        if self._workers:
            until(lambda: all(worker.ready for worker in self._workers))
        begin(self, batch, queries)
        made.append(self)
        parallel.append(self.parallelism)

    parallel: list[int] = []
    begin = PoolRunner.begin
    monkeypatch.setattr(PoolRunner, "begin", waiting)
    files = write_world(tmp_path / "world", 60)
    cq.register_function("http://ex.org/same", lambda text: text, arguments=1)
    text = MET.rstrip().removesuffix("}") + " FILTER(<http://ex.org/same>(str(?p)) = str(?p)) }"
    found = []
    for processes in (1, 2):
        place, query = tmp_path / str(processes), cq.local.Engine(static=files.static, graphs={MAP: files.places}).register(text)
        place.mkdir()
        parallel.clear()
        query.start({STREAM: files.stream}, place / "out.jsonl", place / "c", processes=processes, **options).await_termination()
        assert parallel[:2] == [1, 1] and set(parallel[2:]) == {processes}
        found.append(read_answers(place / "out.jsonl"))
    assert found[0] == found[1]
    assert "follow" in options or found[0] == evaluate(parse(MET), files.inputs(), Options())
    assert found[0].total() > 50
    assert not any(runner._workers for runner in made)


def test_a_number_that_is_no_number_of_processes(tmp_path: Path) -> None:
    files = write_world(tmp_path / "world", 20)
    query = cq.local.Engine(static=files.static, graphs={MAP: files.places}).register(MET)
    with pytest.raises(InputError, match="processes=0: a run has at least 1 process"):
        query.start({STREAM: files.stream}, tmp_path / "out.jsonl", tmp_path / "c", processes=0)
