"""The tasks that run all stages of a batch: functions in, reports out, until the batch ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cqels_opt.errors import DataError, EngineWarning
from cqels_opt.rdf.ids import PUBLIC
from cqels_opt.runtime.ingest import IngestReport, IngestTask
from cqels_opt.spark import driver_sockets
from cqels_opt.spark import runner as runner_module
from cqels_opt.spark.batch_tasks import BatchTasks, rows_of_task
from cqels_opt.spark.driver_sockets import NetworkSockets, connected
from cqels_opt.spark.runner import SparkRunner
from cqels_opt.spark.session import tasks_may_connect
from cqels_opt.spark.tasks import task_name
from cqels_opt.windows.binding_slots import ANYTHING, Shape
from cqels_opt.windows.element_rows import ELEMENT_ROWS


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.long)], ids=["one process", "network"])
def tasks(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[BatchTasks]:
    tasks = BatchTasks(spark.sparkContext, in_one_process=request.param)
    yield tasks
    tasks.end()


NETWORK = NetworkSockets.listen


def place(part: int) -> Iterator[tuple[int, str]]:
    """The process and the name of the task that run this."""
    yield os.getpid(), task_name()


def test_functions_run_one_after_the_other_in_one_attempt_under_names_of_their_own(tasks: BatchTasks) -> None:
    (one,), (other,) = tasks.run(place), tasks.run(place)
    assert one[0] == other[0]
    assert one[1] != other[1]  # a file of the second function cannot replace one of the first
    assert one[1].partition("w")[0] == other[1].partition("w")[0]


def test_reports_of_any_size_return(tasks: BatchTasks) -> None:
    many = list(range(100_000))
    assert tasks.run(lambda part: iter([b"x" * 5_000_000])) == [b"x" * 5_000_000]
    assert tasks.run(lambda part: iter(many)) == many
    assert tasks.run(lambda part: iter(())) == []


def test_the_job_ends_with_the_batch(spark: SparkSession, tasks: BatchTasks) -> None:
    context, tag = spark.sparkContext, f"a-batch-{id(tasks)}"
    context.addJobTag(tag)
    try:
        tasks.run(place)
        tasks.run(place)
        job = tasks._job
        tasks.end()
        assert list(job.get()) == []  # it returns
        assert len(context._jsc.sc().statusTracker().getJobIdsForTag(tag)) == 1
    finally:
        context.removeJobTag(tag)


def test_our_error_is_raised_as_it_is_and_the_task_goes_on(tasks: BatchTasks) -> None:
    def wrong(part: int) -> Iterator[object]:
        raise DataError("line 7: not a triple")

    with pytest.raises(DataError, match="line 7: not a triple"):
        tasks.run(wrong)
    assert tasks.run(place)


def test_another_error_is_that_of_the_job_and_the_next_batch_has_a_new_task(tasks: BatchTasks) -> None:
    def wrong(part: int) -> Iterator[object]:
        raise ValueError("something unforeseen")

    with pytest.raises(PySparkException, match="something unforeseen"):
        tasks.run(wrong)
    assert tasks.run(place)


def test_a_killed_worker_fails_the_job_and_the_next_batch_has_a_new_task(tasks: BatchTasks) -> None:
    ((process, _),) = tasks.run(place)

    def killed(part: int) -> Iterator[object]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield None

    with pytest.raises((PySparkException, Py4JError)):
        tasks.run(killed)
    ((other, _),) = tasks.run(place)
    assert other != process


# ------------------------------------------------------------------ several tasks
def at_once(folder: Path, number: int) -> Callable[[int], Iterator[tuple[int, str]]]:
    """:func:`place` in each of several tasks, which wait for each other."""
    folder.mkdir(exist_ok=True)

    def work(part: int) -> Iterator[tuple[int, str]]:
        (folder / f"{part}").touch()
        ends = time.monotonic() + 60
        while len(list(folder.iterdir())) < number:
            assert time.monotonic() < ends, "the other tasks do not run"
            time.sleep(0.005)
        return place(part)

    return work


def test_each_task_runs_the_functions_of_its_number_and_reports_come_in_order(tmp_path: Path, tasks: BatchTasks) -> None:
    one, other = tasks.run(at_once(tmp_path, 2), 2), tasks.run(place, 2)
    assert [process for process, _ in one] == [process for process, _ in other]
    assert len({process for process, _ in one}) == 2
    assert [name.partition("a")[0] for _, name in one] == ["0", "1"]
    assert len({name for _, name in (*one, *other)}) == 4
    assert tasks.run(lambda part: iter(range(part + 2)), 2) == [0, 1, 0, 1, 2]
    assert [process for process, _ in tasks.run(place)] == [one[0][0]]  # a function for one of the tasks


def test_more_parts_than_tasks_start_others(tmp_path: Path, tasks: BatchTasks) -> None:
    tasks.run(place)
    assert len({process for process, _ in tasks.run(at_once(tmp_path, 2), 2)}) == 2
    assert tasks.have(2)


def test_more_parts_than_slots_are_run_by_the_tasks_that_there_are(spark: SparkSession, tasks: BatchTasks) -> None:
    number = spark.sparkContext.defaultParallelism + 2
    found = tasks.run(place, number)
    assert len(found) == len({name for _, name in found}) == number
    assert tasks.have(number)


def test_a_part_whose_task_has_no_slot_is_run_by_another(spark: SparkSession, tasks: BatchTasks, tmp_path: Path) -> None:
    """And that task, which Spark starts after the batch, ends at once."""
    slots = spark.sparkContext.defaultParallelism
    holding, go = tmp_path / "holding", tmp_path / "go"

    def hold(_: Iterable[int]) -> Iterator[int]:
        holding.touch()
        while not go.exists():
            time.sleep(0.01)
        return iter(())

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(spark.sparkContext.parallelize([0], 1).mapPartitions(hold).collect)
        try:
            while not holding.exists() and not other.done():
                time.sleep(0.01)
            assert len({process for process, _ in tasks.run(place, slots)}) == slots - 1
            job = tasks._job
            tasks.end()
        finally:
            go.touch()
        assert other.result() == []
    assert list(job.get()) == []


RETRIED = """
import os, signal, sys
from pathlib import Path
from cqels_opt.spark.batch_tasks import BatchTasks
from cqels_opt.spark.session import make_session

