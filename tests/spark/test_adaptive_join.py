"""AdaptiveJoin through Spark: the answers of the plain join for any batches and join methods, and after restarts."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import unified_diff
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import Mock

import pandas as pd
import pytest
from pyspark.errors import PySparkException

import cqels_opt as cq
from cqels_opt.errors import CheckpointError, EngineWarning, InputError
from cqels_opt.spark import windowed_join
from cqels_opt.spark.join_counts import static_counts
from cqels_opt.spark.session import settings
from cqels_opt.spark.versions import BEFORE_4
from cqels_opt.trace.records import read_trace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[int, str, int]  # of the stream: who, loc, t
STREAM = "who int, loc string, t long"
PLACES = [("a", "Hall"), ("b", "Lab"), ("b", "Laboratory"), ("d", "Roof"), (None, "nowhere")]
KNOWS = [(1, 2, 3), (1, 3, 1), (2, 3, 9), (3, 1, 9), (4, 4, 9)]


def rows_of(seed: int, count: int = 60) -> list[Row]:
    """Times in order, with gaps and repetitions; some places are unknown, some null."""
    some, t, found = random.Random(seed), 0, []
    for _ in range(count):
        t += some.choice([0, 0, 1, 3, 8])
        found.append((some.randrange(1, 5), some.choice(["a", "b", "c", None]), t))
    return found  # type: ignore[return-value]


def cut(rows: Sequence[Row], seed: int) -> Iterator[list[Row]]:
    """As micro-batches, some of them empty."""
    some, at = random.Random(seed), 0
    while at < len(rows):
        size = some.choice([0, 7, 19, 31])
        yield list(rows[at : at + size])
        at += size


class Collected:
    """A sink that keeps its input by batch; a repeated batch replaces its first version."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[Any, ...]]] = {}

    def __call__(self, frame: DataFrame, number: int) -> None:
        self.batches[number] = [tuple(row) for row in frame.collect()]
        assert frame.count() == len(self.batches[number])

    @property
    def rows(self) -> Counter[tuple[Any, ...]]:
        return Counter(row for rows in self.batches.values() for row in rows)


