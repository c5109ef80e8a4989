"""The state of an adaptive join below a URI that Hadoop resolves: ``viewfs`` over a local folder, which needs no server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cqels_opt as cq
from cqels_opt.errors import CheckpointError, InputError
from cqels_opt.lod.locations import hadoop_uri
from cqels_opt.spark.hadoop_state import HadoopRetainedRows

from .test_adaptive_join import STREAM, Collected, Row, cut, in_milliseconds, rows_of, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOUNT = "fs.viewfs.mounttable.{}.link./state"


@pytest.fixture
def uri(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """The URI of ``tmp_path / "far"``."""
    conf, table = spark._jsc.hadoopConfiguration(), tmp_path.name.replace("_", "-").lower()  # type: ignore[attr-defined]
    (tmp_path / "far").mkdir()
    conf.set(MOUNT.format(table), (tmp_path / "far").as_uri())
    yield f"viewfs://{table}/state"
    conf.unset(MOUNT.format(table))


def meetings(spark: SparkSession) -> cq.AdaptiveJoin:
    join = cq.AdaptiveJoin(spark).relation("here", window="now").relation("lately", window="10ms")
    return join.on("here.loc = lately.loc").select("here.who", "lately.who", "time")


def brute_force(rows: list[Row]) -> list[tuple[Any, ...]]:
    return sorted(
        (who, other, max(t, u))
        for who, loc, t in rows
        for other, there, u in rows
        if loc is not None and loc == there and max(t, u) < min(t + 1, u + 10)
    )


def found(sink: Collected) -> list[tuple[Any, ...]]:
    return sorted(in_milliseconds(sink.rows).elements())


class Failing:
    """Raises at the n-th copy or deletion, before or after it is done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int = -1, after: bool = False) -> None:
        self.steps: list[str] = []
        for kind in ("_put", "_delete"):
            monkeypatch.setattr(HadoopRetainedRows, kind, self._around(kind, getattr(HadoopRetainedRows, kind), at, after))

    def _around(self, kind: str, work: Any, at: int, after: bool) -> Any:
        def step(rows: HadoopRetainedRows, name: str) -> None:
            if kind == "_delete" and name not in rows._copied:
                return
            self.steps.append(f"{kind[1:]} {name}")
            here = len(self.steps) - 1 == at
            if here and not after:
                raise InterruptedError
            work(rows, name)
            if here:
                raise InterruptedError

        return step