folder = Path(sys.argv[1])
spark = make_session("local[2,3]", folder)
tasks = BatchTasks(spark.sparkContext, True)

def work(part):
    mark = folder / f"{name}{part}"
    if not mark.exists() and part in dying:
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    yield part

for name, dying in (("a", {0}), ("b", {0, 1}), ("c", set())):
    print(tasks.run(work, 2))
tasks.end()
spark.stop()
"""


@pytest.mark.long
def test_spark_starts_a_killed_task_again_where_it_is_asked_to(tmp_path: Path) -> None:
    """``local[2,3]``: the new attempt runs the part, while the other task keeps its own."""
    done = subprocess.run(
        [sys.executable, "-c", RETRIED, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.splitlines() == ["[0, 1]"] * 3, done.stderr


def test_our_error_in_one_of_several_tasks_is_raised(tasks: BatchTasks) -> None:
    def wrong(part: int) -> Iterator[int]:
        if part == 1:
            raise DataError("line 7: not a triple")
        yield part

    with pytest.raises(DataError, match="line 7: not a triple"):
        tasks.run(wrong, 2)
    assert len(tasks.run(place, 2)) == 2


def test_a_killed_worker_among_several_fails_the_job_and_the_next_batch_has_new_tasks(tmp_path: Path, tasks: BatchTasks) -> None:
    killing = tmp_path / "killing"
    killing.mkdir()

    def killed(part: int) -> Iterator[int]:
        if part == 0:
            (killing / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield part

    before = tasks.run(at_once(tmp_path / "meeting", 2), 2)
    with pytest.raises((PySparkException, Py4JError)):
        tasks.run(killed, 2)
    assert len(list(killing.iterdir())) == 1  # the other task does not run what has ended its neighbour
    after = tasks.run(place, 2)
    assert before[0][0] not in {process for process, _ in after}


# ------------------------------------------------------------------ in a network
def test_what_does_not_know_the_secret_is_no_task(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some say nothing, some say something else, one says its words slowly; one has another secret."""
    monkeypatch.setattr(driver_sockets, "ACCEPT_SECONDS", 1.0)
    tasks, strangers = BatchTasks(spark.sparkContext, in_one_process=False), list[socket.socket]()
    done = threading.Event()

    def listen(self: NetworkSockets) -> tuple[socket.socket, str]:
        listener, address = NETWORK(self)
        host, port, _ = address.split(" ")
        for content in (b"", b"GET / HTTP/1.1\r\n\r\n" * 9, b"x"):
            strangers.append(socket.create_connection((host, int(port))))
            strangers[-1].sendall(content)
        threads = ThreadPoolExecutor(2)
        threads.submit(slowly, strangers[-1])
        others.append(threads.submit(connected, address, b"another secret", 0))
        threads.shutdown(wait=False)
        return listener, address

    def slowly(stranger: socket.socket) -> None:
        while not done.wait(0.3):
            stranger.sendall(b"x")

    others: list[Future[socket.socket | None]] = []
    monkeypatch.setattr(NetworkSockets, "listen", listen)
    try:
        assert len(tasks.run(place, 2)) == 2
        tasks.end()
        assert others[0].result() is None
    finally:
        done.set()
        tasks.end()
        for stranger in strangers:
            stranger.close()