@pytest.fixture(scope="module")
def places(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(PLACES, "loc string, name string").cache()


@pytest.fixture(scope="module")
def knows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(KNOWS, "one int, other bigint, since int").cache()


def meetings(spark: SparkSession, places: DataFrame, knows: DataFrame) -> cq.AdaptiveJoin:
    """Who is now at a place where an acquaintance was recently, and the name of the place."""
    join = cq.AdaptiveJoin(spark).relation("here", window="now").relation("lately", window="10ms")
    join = join.relation("places", places).relation("knows", knows)
    join = join.on("here.loc = lately.loc AND lately.loc = places.loc").on("here.who = knows.one AND lately.who = knows.other")
    return join.where("knows.since > 2 AND here.t + lately.t + knows.since > 5").select("here.who", "lately.who", "name", "time")


def brute_force(rows: Sequence[Row]) -> Counter[tuple[Any, ...]]:
    return Counter(
        (who, other, name, max(t, u))
        for who, loc, t in rows
        for other, there, u in rows
        for place, name in PLACES
        for a, b, since in KNOWS
        if loc is not None and loc == there == place and (a, b) == (who, other)
        and since > 2 and t + u + since > 5 and max(t, u) < min(t + 1, u + 10)
    )  # fmt: skip


def run(function: cq.JoinRun, spark: SparkSession, batches: Sequence[Sequence[Row]], first: int = 0) -> None:
    for number, batch in enumerate(batches, first):
        function(spark.createDataFrame([*batch], STREAM), number)


def in_milliseconds(rows: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter({(*row[:-1], round(row[-1].timestamp() * 1000)): n for row, n in rows.items()})


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_windows_and_static_relations_however_rows_are_cut(
    spark: SparkSession, places: DataFrame, knows: DataFrame, tmp_path: Path, seed: int
) -> None:
    rows, sink = rows_of(seed), Collected()
    function = meetings(spark, places, knows).batch(sink, state=tmp_path / "state", trace=tmp_path / "t.jsonl")
    batches = list(cut(rows, seed))
    run(function, spark, batches)
    expected = brute_force(rows)
    assert in_milliseconds(sink.rows) == expected
    assert len(expected) > 5
    records = list(read_trace(tmp_path / "t.jsonl"))
    assert [record.elements for record in records] == [len(batch) for batch in batches]
    assert {delta.source for record in records for delta in record.deltas} == {"here", "lately"}
    observed = [o.observed for r in records for d in r.deltas for o in d.operators]
    assert any(rows for rows in observed)
    assert function.last == records[-1]
    assert function.switches == sum(len(record.switches) for record in records)
    assert "new rows of <b>here</b>" in function._repr_html_()


@pytest.mark.long
def test_it_goes_on_after_a_restart_and_does_a_batch_again(
    spark: SparkSession, places: DataFrame, knows: DataFrame, tmp_path: Path
) -> None:
    rows, sink = rows_of(4), Collected()
    batches, join = [rows[:25], rows[25:40], rows[40:]], meetings(spark, places, knows)
    trace = tmp_path / "t.jsonl"
    run(join.batch(sink, state=tmp_path / "state", trace=trace), spark, batches[:2])
    seen = Counter(sink.batches[1])
    again = join.batch(sink, state=tmp_path / "state", trace=trace)
    run(again, spark, batches[1:], first=1)  # the job had not recorded that batch 1 was done
    assert Counter(sink.batches[1]) == seen
    assert in_milliseconds(sink.rows) == brute_force(rows)
    assert [record.batch for record in read_trace(trace)] == [0, 1, 2]
    assert again.kept.state.totals["elements"] == len(rows)
    with pytest.raises(CheckpointError, match="the column who of the stream was int and is bigint: cast it to int"):
        again(spark.createDataFrame([(1, "a", 99)], STREAM.replace("who int", "who bigint")), 3)


@pytest.mark.long
def test_streams_with_times_of_their_own_and_a_column_that_comes_later(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weather is far behind flights, becomes idle, and comes back late. Of two flights, one of a kept row, one has the new column."""
    clock = [0.0]
    monkeypatch.setattr(windowed_join, "clock_time", lambda: clock[0])
    monkeypatch.setattr(type(spark.range(1)), "mapInArrow", None)  # no Python runs on executors
    join = cq.AdaptiveJoin(spark).relation("flights", window="10ms", time="flown")
    join = join.relation("weather", window="20ms", time="observed", lateness="5ms", idle_timeout="1 min")
    sink = Collected()
    join = join.on("flights.loc = weather.loc").select("flights.id", "weather.wind", "time")
    function, columns = join.batch(sink, state=tmp_path / "state"), "loc string, id int, flown long, wind int, observed long"
    batches: list[tuple[int, list[tuple[Any, ...]]]] = [
        (0, [("a", 1, 100, None, None), ("a", None, None, 7, 95)]),
        (1, [("a", 2, 150, None, None)]),  # waits for weather: the frontier is 90
        (59, [("a", None, None, 8, 142), ("a", None, None, 9, 92)]),  # 9 is in time, and meets flight 1; then the frontier is 137
        (60, [("a", None, None, 5, 130), ("a", None, None, 6, 140)]),  # 5 is late
        (121, [("a", 3, 200, None, None)]),  # weather is idle: the frontier is 200
        (122, [("a", None, None, 4, 199), (None, None, None, None, None)]),  # late, and of no stream
    ]
    late = []
    for number, (seconds, rows) in enumerate(batches):
        clock[0] = float(seconds)
        function(spark.createDataFrame(rows, columns), number)
        assert function.last is not None
        late.append((function.last.late, function.last.rejected))
        notices = function.last.notices
        assert bool(notices) == (number == 4), notices
    expected = {(1, 7, 100), (1, 9, 100), (2, 8, 150), (2, 6, 150)}
    assert set(in_milliseconds(sink.rows)) == expected
    assert late == [(0, 0), (0, 0), (0, 0), (1, 0), (0, 0), (1, 1)]
    more = join.select("flights.id", "weather.wind", "weather.gusts").batch(sink, state=tmp_path / "state")
    clock[0] = 123.0
    with_gusts = [("a", None, None, 3, 205, 30), ("a", 4, 206, None, None, None)]
    more(spark.createDataFrame(with_gusts, columns + ", gusts int"), 6)
    assert Counter(sink.batches[6]) == Counter({(3, 3, 30): 1, (4, 3, 30): 1})


@pytest.mark.long
def test_a_batch_that_does_not_follow_on_the_state(
    spark: SparkSession, places: DataFrame, knows: DataFrame, tmp_path: Path
) -> None:
    """With an empty state and with an older one; nothing is emitted unless the user accepts the gap."""
    rows, sink, join = rows_of(4), Collected(), meetings(spark, places, knows)
    batches = [rows[:20], rows[20:30], rows[30:40], rows[40:]]
    with pytest.raises(CheckpointError, match=r"the job continues at batch 3, but there is no commit record.*allow_gap=True"):
        run(join.batch(sink, state=tmp_path / "empty"), spark, batches[3:], first=3)
    run(join.batch(sink, state=tmp_path / "state"), spark, batches[:2])
    seen = dict(sink.batches)
    with pytest.raises(CheckpointError, match="the job continues at batch 3, but the last commit record is that of batch 1"):
        run(join.batch(sink, state=tmp_path / "state"), spark, batches[3:], first=3)
    assert sink.batches == seen
    run(join.batch(sink, state=tmp_path / "state", allow_gap=True), spark, batches[3:], first=3)
    run(join.batch(sink, state=tmp_path / "state"), spark, [rows[:0]], first=4)


@pytest.mark.long
@pytest.mark.parametrize("way, threshold", [("broadcast", "10MB"), ("sort merge", "-1")])
def test_whatever_joins_the_rows(spark: SparkSession, places: DataFrame, knows: DataFrame, way: str, threshold: str) -> None:
    """Each of Spark's join methods, with bushy plans and without late rows."""
    rows, sink = rows_of(5, 40), Collected()
    late = [(1, "a", -100), (2, "b", -1)]
    here = "here » (lately » places[?loc])[?loc] » knows[?who ?who_2]"
    plans = f"here: {here}; lately: lately » knows[?who_2] » (here » places[?loc])[?loc ?who]"
    function = meetings(spark, places, knows).batch(sink, plan=f"fixed:{plans}")
    with settings(spark, {"spark.sql.autoBroadcastJoinThreshold": threshold}):
        run(function, spark, [rows[:20], [*rows[20:], *late]])
    assert in_milliseconds(sink.rows) == brute_force(rows)
    assert function.last is not None
    assert function.last.late == len(late)
    assert {o.by for d in function.last.deltas for o in d.operators if o.op != "scan"} == {way}


@pytest.mark.long
def test_plans_that_fail_run_again_as_written_without_hints(spark: SparkSession, places: DataFrame, knows: DataFrame) -> None:
    """The optimizer never fails a job: estimates may be too low for the memory."""
    rows, sink, plans = rows_of(6, 20), Collected(), list[str]()

    def fails_first(frame: DataFrame, number: int) -> None:
        plans.append(frame._jdf.queryExecution().analyzed().toString())
        if len(plans) == 1:
            raise PySparkException("Cannot broadcast the table that is larger than 8.0 GiB")
        sink(frame, number)

    function = meetings(spark, places, knows).batch(fails_first)
    run(function, spark, [rows])
    assert in_milliseconds(sink.rows) == brute_force(rows)
    assert ["broadcast" in plan for plan in plans] == [True, False]
    assert function.last is not None
    assert str(function.last.fallback).startswith("run again in the order of the query, without hints: Cannot broadcast")
    with pytest.raises(PySparkException, match="own"):
        meetings(spark, places, knows).batch(Mock(side_effect=PySparkException("own")), plan="first")(
            spark.createDataFrame(rows, STREAM), 0
        )


@pytest.mark.long
def test_a_micro_batch_alone_with_versions_of_a_relation(spark: SparkSession, places: DataFrame) -> None:
    """Structs of the columns of each relation, as in Spark; a function returns the version for a batch."""
    closed = spark.createDataFrame([("a", "closed")], "loc string, name string")
    asked: list[int] = []

    def version(number: int) -> DataFrame:
        asked.append(number)
        return places if number < 2 else closed

    sink = Collected()
    join = cq.AdaptiveJoin(spark).relation("Here").relation("places", version).on("here.loc = places.LOC").where("here.who < 3")
    function = join.batch(lambda frame, n: sink(frame.select("Here.who", "places.name"), n))
    rows = [(1, "a", 0), (2, "b", 0), (3, "a", 0), (1, None, 0)]
    run(function, spark, [rows, rows, rows], first=7)
    assert [sorted(sink.batches[n]) for n in (7,)] == [[(1, "closed")]]
    assert asked == [7, 8, 9]
    first = join.batch(lambda frame, n: sink(frame.select("Here.who", "places.name"), n))
    run(first, spark, [rows, rows, rows])
    assert [sorted(sink.batches[n]) for n in (0, 2)] == [[(1, "Hall"), (2, "Lab"), (2, "Laboratory")], [(1, "closed")]]


def test_a_relation_of_equal_files_is_not_counted_again(
    spark: SparkSession, places: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function that reads its table in each micro-batch: keys are counted once until the files change."""
    counted = Mock(wraps=static_counts)
    monkeypatch.setattr(windowed_join, "static_counts", counted)
    path, sink = str(tmp_path / "places"), Collected()
    places.coalesce(1).write.parquet(path)
    join = cq.AdaptiveJoin(spark).relation("here", window="10ms").relation("places", lambda _: spark.read.parquet(path))
    function = join.on("here.loc = places.loc").batch(sink)
    run(function, spark, [[(1, "a", 0)], [(2, "a", 1)]])
    assert counted.call_count == 1
    places.coalesce(1).write.mode("append").parquet(path)
    run(function, spark, [[(3, "a", 2)]], first=2)
    assert counted.call_count == 2
    assert [len(sink.batches[n]) for n in range(3)] == [1, 1, 2]


def executed(rows: DataFrame) -> str:
    """The executed plan of the rows of a join with windows, which are in Spark's cache."""
    return str(rows._jdf.queryExecution().executedPlan().toString())


def test_rows_of_windows_are_broadcast_below_the_threshold_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Texts of 1,600 bytes are not priced as the 20 bytes that Spark assumes. Another version of the relation has other texts."""
    for name, length in (("wide", 50), ("narrow", 1)):
        ids = spark.range(0, 1_000, 1, 1)
        texts = ids.selectExpr("cast(id AS int) AS k", *(f"md5(concat(id, ' ', {i})) AS c{i}" for i in range(length)))
        texts.selectExpr("k", f"concat({', '.join(f'c{i}' for i in range(length))}) AS text").write.parquet(f"{tmp_path}/{name}")
    join = cq.AdaptiveJoin(spark).relation("v", window="10s")
    join = join.relation("w", lambda number: spark.read.parquet(f"{tmp_path}/{'narrow' if number == 1 else 'wide'}"))
    methods, plans = list[str | None](), list[str]()
    run = join.on("v.k = w.k").select("v.k", "w.text").batch(lambda rows, number: plans.append(executed(rows)))
    with settings(spark, {"spark.sql.autoBroadcastJoinThreshold": "100000"}):
        for number in range(3):
            run(spark.range(0, 20_000, 1, 1).selectExpr("cast(id % 1000 AS int) AS k", f"id + {20_000 * number} AS t"), number)
            assert run.last is not None
            methods.append(run.last.deltas[0].operators[-1].by)
    assert methods == ["sort merge", "broadcast", "sort merge"]
    assert ["BroadcastHashJoin" in plan for plan in plans] == [False, True, False]


def test_hints_of_relations_stay_with_windows(spark: SparkSession, places: DataFrame) -> None:
    """Spark prefers a broadcast to any other hint."""
    plans: list[str] = []
    for rows in (places, places.hint("merge")):
        join = cq.AdaptiveJoin(spark).relation("here", window="10ms").relation("places", rows).on("here.loc = places.loc")
        run(join.batch(lambda frame, number: plans.append(executed(frame))), spark, [[(1, "a", 0)]])
    assert ["BroadcastHashJoin" in plan for plan in plans] == [True, False]
    assert ["SortMergeJoin" in plan for plan in plans] == [False, True]


@pytest.mark.skipif(BEFORE_4, reason="the count of compiled classes is Spark 4's")
def test_later_micro_batches_compile_no_code(spark: SparkSession, places: DataFrame, knows: DataFrame, tmp_path: Path) -> None:
    """What differs between micro-batches is data; plans and the code that Spark generates for them are kept."""
    jvm: Any = spark._jvm
    compiled = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    sink, found = Collected(), list[int]()
    function = meetings(spark, places, knows).batch(sink, state=tmp_path / "state")
    for number in range(5):
        before = int(compiled.getCount())
        run(function, spark, [[(1, "a", number), (2, "b", number), (3, "a", number)]], first=number)
        found.append(int(compiled.getCount()) - before)
    assert found[0] > 0
    assert found[-1] == 0
    assert sink.rows.total() > 0


@pytest.mark.long
def test_answers_are_counted_whatever_the_sink_does(spark: SparkSession, places: DataFrame, knows: DataFrame) -> None:
    """A sink may compute a part of the rows, or none of them and release them; the answers are those after the projection."""
    rows = [rows_of(9, 36)[:18], rows_of(9, 36)[18:]]
    expected = [0, *(brute_force(list(chain(*rows[:n]))).total() for n in range(1, len(rows) + 1))]
    sinks: list[Callable[[DataFrame, int], object]] = [
        lambda frame, _: frame.isEmpty(),
        lambda frame, _: frame.unpersist(),
    ]
    for sink in sinks:
        function, found = meetings(spark, places, knows).batch(sink), list[int]()
        for number, batch in enumerate(rows):
            run(function, spark, [batch], first=number)
            assert function.last is not None
            found.append(function.last.answers or 0)
        assert found == [after - before for before, after in pairwise(expected)]
    numbers = meetings(spark, places, knows).select("count(*) AS n").batch(Collected())
    run(numbers, spark, [list(chain(*rows))])
    assert numbers.last is not None
    assert numbers.last.answers == 1


@pytest.mark.long
def test_plans_that_may_mean_something_else_later_are_made_again(
    spark: SparkSession, places: DataFrame, knows: DataFrame
) -> None:
    """Random numbers are drawn in each micro-batch, and a function is the one that is registered then."""
    sink = Collected()
    function = meetings(spark, places, knows).select("uuid()", "here.who", "model(here.who)", "time").batch(sink)
    rows, versions = rows_of(9, 40), list[set[int]]()
    for number in range(4):
        spark.udf.register("model", lambda _, number=number: number, "int")
        run(function, spark, [rows[10 * number : 10 * number + 10]], first=number)
        versions.append({row[2] for row in sink.batches[number]})
    assert [found for found in versions if found] == [{n} for n, found in enumerate(versions) if found]
    assert len({row[0] for rows in sink.batches.values() for row in rows}) == sink.rows.total() > 10


def test_plans_are_kept_whichever_reader_of_parquet_the_session_has(
    spark: SparkSession, places: DataFrame, knows: DataFrame
) -> None:
    """Spark has two readers, whose relations are of different classes."""
    rows = rows_of(8, 30)
    with settings(spark, {"spark.sql.sources.useV1SourceList": ""}):
        sink = Collected()
        run(meetings(spark, places, knows).batch(sink), spark, [rows[:10], rows[10:20], rows[20:]])
    assert in_milliseconds(sink.rows) == brute_force(rows)


def test_statistics_are_of_the_rows_that_pass_all_filters(spark: SparkSession, places: DataFrame) -> None:
    join = cq.AdaptiveJoin(spark).relation("here", time="t").relation("places", places).on("here.loc = places.loc")
    function = join.where("here.who < 3").where("here.loc = 'a'").batch(Collected())
    run(function, spark, [[(1, "a", 0), (2, "b", 0), (3, "a", 0)]])
    assert function.statistics()["relations"]["here"]["rows"] == 1


def test_limits_end_the_join_and_not_the_job(spark: SparkSession, places: DataFrame) -> None:
    sink = Collected()
    join = cq.AdaptiveJoin(spark).relation("here").relation("places", places).on("here.loc = places.loc")
    function = join.batch(sink, limits=cq.Limits(rows=2))
    run(function, spark, [[(1, "b", 0)]])
    with pytest.warns(RuntimeWarning, match="4 rows of answers in a micro-batch, more than the limit of 2"):
        run(function, spark, [[(1, "b", 0), (2, "b", 0)]], first=1)
    run(function, spark, [[(1, "a", 0)]], first=2)
    assert [(n, len(rows)) for n, rows in sink.batches.items()] == [(0, 2)]
    spark.udf.register("slow", lambda x: time.sleep(3) or x, "int")
    slow = join.where("slow(here.who) > 0").batch(sink, limits=cq.Limits(seconds=0.5))
    with pytest.warns(RuntimeWarning, match=r"longer than the limit of 0\.5 seconds"):
        run(slow, spark, [[(1, "a", 0)]])


def test_mistakes_are_said_in_one_sentence(spark: SparkSession, places: DataFrame) -> None:
    join = cq.AdaptiveJoin(spark).relation("here", window="5ms").relation("places", places)

    def nothing(*_: Any) -> None: ...

    with pytest.raises(InputError, match=r"here\.who is int and places\.name is string: cast one of them"):
        join.on("here.who = places.name").batch(nothing)(spark.createDataFrame([(1, "a", 0)], STREAM), 0)
    with pytest.raises(InputError, match="relation places has no column size; it has loc, name"):
        join.on("here.loc = places.size").explain()
    with pytest.raises(InputError, match="the time t is string: it must be a timestamp, or a long of milliseconds"):
        join.on("here.loc = places.loc").batch(nothing)(spark.createDataFrame([("a", "x")], "loc string, t string"), 0)
    with pytest.raises(InputError, match="time='t': the stream has no such column; it has loc"):
        join.on("here.loc = places.loc").batch(nothing)(spark.createDataFrame([("a",)], "loc string"), 0)
    with pytest.raises(InputError, match=r"batch\(then=…\) expects a function of a DataFrame and the batch id, not str"):
        join.batch(cast("Any", "out"))
    with pytest.raises(InputError, match=r"trace: s3a://x/t\.jsonl: a local file or folder is expected"):
        join.on("here.loc = places.loc").batch(nothing, trace="s3a://x/t.jsonl")
    with pytest.raises(
        InputError, match=r"on\('here.loc == == places.loc'\): this is no condition at column \d+: an operand is missing$"
    ):
        join.on("here.loc == == places.loc")
    with pytest.raises(InputError, match=r"adaptive\(…\): the function returned NoneType; it must return a DataFrame"):
        cq.adaptive(lambda _: cast("Any", None))(places)
    with pytest.raises(InputError, match=r"plan='fixed:here': plan, column 5"):
        join.batch(nothing, plan="fixed:here")
    with pytest.raises(InputError, match=r"relation\('other'\): how=None: choose inner, left, semi or anti"):
        join.relation("other", places, how=cast("Any", None))
    with pytest.raises(InputError, match="this DataFrame is the stream: leave it out"):
        join.relation("stream", spark.readStream.format("rate").load())
    spark.readStream.format("rate").load().createOrReplaceTempView("live")
    with pytest.raises(InputError, match=r"relation\('s'\): live is a stream: leave it out, and give its micro-batches"):
        join.relation("s", "live")
    for windowed in (join, cq.AdaptiveJoin(spark).relation("here")):
        versions = windowed.relation("s", lambda _: spark.table("live")).on("here.who = s.value")
        with pytest.raises(
            InputError, match=r"relation\('s'\): the function returned a stream; it must return a DataFrame of rows"
        ):
            versions.batch(nothing)(spark.createDataFrame([(1, "a", 0)], STREAM), 0)
    spark.catalog.dropTempView("live")
    with pytest.raises(InputError, match="idle_timeout='0s': '0s' is too short: it must be longer than 0"):
        join.relation("other", window="3s", idle_timeout="0s")
    with pytest.raises(InputError, match="window and time are for a relation over the stream"):
        join.relation("other", places, window="3s")
    with pytest.raises(InputError, match="choose adaptive, static, first, worst, or fixed:PLANS"):
        join.batch(nothing, plan="best")
    for at in (None, "t"):
        bare = cq.AdaptiveJoin(spark).relation("here", time=at).relation("places", places).on("here.loc = places.loc")
        with pytest.raises(InputError, match="lateness: only rows of windows can be late; give window=… to a relation"):
            bare.batch(nothing, lateness="1s")
    with pytest.raises(InputError, match=r"relation\('other', …\) expects a DataFrame, .*, not pandas\.DataFrame"):
        join.relation("other", cast("Any", pd.DataFrame()))
    with pytest.raises(InputError, match=r"give foreachBatch the function that \.batch\(then=…\) of this query returns"):
        cq.adaptive(lambda stream: stream)(places, 0)
    for wrong in ("0", -1, None):
        with pytest.raises(InputError, match=f"the id of a micro-batch is {wrong!r}: foreachBatch gives whole numbers from 0 on"):
            join.batch(nothing)(places, cast("Any", wrong))
    with pytest.raises(InputError, match=r"together\(…\) expects functions of a DataFrame and the batch id, not int"):
        cq.together(cast("Any", 3))
    with pytest.raises(InputError, match="joins of DataFrames have no size bounds"):
        join.batch(nothing, limits=cq.Limits(bound=1000))
    with pytest.raises(CheckpointError, match="the job continues at batch 3, but the join has no state"):
        join.relation("there", window="1s").on("here.loc = there.loc").batch(nothing)(
            spark.createDataFrame([(1, "a", 0)], STREAM), 3
        )


def test_no_table_is_read_to_display_a_join(spark: SparkSession) -> None:
    unreadable = spark.range(1).selectExpr("CAST(raise_error('read') AS string) AS loc")
    join = cq.AdaptiveJoin(spark).relation("here", window="5ms").relation("there", window="9ms").relation("places", unreadable)
    join = join.on("here.loc = places.loc AND here.loc < there.loc")
    assert "<p>here, there, places</p><p>here.loc = places.loc AND here.loc &lt; there.loc</p>" in join._repr_html_()
    assert "No micro-batch has been done yet" in join.batch(print)._repr_html_()
    assert repr(join) == "AdaptiveJoin(here, there, places on here.loc = places.loc AND here.loc < there.loc)"
    assert repr(join.batch(print, name="seen")) == "JoinRun('seen', before its first batch)"
    plain = cq.AdaptiveJoin(spark).relation("here").relation("places", unreadable).on("here.loc = places.loc").batch(print)
    assert "No micro-batch has been done yet" in plain._repr_html_()


def test_a_cartesian_product_is_warned_of(spark: SparkSession, places: DataFrame) -> None:
    join = cq.AdaptiveJoin(spark).relation("here").relation("places", places).relation("more", places).on("here.loc = places.loc")
    with pytest.warns(EngineWarning, match="relation more: no condition connects it with the stream"):
        join.batch(print)


def test_plans_of_windows_alone_before_the_first_rows(spark: SparkSession) -> None:
    join = cq.AdaptiveJoin(spark).relation("here", window="5ms").relation("there", window="9ms").on("here.loc = there.loc")
    assert "delta here: here » there[?loc]" in join.explain()
    assert join.batch(print).statistics()["relations"]["here"]["rows"] == 0


def test_plans_of_windows_are_explained_on_a_cluster(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a batch function writes the rows of windows, and needs a folder for them."""
    join = cq.AdaptiveJoin(spark).relation("here", window="5ms").relation("there", window="9ms").on("here.loc = there.loc")
    monkeypatch.setattr(spark.sparkContext, "master", "yarn")
    assert "delta here: here » there[?loc]" in join.explain()
    with pytest.raises(InputError, match="state=FOLDER is needed on a cluster"):
        join.batch(print)


@pytest.mark.long
@pytest.mark.skipif(BEFORE_4, reason="Spark 3.5 runs one job more with adaptive execution")
def test_joins_without_a_shuffle_are_not_cut_into_stages(spark: SparkSession, places: DataFrame) -> None:
    """Adaptive execution would run a job for each; afterwards the session has its previous setting."""
    join = cq.AdaptiveJoin(spark).relation("seen", time="t").relation("places", places).on("seen.loc = places.loc")
    frame, jobs = spark.createDataFrame([(1, "a", 0), (2, "b", 0)], STREAM), {}
    for adaptive in ("true", "false"):
        with settings(spark, {"spark.sql.adaptive.enabled": adaptive}):
            sink = Collected()
            function = join.batch(sink)
            for number in range(2):
                function(frame, number)
            assert spark.conf.get("spark.sql.adaptive.enabled") == adaptive
        assert function.last is not None
        assert [operator.by for operator in function.last.deltas[0].operators] == [None, "broadcast"]
        assert len(sink.batches[1]) == 3
        jobs[adaptive] = function.last.jobs
    assert jobs["true"] == jobs["false"]


# ------------------------------------------------------------------ the example
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def code_of(name: str) -> list[str]:
    """The lines of an example without its docstring and empty lines."""
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    return [line for line in text.split('"""', 2)[2].splitlines() if line.strip()]


def test_the_example_is_the_plain_job_but_for_five_lines() -> None:
    changed = list(unified_diff(code_of("plain_join.py"), code_of("adaptive_join.py"), n=0, lineterm=""))[2:]
    assert 0 < sum(line.startswith("+") for line in changed) <= 5
    assert sum(line.startswith("-") for line in changed) <= 5


@pytest.mark.long
def test_the_example_gives_what_the_plain_job_gives(spark: SparkSession, tmp_path: Path) -> None:
    from cqels_opt.bench.adaptive_join import Size, make

    make(tmp_path / "data", Size(famous=3, fanout=20, ordinary=40, batches=1, views=30, matching=0.5))
    found = {}
    for name in ("plain_join.py", "adaptive_join.py"):
        scope: dict[str, Any] = {"__name__": "example"}
        exec(compile((EXAMPLES / name).read_text(encoding="utf-8"), name, "exec"), scope)
        scope["start"](spark, str(tmp_path / "data"), str(tmp_path / name)).awaitTermination()
        found[name] = Counter(map(tuple, spark.read.parquet(str(tmp_path / name / "rows")).collect()))
    assert found["plain_join.py"] == found["adaptive_join.py"]
    assert len(found["plain_join.py"]) > 10