@pytest.mark.long
def test_answers_and_restarts(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    rows, sink = rows_of(3), Collected()
    batches = list(cut(rows, 3))
    function = meetings(spark).batch(sink, state=uri)
    run(function, spark, batches[:2])
    again = meetings(spark).batch(sink, state=uri + "/")
    with pytest.raises(CheckpointError, match="another query of this process works with this state"):
        run(function, spark, batches[1:2], first=1)
    run(again, spark, batches[1:], first=1)  # the job had not recorded that batch 1 was done
    assert found(sink) == brute_force(rows)
    assert len(found(sink)) > 5
    named = again.kept.log.named()
    assert {f"rows/{path.name}" for path in (tmp_path / "far" / "rows").iterdir()} == {n for n in named if n.startswith("rows/")}
    assert not [*again.kept.folder.glob("rows/*")]
    assert again.kept.bytes > 0


@pytest.mark.long
def test_an_interrupted_commit_is_repeated(
    spark: SparkSession, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each step of the copies of a batch that replaces a record; the state of before is restored between the cases."""
    rows, far, saved = rows_of(5, 40), tmp_path / "far", tmp_path / "saved"
    batches = [rows[:20], rows[20:30], rows[30:]]
    sink = Collected()
    run(meetings(spark).batch(sink, state=uri), spark, batches[:2])
    shutil.copytree(far, saved)
    with monkeypatch.context() as patch:
        counted = Failing(patch)
        run(meetings(spark).batch(sink, state=uri), spark, batches[1:2], first=1)
    kinds = [step.rsplit("/", 1)[0] for step in counted.steps]
    assert kinds == ["delete commits", "delete optimizer", "put optimizer", "put commits"]
    for step, after in [(1, False), (2, True), (3, True)]:
        shutil.rmtree(far)
        shutil.copytree(saved, far)
        with monkeypatch.context() as patch:
            Failing(patch, step, after)
            with pytest.raises(InterruptedError):
                run(meetings(spark).batch(sink, state=uri), spark, batches[1:2], first=1)
        run(meetings(spark).batch(sink, state=uri), spark, batches[1:], first=1)
        assert found(sink) == brute_force(rows), (step, after)
        del sink.batches[2]


@pytest.mark.long
def test_a_state_that_is_deleted_old_or_of_another_job(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    far, frame = tmp_path / "far", [(1, "a", 0)]
    function = meetings(spark).batch(Collected(), state=uri)
    run(function, spark, [frame])
    shutil.copytree(far, tmp_path / "old")
    run(function, spark, [frame, frame], first=1)
    shutil.rmtree(far)
    far.mkdir()
    for restarted in (False, True):
        job = meetings(spark).batch(Collected(), state=uri) if restarted else function
        with pytest.raises(CheckpointError, match=f"^{uri}: the job continues at batch 3, but there is no commit record"):
            run(job, spark, [frame], first=3)
        shutil.rmtree(far)
        shutil.copytree(tmp_path / "old", far)
        with pytest.raises(CheckpointError, match="batch 3, but the last commit record is that of batch 0"):
            run(job, spark, [frame], first=3)
        shutil.rmtree(far)
        far.mkdir()
    shutil.rmtree(far)
    shutil.copytree(tmp_path / "old", far)
    last = meetings(spark).batch(lambda frame, n: _commit_elsewhere(far), state=uri)
    with pytest.raises(CheckpointError, match=r"commits/000000000001\.json exists: another job works with this state"):
        run(last, spark, [frame], first=1)


def _commit_elsewhere(far: Path) -> None:
    """As another job that commits batch 1 first."""
    shutil.copy(far / "commits" / "000000000000.json", far / "commits" / "000000000001.json")


@pytest.mark.long
def test_columns_that_come_and_go(spark: SparkSession, uri: str) -> None:
    sink = Collected()
    run(meetings(spark).batch(sink, state=uri), spark, [[(1, "a", 0)]])
    wider = meetings(spark).select("here.who", "lately.size").batch(sink, state=uri)
    wider(spark.createDataFrame([(2, "a", 3, 7)], STREAM + ", size int"), 1)
    assert sorted(sink.batches[1], key=str) == [(2, 7), (2, None)]
    with pytest.raises(CheckpointError, match=f"^{uri}: the column who of the stream was int and is string: cast it to int"):
        wider(spark.createDataFrame([("2", "a", 3, 7)], STREAM.replace("who int", "who string") + ", size int"), 2)
    with pytest.raises(CheckpointError, match="the stream no longer has the column size"):
        wider(spark.createDataFrame([(2, "a", 3)], STREAM), 2)


def test_a_failure_is_kept(spark: SparkSession, uri: str) -> None:
    with pytest.warns(RuntimeWarning, match="more than the limit of 1"):
        run(meetings(spark).batch(Collected(), state=uri, limits=cq.Limits(rows=1)), spark, [[(1, "a", 0), (2, "a", 0)]])
    with pytest.warns(RuntimeWarning, match="to start again, use another state folder"):
        assert meetings(spark).batch(Collected(), state=uri).failure is not None


def test_joins_without_windows_keep_their_failure(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    """And nothing else: they accept any batch."""
    rows = spark.createDataFrame([("a", 1)], "loc string, size int")
    join = cq.AdaptiveJoin(spark).relation("here").relation("places", rows).on("here.loc = places.loc").select("here.who")
    sink = Collected()
    run(join.batch(sink, state=uri), spark, [[(1, "a", 0)]], first=4)
    assert (sink.rows, [*(tmp_path / "far").iterdir()]) == ({(1,): 1}, [])
    first, newest = (join.batch(Collected(), state=uri, limits=cq.Limits(rows=1)) for _ in range(2))
    with pytest.raises(CheckpointError, match="another query of this process works with this state folder by now"):
        run(first, spark, [[(1, "a", 0)]])
    with pytest.warns(RuntimeWarning, match="more than the limit of 1"):
        run(newest, spark, [[(1, "a", 0), (2, "a", 0)]])
    assert [path.name for path in (tmp_path / "far").iterdir() if not path.name.startswith(".")] == ["failed.json"]
    with pytest.warns(RuntimeWarning, match="to start again, use another state folder"):
        assert join.batch(Collected(), state=uri).failure is not None
    with pytest.raises(InputError, match="state: nowhere://x/y: Spark cannot open this file system"):
        join.batch(Collected(), state="nowhere://x/y")


@pytest.mark.parametrize("unknown", ["nowhere://x/y", "dbfs:/x"])
def test_a_file_system_that_hadoop_does_not_know(spark: SparkSession, unknown: str) -> None:
    with pytest.raises(
        InputError, match=f"^state: {unknown}: Spark cannot open this file system .*add its connector to the session"
    ):
        meetings(spark).batch(Collected(), state=unknown)


def test_which_places_are_of_hadoop() -> None:
    assert [hadoop_uri(place) for place in ("s3a://b/x", "dbfs:/x", "hdfs:///x")] == ["s3a://b/x", "dbfs:/x", "hdfs:///x"]
    assert not any(hadoop_uri(place) for place in ("x", "/x", "file:///x", "c:/x", Path("s3a://b/x"), None))