def test_tasks_that_cannot_reach_the_driver_are_jobs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def listen(self: NetworkSockets) -> tuple[socket.socket, str]:
        listener, address = NETWORK(self)
        host, _, secret = address.split(" ")
        return listener, f"{host} 1 {secret}"  # nobody listens there

    monkeypatch.setattr(NetworkSockets, "listen", listen)
    runner = SparkRunner(spark, 2)
    runner._tasks = BatchTasks(spark.sparkContext, in_one_process=False)
    runner.begin(0)
    with pytest.warns(EngineWarning, match="executors cannot connect"):
        assert len(runner._run(place, 2, "apart", "together")) == 2
    assert len(runner._run(place, 2, "apart", "together")) == 2
    assert not runner.repeats
    assert runner.jobs == 3  # one whose tasks have not connected


def test_rows_are_read_where_tasks_cannot_reach_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch has its partitions read by tasks of their own; the second one expects few rows."""
    monkeypatch.setattr(NetworkSockets, "listen", raising)
    runner = SparkRunner(spark, 2)
    runner._tasks = BatchTasks(spark.sparkContext, in_one_process=False)
    assert len(ingested(runner, 0, 5, tmp_path)) == 2
    with pytest.warns(EngineWarning, match="executors cannot connect"):
        assert len(ingested(runner, 1, 5, tmp_path)) == 2
    assert len(ingested(runner, 2, 5, tmp_path)) == 2
    assert not runner.repeats


def raising(self: NetworkSockets) -> tuple[socket.socket, str]:
    raise OSError("the address is not of this machine")


@pytest.mark.long
def test_an_idle_task_gives_its_slot_to_the_next_attempt_of_another(tmp_path: Path) -> None:
    """Two tasks and one slot, as on a cluster that has lost an executor."""
    script = RETRIED.replace("local[2,3]", "local[1,4]").replace(
        "BatchTasks(spark.sparkContext, True)", "BatchTasks(spark.sparkContext, False)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines() == ["[0, 1]"] * 3, done.stderr


@pytest.mark.parametrize("setting", ["spark.speculation", "spark.network.crypto.enabled", "spark.ui.enabled"])
def test_tasks_connect_unless_speculation_or_encryption_prevents_it(setting: str) -> None:
    class Session:
        def __init__(self, master: str) -> None:
            self.sparkContext = SimpleNamespace(master=master, getConf=lambda: {setting: "true"})

    assert tasks_may_connect(cast("SparkSession", Session("local[2]")))
    assert tasks_may_connect(cast("SparkSession", Session("spark://host:7077"))) == (setting == "spark.ui.enabled")


# ------------------------------------------------------------------ rows
NUMBERED = pa.schema({"id": pa.int64(), "name": pa.string()})


def numbered_rows(spark: SparkSession, rows: int, parts: int) -> DataFrame:
    return spark.range(0, rows, 1, parts).select("id", f.concat(f.lit("r"), f.col("id")).alias("name"))


def names_of_rows(part: int = 0) -> Iterator[str]:
    for batch in rows_of_task(NUMBERED):
        yield from batch.column("name").to_pylist()


@pytest.mark.parametrize("parts", [1, 3])
def test_a_function_has_the_rows_of_all_partitions_in_order(parts: int, spark: SparkSession, tasks: BatchTasks) -> None:
    """Of each DataFrame its own, also after one that nobody has read."""
    for rows in (5, 1, 200_000, 7):
        assert tasks.start(numbered_rows(spark, rows, parts))
        if rows < 200_000:
            assert tasks.run(names_of_rows) == [f"r{n}" for n in range(rows)]
        ((process, _),) = tasks.run(place)  # the same task runs later functions
        assert process != os.getpid()
        tasks.end()


def test_rows_without_partitions_start_no_task(spark: SparkSession, tasks: BatchTasks) -> None:
    assert not tasks.start(spark.createDataFrame([], "id long, name string").where("false"))
    assert tasks.run(place)  # a task without rows


def test_a_killed_worker_with_rows_fails_the_job(spark: SparkSession, tasks: BatchTasks) -> None:
    def killed(part: int) -> Iterator[object]:
        next(names_of_rows())
        os.kill(os.getpid(), signal.SIGKILL)
        yield None

    tasks.start(numbered_rows(spark, 10, 2))
    with pytest.raises((PySparkException, Py4JError)):
        tasks.run(killed)
    tasks.start(numbered_rows(spark, 2, 2))
    assert tasks.run(names_of_rows) == ["r0", "r1"]


@pytest.mark.long
@pytest.mark.parametrize("bad", [0, 99_999, 199_999])
def test_an_error_in_the_users_dataframe_is_that_of_the_job(bad: int, spark: SparkSession, tasks: BatchTasks) -> None:
    """The rows before the error are never reported as if they were all."""
    error = f.raise_error(f.lit("a bad value")).cast("string")
    tasks.start(numbered_rows(spark, 200_000, 1).withColumn("name", f.when(f.col("id") == bad, error).otherwise(f.col("name"))))
    with pytest.raises(PySparkException, match="a bad value"):
        tasks.run(names_of_rows)
    assert tasks.run(place)


def ingested(runner: SparkRunner, number: int, rows: int, folder: Path) -> list[IngestReport]:
    """The reports of a batch of some elements, each of one triple."""
    (folder / "slots").mkdir(exist_ok=True)
    shape = Shape("<s>", (ANYTHING, ANYTHING, ANYTHING), (0, -1, 1))
    columns = [f.lit(0).alias("stream"), f.lit(0).alias("partition"), f.col("id").alias("offset")]
    columns += [f.format_string("<a:%s%d>", f.lit(c), f.col("id")).alias(c) for c in "spo"]
    columns += [f.lit(None).cast("string").alias("g"), (100 * number + f.col("id")).alias("t")]
    frame = runner.spark.range(0, rows, 1, 2).select(*columns, f.lit(False).alias("late"), f.col("id").alias("line"))
    assert frame.columns == ELEMENT_ROWS.names
    runner.begin(number)
    reports = runner.ingest(frame, IngestTask(str(folder), number, ("<s>",), (shape,), "", PUBLIC, -1, frozenset()))
    runner.end()
    assert sum(seen.elements for report in reports for seen in report.streams.values()) == rows
    return reports


def test_a_batch_takes_one_task_after_a_small_one(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a large one its partitions are read by tasks of their own; the counts are the same."""
    monkeypatch.setattr(runner_module, "ROWS_PER_TASK", 30)
    runner = SparkRunner(spark, 2)
    jobs, files = [], []
    for number, rows in enumerate([10, 20, 50, 40, 10, 10]):
        files.append(len(ingested(runner, number, rows, tmp_path)))
        jobs.append(runner.jobs)
    assert jobs == [1] * 6
    assert files == [2, 1, 1, 2, 2, 1]
