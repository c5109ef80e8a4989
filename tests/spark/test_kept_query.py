"""A query that has been read is not read again while it stays the same: counted in readings, and in calls of the JVM."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from py4j.clientserver import ClientServerConnection  # type: ignore[import-untyped]
from pyarrow import parquet

import cqels_opt as cq
from cqels_opt.bench.adaptive_join import Size, make
from cqels_opt.spark import replanning
from cqels_opt.spark.catalyst import in_session
from cqels_opt.spark.session import settings

from .join_orders import Collected, bag, frame_of_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLEAN_UP = "m"
"""The command by which Python releases an object of the JVM, at any time."""


@pytest.fixture(scope="module", autouse=True)
def small(spark: SparkSession) -> Iterator[None]:
    with settings(spark, {"spark.sql.shuffle.partitions": "2", "spark.sql.codegen.wholeStage": "false"}):
        yield


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets an element for each reading of a plan. Every micro-batch is sampled."""
    found, read = list[int](), replanning.read

    def counting(*given: Any) -> Any:
        found.append(len(found))
        return read(*given)

    monkeypatch.setattr(replanning, "read", counting)
    monkeypatch.setattr(replanning, "SPREADS", ((0.0, 1),))
    return found


def calls_of(monkeypatch: pytest.MonkeyPatch, block: Callable[[], object]) -> int:
    """The number of calls of the JVM, without those of the garbage collector."""
    commands, send = list[str](), ClientServerConnection.send_command

    def counting(self: Any, command: str, *given: Any) -> Any:
        commands.append(command[:1])
        return send(self, command, *given)

    with monkeypatch.context() as patch:
        patch.setattr(ClientServerConnection, "send_command", counting)
        block()
    return sum(command != CLEAN_UP for command in commands)


def streamed(spark: SparkSession, folder: Path, parts: list[pa.Table], function: Callable[[DataFrame, int], None]) -> None:
    """A streaming query with a micro-batch for each part: all have the same attributes, and session objects of their own."""
    for number, part in enumerate(parts):
        parquet.write_table(part, folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (number, number))
    schema = spark.read.parquet(f"file://{folder}").schema
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"file://{folder}")
    writer = frame.writeStream.foreachBatch(function).option("checkpointLocation", f"file://{folder}.checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def keys(parts: int) -> list[pa.Table]:
    """Micro-batches of keys of three tables."""
    some = np.random.default_rng(1)
    return [pa.table({f"k{n}": some.integers(0, 50, 20) for n in range(3)}) for _ in range(parts)]


def made(folder: Path) -> Path:
    """A folder for a stream."""
    (folder / "stream").mkdir()
    return folder / "stream"


def tables(spark: SparkSession, values: int) -> list[DataFrame]:
    of = pa.array(range(values))
    return [frame_of_table(spark, pa.table({f"k{n}": of, f"v{n}": of})) for n in range(3)]


@pytest.mark.long
def test_a_query_is_read_again_if_it_changes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[int]
) -> None:
    """Batches 1 to 3 have one query, 4 another table, 5 another condition. The kept query costs a fraction of the calls."""
    least, joined, calls, read = 0, tables(spark, 50), list[int](), list[int]()

    def query(views: DataFrame) -> DataFrame:
        for number, table in enumerate(joined):
            views = views.join(table, f"k{number}")
        return views.where(f"v0 >= {least}").selectExpr("k0 + k1 AS k", "v2")

    function = cq.adaptive(query).batch(lambda rows, number: None)

    def batch(frame: DataFrame, number: int) -> None:
        nonlocal joined, least
        joined, least = tables(spark, 30) if number == 4 else joined, 10 if number == 5 else 0
        before, plain = len(reads), calls_of(monkeypatch, lambda: query(frame))
        calls.append(calls_of(monkeypatch, lambda: function(frame, number)) - plain)
        function.wait_for_counts()
        read.append(len(reads) - before)

    streamed(spark, made(tmp_path), keys(6), batch)
    assert read == [1, 1, 0, 0, 1, 1]
    assert calls[3] <= 75
    assert calls[3] < calls[1] / 3


@pytest.mark.long
def test_a_kept_query_is_read_again_before_it_is_rebuilt(spark: SparkSession, tmp_path: Path, reads: list[int]) -> None:
    """The order of the query is best in batches 2 and 3, another one in the others. The second of two equal ones is not read."""
    make(tmp_path, Size(famous=10, fanout=4_000, ordinary=40_000, batches=2, views=100, matching=0.1))
    follows, offers = (spark.read.parquet(f"file://{tmp_path}/{name}") for name in ("follows", "offers"))
    parts, sink = [parquet.read_table(file) for file in sorted((tmp_path / "views").iterdir())], Collected()
    read, left = list[int](), list[bool]()

    def query(views: DataFrame) -> DataFrame:
        return views.join(in_session(follows, views.sparkSession), "who").join(in_session(offers, views.sparkSession), "item")

    function = cq.adaptive(query).batch(sink)

    def batch(frame: DataFrame, number: int) -> None:
        before = len(reads)
        function(frame, number)
        function.wait_for_counts()
        read.append(len(reads) - before)
        left.append(function.last is not None and bool(function.last.notices))
        assert sink.bags[number] == bag(query(frame))

    streamed(spark, made(tmp_path), parts[:5], batch)
    assert left == [True, False, True, True, False]
    assert read == [1, 1, 1, 0, 1]


def test_a_declared_join_registers_only_the_micro_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its other views stay, although each micro-batch has a session object of its own."""
    join = cq.AdaptiveJoin(spark).relation("s")
    for number, table in enumerate(tables(spark, 50)):
        join = join.relation(f"t{number}", table).on(f"s.k{number} = t{number}.k{number}")
    function, calls = join.batch(lambda rows, number: None), list[int]()

    def batch(frame: DataFrame, number: int) -> None:
        calls.append(calls_of(monkeypatch, lambda: function(frame, number)))
        function.wait_for_counts()

    streamed(spark, made(tmp_path), keys(4), batch)
    assert calls[2] <= 20


def test_a_micro_batch_that_is_part_of_another_plan_is_sampled_each_time(spark: SparkSession, reads: list[int]) -> None:
    """Its filter moves into the query, so that the kept sample would read the rows of a former one."""
    rows = frame_of_table(spark, pa.table({"batch": np.repeat(np.arange(4), 5), **{f"k{n}": np.arange(20) for n in range(3)}}))
    joined, elements = tables(spark, 50), list[int]()
    function = cq.adaptive(lambda views: views.join(joined[0], "k0").join(joined[1], "k1")).batch(lambda rows, number: None)
    for number in range(4):
        function(rows.where(f"batch <= {number}").drop("batch"), number)
        function.wait_for_counts()
        assert function.last is not None
        elements.append(function.last.elements)
    assert elements == [0, 10, 15, 20]
    assert len(reads) == 4
