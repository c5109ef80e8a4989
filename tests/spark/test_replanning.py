"""The behaviour of the optimizer of joins over micro-batches, by counts: of Spark jobs, samples, calls and plan changes."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as f

import cqels_opt as cq
from cqels_opt.bench.adaptive_join import Size, make
from cqels_opt.errors import InputError
from cqels_opt.relational.planner import Counts
from cqels_opt.spark.join_counts import row_width, static_counts
from cqels_opt.spark.join_query import JoinQuery
from cqels_opt.spark.session import settings

from .join_orders import Collected, bag, frame_of_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAMOUS = Size(famous=10, fanout=4_000, ordinary=40_000, batches=2, views=100, matching=0.1)
FEWER = Size(famous=10, fanout=1_000, ordinary=10_000, batches=2, views=100, matching=0.1)
"""For tests that compare answers alone."""


@pytest.fixture(scope="module", autouse=True)
def small(spark: SparkSession) -> Iterator[None]:
    """Nothing of these tests depends on generated code, which takes longer to compile than to run."""
    given = {"spark.sql.shuffle.partitions": "2", "spark.sql.codegen.wholeStage": "false", "spark.sql.ansi.enabled": "true"}
    with settings(spark, given):
        yield


def frame_of(spark: SparkSession, **columns: list[Any] | np.ndarray) -> DataFrame:
    """A DataFrame of numbers or texts."""
    return frame_of_table(spark, pa.table({name: pa.array(column) for name, column in columns.items()}))


def dimensions(spark: SparkSession) -> Callable[[DataFrame], DataFrame]:
    """A job with three tables whose keys are unique: all join orders have equally many rows."""
    tables = [frame_of(spark, **{f"k{n}": list(range(50)), f"v{n}": list(range(50))}) for n in range(3)]

    def query(views: DataFrame) -> DataFrame:
        for number, table in enumerate(tables):
            views = views.join(table, f"k{number}")
        return views

    return query


def keys_of(spark: SparkSession, seed: int, rows: int = 40) -> DataFrame:
    some = np.random.default_rng(seed)
    return frame_of(spark, **{f"k{n}": some.integers(0, 50, rows) for n in range(3)}).localCheckpoint()


def facts(spark: SparkSession, folder: Path, size: Size) -> tuple[Callable[[DataFrame], DataFrame], list[DataFrame]]:
    """The drifting job of the benchmark and its micro-batches: viewers are famous in the first and the third two, items in the others."""
    make(folder, size)
    follows, offers = (spark.read.parquet(f"file://{folder}/{name}") for name in ("follows", "offers"))
    files = sorted((folder / "views").iterdir())
    views = [spark.read.parquet(f"file://{file}").localCheckpoint() for file in files]
    return lambda v: v.join(follows, "who").join(offers, "item"), views


def ours(function: cq.JoinRun) -> int:
    """The jobs of the last micro-batch before the user's function ran."""
    assert function.last is not None
    return function.last.jobs


def notices(function: cq.JoinRun) -> tuple[str, ...]:
    assert function.last is not None
    return tuple(function.last.notices)


# ------------------------------------------------------------------ what it costs
@pytest.mark.long
def test_the_first_batch_is_sparks_own(spark: SparkSession) -> None:
    """Without any job; the relations are counted after it."""
    query, sink, frame = dimensions(spark), Collected(), keys_of(spark, 1)
    function = cq.adaptive(query).batch(sink)
    assert function.explain() == "There has been no micro-batch yet.\n"
    function(frame, 0)
    assert ours(function) == 0
    assert notices(function) == ("Spark's own plan: the first micro-batch",)
    assert sink.bags[0] == bag(query(frame))
    found = json.loads(function.explain("json", analyze=True))
    assert found["spark_plan"] == "no micro-batch has been planned yet"
    assert found["deltas"][0]["assumed"] and found["sample_age"] is None
    assert len({found["deltas"][0]["plan"], found["deltas"][0]["runner_up"]["plan"]}) == 2
    joins = [node["rows"] for plan in found["executed"] for node in plan["nodes"] if "Join" in node["node"]]
    assert max(joins) == sum(sink.bags[0].values())
    assert "Spark ran (SQL query " in function.explain(analyze=True)
    assert function.plans() == {} and function.switches == 0  # what EXPLAIN estimates changes nothing


@pytest.mark.long
def test_it_gets_out_of_the_way_where_the_order_does_not_matter(spark: SparkSession) -> None:
    """Between samples there is no job of ours, and samples get rare."""
    query, sink = dimensions(spark), Collected()
    function, sampled = cq.adaptive(query).batch(sink), []
    for number in range(11):
        function(keys_of(spark, number), number)
        function.wait_for_counts()
        assert notices(function)
        if ours(function):
            assert ours(function) == 1
            sampled.append(number)
    assert sampled == [1, 9]
    assert "the order does not matter" in notices(function)[0]
    assert "the order does not matter" in function.explain()
    assert function.switches == 0
    explained = function.explain(analyze=True)
    assert "by the last sample, 1 micro-batch before" in explained and "runner-up" in explained


def test_one_join_has_no_order_to_choose(spark: SparkSession) -> None:
    table = frame_of(spark, k0=[1, 2, 3])
    function = cq.adaptive(lambda views: views.join(table, "k0")).batch(Collected())
    jobs = []
    for number in range(4):
        function(keys_of(spark, number), number)
        function.wait_for_counts()
        jobs.append(ours(function))
    assert jobs == [0, 1, 0, 0]
    assert notices(function) == (
        "Spark's own plan: the order does not matter: the most expensive one costs 1.00 times the cheapest",
    )


@pytest.mark.long
def test_hot_keys_that_drift_change_the_plan(spark: SparkSession, tmp_path: Path) -> None:
    query, views = facts(spark, tmp_path, FAMOUS)
    sink, plans = Collected(), list[str]()
    function = cq.adaptive(query).batch(sink)
    for number, frame in enumerate(views):
        function(frame, number)
        function.wait_for_counts()
        assert sink.bags[number] == bag(query(frame))
        plans.append(next(iter(function.plans().values()), ""))
    first = ["follows" if 0 < plan.find("follows") < plan.find("offers") else "offers" for plan in plans]
    # In the first batch of a phase the saving can be too small for a switch; in the second one it adds up.
    assert [first[number] for number in (1, 3, 5, 7)] == ["offers", "follows", "offers", "follows"]
    assert function.switches == 3
    observed = [o.observed for delta in function.last.deltas for o in delta.operators] if function.last else []
    assert None not in observed or notices(function)


# ------------------------------------------------------------------ failures
def test_a_plan_that_fails_runs_again_as_spark_plans_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    query, sink, frame, calls = dimensions(spark), Collected(), keys_of(spark, 1), list[int]()

    def write(rows: DataFrame, number: int) -> None:
        calls.append(number)
        if len(calls) == 1:
            raise PySparkException("UNABLE_TO_ACQUIRE_MEMORY")
        sink(rows, number)

    function = cq.adaptive(query).batch(write, plan="worst")
    with caplog.at_level(logging.WARNING, "cqels_opt.join"):
        function(frame, 0)
    assert "run again with Spark's own plan: UNABLE_TO_ACQUIRE_MEMORY" in caplog.text
    assert function.last is not None
    assert function.last.fallback == "run again with Spark's own plan: UNABLE_TO_ACQUIRE_MEMORY"
    assert sink.bags[0] == bag(query(frame))
    assert calls == [0, 0]


def computed(joined: DataFrame) -> DataFrame:
    return joined.withColumn("twice", 2 * joined.follower).alias("j").where("j.twice = 6 AND rand(1) >= 0 AND tag = 't4'")


def ranked(joined: DataFrame) -> DataFrame:
    return joined.selectExpr("tag", "count(*) OVER (PARTITION BY tag) AS n").distinct().where("tag = 't4' AND n > 1")


FILTERS: dict[str, tuple[Callable[[DataFrame], DataFrame], int]] = {
    "of computed columns": (computed, 3),
    "within and above": (lambda joined: computed(joined.where("item > 3")), 3),
    "of a grouping key": (lambda joined: joined.groupBy("tag").count().where("tag = 't4' AND count > 1"), 30),
    "of an aggregate": (lambda joined: joined.groupBy("tag").count().where("count > 1"), 90),
    "of a partition": (ranked, 30),
    "of a left join": (lambda joined: joined.selectExpr("follower + 1 AS f", "place AS p").where("p IS NULL"), 60),
    "above a limit": (lambda joined: joined.orderBy("tag").limit(7).where("tag = 't4'"), 90),
}
"""What follows on joins, and how many of their rows a filter leaves where Spark pushes it down."""


@pytest.mark.long
@pytest.mark.parametrize("name", FILTERS)
def test_filters_above_computed_columns_are_applied_before_rows_are_counted(spark: SparkSession, name: str) -> None:
    """Spark pushes no filter past an operator that counts rows, so it would join all of them."""
    follows = frame_of(spark, who=[i for i in range(3) for _ in range(10)], follower=[*range(10)] * 3)
    offers = frame_of(spark, item=[3, 4, 5], tag=["t3", "t4", "t5"])
    places = frame_of(spark, tag=["t3"], place=["here"])
    views = frame_of(spark, who=[i % 3 for i in range(9)], item=[3 + i // 3 for i in range(9)]).localCheckpoint()
    above, rows = FILTERS[name]

    def query(views: DataFrame) -> DataFrame:
        return above(views.join(follows, "who").join(offers, "item").join(places, "tag", "left"))

    sink = Collected()
    function = cq.adaptive(query).batch(sink, plan="worst")
    function(views, 0)
    assert not notices(function)
    assert sink.bags[0] == bag(query(views))
    assert function.last is not None
    assert function.last.deltas[0].operators[-1].observed == rows


def test_nothing_is_counted_in_calls_within_the_users_own_function(spark: SparkSession) -> None:
    """Nobody would read the counts, and Spark pushes no filter past an operator that counts rows."""
    follows = frame_of(spark, who=[i for i in range(5) for _ in range(400)], follower=[*range(400)] * 5)
    offers = frame_of(spark, item=[*range(3, 9)], tag=[f"t{i}" for i in range(3, 9)])
    views = frame_of(spark, who=[i % 5 for i in range(2000)], item=[i % 1000 for i in range(2000)])
    joined = cq.adaptive(lambda v: v.join(follows, "who").join(offers, "item"))
    for _ in range(3):
        found = joined(views)
        assert joined._replanner is not None
        joined._replanner.wait()
    assert joined._replanner.reason is None
    assert "CollectMetrics" not in str(found._jdf.queryExecution().analyzed().toString())
    assert bag(found) == bag(views.join(follows, "who").join(offers, "item"))


def test_hidden_columns_of_a_join_can_be_named_in_any_order(spark: SparkSession) -> None:
    """Columns that USING has merged have no place in the result, but names."""
    follows = frame_of(spark, who=[i for i in range(5) for _ in range(400)], follower=[*range(400)] * 5)
    offers = frame_of(spark, item=[*range(3, 9)], tag=[f"t{i}" for i in range(3, 9)])
    views = frame_of(spark, who=[i % 5 for i in range(2000)], item=[i % 1000 for i in range(2000)])
    found: list[tuple[int, int]] = []

    def write(rows: DataFrame, number: int) -> None:
        found.append((rows.select("f.who", "o.tag").count(), rows.select(follows.who).count()))

    run = cq.adaptive(lambda v: v.alias("v").join(follows.alias("f"), "who").join(offers.alias("o"), "item")).batch(write)
    for number in range(3):
        run(views, number)
        run.wait_for_counts()
    assert found == [(4800, 4800)] * 3
    assert run.last is not None
    assert any(operator.observed for delta in run.last.deltas for operator in delta.operators), "Spark's own plan ran"


@pytest.mark.parametrize("error", [AnalysisException("no such column"), ValueError("a defect of the sink"), KeyError()])
def test_errors_of_the_users_function_are_raised_once(spark: SparkSession, error: Exception) -> None:
    calls = []

    def write(rows: DataFrame, number: int) -> None:
        calls.append(number)
        raise error

    with pytest.raises(type(error)):
        cq.adaptive(dimensions(spark)).batch(write, plan="worst")(keys_of(spark, 1), 0)
    assert calls == [0]


def test_an_error_of_sparks_own_plan_is_raised_once(spark: SparkSession) -> None:
    calls = []

    def write(rows: DataFrame, number: int) -> None:
        calls.append(number)
        raise PySparkException("the disk is full")

    with pytest.raises(PySparkException, match="the disk is full"):
        cq.adaptive(dimensions(spark)).batch(write)(keys_of(spark, 1), 0)
    assert calls == [0]


@pytest.mark.long
@pytest.mark.parametrize("plan", ["adaptive", "worst"])
def test_keys_that_cannot_be_computed_for_every_row(spark: SparkSession, plan: str) -> None:
    """A semi join drops the rows for which the key is an error, so Spark's plan runs; a sample has these rows."""
    good, table, other = frame_of(spark, s=["1", "2"]), frame_of(spark, k=[1, 2, 2]), frame_of(spark, s=["1", "2", "2"])

    def query(views: DataFrame) -> DataFrame:
        return views.join(good, "s", "semi").join(table, f.expr("CAST(s AS INT) = k")).join(other, "s")

    sink, frame = Collected(), frame_of(spark, s=["1", "2", "x"]).localCheckpoint()
    function = cq.adaptive(query).batch(sink, plan=plan)
    for number in range(3):
        function(frame, number)
        function.wait_for_counts()
        assert sum(sink.bags[number].values()) == 5
    assert "it could not be planned" in notices(function)[0]


def test_a_relation_that_cannot_be_counted(spark: SparkSession) -> None:
    """Its key is an error for rows that join with nothing. The job continues with Spark's plan, without a job of ours."""
    table, other = frame_of(spark, s=["1", "2", "x"], w=[1, 1, 2]), frame_of(spark, w=[1, 1])

    def query(views: DataFrame) -> DataFrame:
        return views.join(table, f.expr("k = CAST(CASE WHEN w = 2 THEN s ELSE '1' END AS INT)")).join(other, "w")

    function = cq.adaptive(query).batch(lambda rows, number: None)
    for number in range(4):
        function(frame_of(spark, k=[1, 2]).localCheckpoint(), number)
        function.wait_for_counts()
    assert notices(function) == ("Spark's own plan: the rows of relation_2 could not be counted",)
    assert ours(function) == 0


@pytest.mark.long
def test_an_action_that_reads_all_rows_corrects_the_estimates(spark: SparkSession) -> None:
    query, frame = dimensions(spark), keys_of(spark, 1)
    function = cq.adaptive(query).batch(lambda rows, number: rows.count(), plan="worst")
    function(frame, 0)
    assert function.last is not None
    (delta,) = function.last.deltas
    assert [operator.observed for operator in delta.operators] == [40] * 4


@pytest.mark.long
def test_a_table_over_jdbc(spark: SparkSession, tmp_path: Path) -> None:
    """It has neither files nor a name in the catalog."""
    jvm: Any = spark._jvm
    jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    place = {"url": f"jdbc:derby:memory:{tmp_path.name};create=true", "table": "KEYS"}
    properties = {"driver": "org.apache.derby.jdbc.EmbeddedDriver"}
    frame_of(spark, K=list(range(20)), W=[1] * 20).write.jdbc(**place, properties=properties)
    keys, other, sink = spark.read.jdbc(**place, properties=properties), frame_of(spark, W=[1, 1]), Collected()
    function = cq.adaptive(lambda views: views.join(keys, "K").join(other, "W")).batch(sink, plan="first")
    function(frame_of(spark, K=[1, 2, 30]).localCheckpoint(), 0)
    assert notices(function) == ()
    assert sum(sink.bags[0].values()) == 4


# ------------------------------------------------------------------ limits, empty batches, versions
@pytest.mark.long
def test_limits_of_rows_and_seconds(spark: SparkSession) -> None:
    query, sink = dimensions(spark), Collected()
    function = cq.adaptive(query).batch(sink, limits=cq.Limits(rows=30), plan="worst")
    function(keys_of(spark, 1, 30), 0)
    with pytest.warns(RuntimeWarning, match="31 rows of answers in a micro-batch, more than the limit of 30"):
        function(keys_of(spark, 1, 31), 1)
    function(keys_of(spark, 1, 1), 2)
    assert list(sink.bags) == [0]
    slow = cq.adaptive(query).batch(lambda rows, n: rows.where("java_method('java.lang.Thread', 'sleep', 2000L) > 0").count(),
                                    limits=cq.Limits(seconds=0.5))  # fmt: skip
    with pytest.warns(RuntimeWarning, match=r"longer than the limit of 0\.5 seconds"):
        slow(keys_of(spark, 1), 0)


@pytest.mark.long
def test_empty_batches(spark: SparkSession) -> None:
    query, sink = dimensions(spark), Collected()
    function, empty = cq.adaptive(query).batch(sink), keys_of(spark, 1).where("false").localCheckpoint()
    for number in range(3):
        function(empty, number)
        function.wait_for_counts()
    assert notices(function) == ("Spark's own plan: there are no rows in this micro-batch",)
    function(keys_of(spark, 1), 3)
    assert {number: sum(rows.values()) for number, rows in sink.bags.items()} == {0: 0, 1: 0, 2: 0, 3: 40}
    assert function.last is not None
    assert function.last.elements == 40


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each relation that is counted, in the order in which the counts end."""
    found: list[int] = []

    def counts(rows: DataFrame, columns: Any) -> Any:
        made = static_counts(rows, columns)
        found.append(made.rows)
        return made

    monkeypatch.setattr("cqels_opt.spark.replanning.static_counts", counts)
    return found


@pytest.mark.long
def test_a_new_version_of_a_relation_is_counted(spark: SparkSession, counted: list[int]) -> None:
    versions = [frame_of(spark, k=[1] * n) for n in (2, 30)]
    other, sink = frame_of(spark, k=[1, 1, 2]), Collected()
    join = cq.AdaptiveJoin(spark).relation("v").relation("a", lambda number: versions[number // 6]).relation("b", other)
    function = join.on("v.k = a.k AND v.k = b.k").select("v.k").batch(sink)
    for number in range(11):
        function(frame_of(spark, k=[1, 2]).localCheckpoint(), number)
        function.wait_for_counts()
    assert sorted(counted) == [2, 3, 30]
    assert [sum(rows.values()) for rows in sink.bags.values()] == [4] * 6 + [60] * 5
    assert function.statistics()["relations"]["a"]["rows"] == 30


@pytest.mark.long
def test_former_counts_are_used_while_a_table_that_has_changed_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    """A folder that grows is one table at different times. Joins are planned in the micro-batch in which that is seen, too."""
    folder, other = f"file://{tmp_path}/a", frame_of(spark, k=[1, 1, 2])
    frame_of(spark, k=[1] * 2).coalesce(1).write.parquet(folder)
    sink = Collected()
    function = cq.adaptive(lambda v: v.join(spark.read.parquet(folder), "k").join(other, "k")).batch(sink)
    rows, reasons = list[Any](), list[str]()
    for number in range(18):
        if number == 4:
            frame_of(spark, k=[1] * 30).coalesce(1).write.mode("append").parquet(folder)
        function(frame_of(spark, k=[1, 2]).localCheckpoint(), number)
        rows.append(function.statistics().get("relations", {}).get("a", {}).get("rows"))
        function.wait_for_counts()
        reasons += notices(function)
    assert [sum(bag.values()) for bag in sink.bags.values()] == [4] * 4 + [64] * 14
    assert rows == [None, *[2] * 16, 32]  # sampled in micro-batches 1, 9 and 17
    assert not any("counted" in reason for reason in reasons)


@pytest.mark.long
def test_a_relation_that_is_another_query_in_each_micro_batch_is_counted_more_and_more_rarely(
    spark: SparkSession, counted: list[int]
) -> None:
    """Such as rows of the driver from which the function makes a DataFrame. No micro-batch has a plan by its counts."""
    other, sink = frame_of(spark, k=[1, 1, 2]), Collected()
    function = cq.adaptive(lambda v: v.join(frame_of(spark, k=[1] * 7).localCheckpoint(), "k").join(other, "k")).batch(sink)
    for number in range(16):
        function(frame_of(spark, k=[1, 2]).localCheckpoint(), number)
        function.wait_for_counts()
    assert [sum(rows.values()) for rows in sink.bags.values()] == [14] * 16
    assert sorted(counted) == [3, 7, 7, 7, 7]  # in micro-batches 0, 1, 2 and 10
    assert function._replanner is not None  # type: ignore[attr-defined]
    assert len(function._replanner._counts) == 2  # type: ignore[attr-defined]


# ------------------------------------------------------------------ broadcasts
def hints_of(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The sides that rebuilt plans broadcast, as they are made."""
    sides, rebuilt = list[str | None](), JoinQuery.rebuilt

    def recording(query: JoinQuery, plan: Any, filters: Any, broadcast: Callable[[int], Any], counted: bool = True) -> Any:
        def side(place: int) -> Any:
            sides.append(broadcast(place))
            return sides[-1]

        return rebuilt(query, plan, filters, side, counted)

    monkeypatch.setattr(JoinQuery, "rebuilt", recording)
    return sides


@pytest.mark.long
def test_no_broadcast_where_spark_does_none(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    sides, query, sink, frame = hints_of(monkeypatch), dimensions(spark), Collected(), keys_of(spark, 1)
    cq.adaptive(query).batch(sink, plan="first")(frame, 0)
    assert sides == ["left", "left", "left"] or "right" in sides
    sides.clear()
    with settings(spark, {"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        cq.adaptive(query).batch(sink, plan="first")(frame, 1)
    assert sides == [None] * 3
    assert sink.bags[0] == sink.bags[1]


@pytest.mark.long
def test_wide_rows_are_not_broadcast(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """1,000 rows of 1.3 kB are more than a threshold of 1 MB; as many narrow ones are less."""
    ids = np.arange(1_000)
    letters = np.random.default_rng(1).integers(97, 123, (1_000, 1_300), np.uint8)
    texts = [bytes(row).decode() for row in letters]
    frame_of(spark, k=ids, text=texts).coalesce(1).write.parquet(f"file://{tmp_path}/wide")
    frame_of(spark, k=ids, n=ids).coalesce(1).write.parquet(f"file://{tmp_path}/narrow")
    wide, narrow = (spark.read.parquet(f"file://{tmp_path}/{name}") for name in ("wide", "narrow"))
    views = frame_of(spark, k=np.repeat(ids, 100)).localCheckpoint()
    sides, sink = hints_of(monkeypatch), list[int]()
    with settings(spark, {"spark.sql.autoBroadcastJoinThreshold": str(700_000)}):
        function = cq.adaptive(lambda v: v.join(narrow, "k").join(wide, "k")).batch(
            lambda rows, n: sink.append(rows.count()), plan="fixed:relation: relation » narrow[?k] » wide[?k]"
        )
        function(views, 0)
    assert sink == [100_000]
    assert sides == ["right", None]
    steps = json.loads(function.explain("json"))["deltas"][0]["operators"]
    assert [(step.get("by"), step.get("build")) for step in steps] == [(None, None), ("broadcast", "right"), ("sort merge", None)]
    assert row_width(wide._jdf.queryExecution().analyzed(), Counts(1_000, {})) > 500


@pytest.mark.long
def test_a_filtered_table_is_as_wide_as_its_rows(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """40 of 40,000 rows are broadcast like a table of these 40, and the other joins are priced alike."""
    ids = spark.range(0, 40_000, 1, 1)
    ids.selectExpr("id AS k", "id % 1000 AS day", "md5(cast(id AS string)) AS text").write.parquet(f"file://{tmp_path}/all")
    ids.selectExpr("id AS k2", "md5(cast(id AS string)) AS text2").write.parquet(f"file://{tmp_path}/other")
    some, other = (spark.read.parquet(f"file://{tmp_path}/{name}") for name in ("all", "other"))
    some.where("day = 1").write.parquet(f"file://{tmp_path}/some")
    views = spark.range(0, 20_000, 1, 1).selectExpr("id * 2 AS k", "id AS k2", "cast(id AS string) AS n").localCheckpoint()
    found, sides = list[Any](), hints_of(monkeypatch)
    with settings(spark, {"spark.sql.autoBroadcastJoinThreshold": "200000"}):
        for table in (some.where("day = 1"), spark.read.parquet(f"file://{tmp_path}/some")):
            sides.clear()
            function = cq.adaptive(lambda v, table=table: v.join(table.alias("dim"), "k").join(other.alias("other"), "k2"))
            run = function.batch(lambda rows, number: rows.collect(), plan="first")
            run(views, 0)
            planner = run._replanner.planner  # type: ignore[attr-defined]
            found.append((planner.widths["dim"], round(planner.model.broadcast_rows), [*sides]))
    (filtered, filtered_rows, filtered_sides), (whole, whole_rows, whole_sides) = found
    assert filtered <= whole < 200
    assert filtered_rows >= whole_rows > 1_000
    assert filtered_sides == whole_sides
    assert filtered_sides[0] == "right"


def joins_of(rows: DataFrame) -> list[str]:
    """The joins that Spark executes, without their keys: ``BroadcastHashJoin Inner BuildRight``."""
    plan = str(rows._jdf.queryExecution().executedPlan().toString())
    names = [line.strip("+- :*()0123456789") for line in plan.splitlines() if "Join " in line]
    return [
        " ".join(word for word in re.sub(r"\[[^]]*\],?", "", name).replace(",", "").split() if word != "false") for name in names
    ]


@pytest.mark.long
@pytest.mark.parametrize("hint", ["merge", "shuffle_hash", "broadcast"])
def test_hints_of_the_query_stay(spark: SparkSession, hint: str) -> None:
    """Spark reads them only from joins that have none; below filters and projections too."""
    some, other = frame_of(spark, k=list(range(200))), frame_of(spark, k2=list(range(300)), n=list(range(300)))
    views = frame_of(spark, k=list(range(50)), k2=list(range(50))).localCheckpoint()
    sides = {
        "right": lambda v: v.join(some, "k").join(other.hint(hint), "k2"),
        "right, filtered": lambda v: v.join(some, "k").join(other.hint(hint).select("k2", "n").where("n >= 0"), "k2"),
        "left": lambda v: v.hint(hint).join(some, "k").join(other, "k2"),
        "of a left join": lambda v: v.join(some, "k").join(other.hint(hint), "k2", "left"),
    }
    with settings(spark, {"spark.sql.adaptive.enabled": "false"}):
        for side, query in sides.items():
            found: list[list[str]] = []
            cq.adaptive(query).batch(lambda rows, number, found=found: found.append(joins_of(rows)), plan="first")(views, 0)
            hinted = 1 if side == "left" else 0  # plans are printed from the last join on
            assert found[0][hinted] == joins_of(query(views))[hinted], side
            assert any("Broadcast" in join for join in found[0]) or side == "of a left join", "the other join is broadcast"


# ------------------------------------------------------------------ persisted rows
def reads_cache(rows: DataFrame) -> bool:
    return "InMemoryTableScan" in str(rows._jdf.queryExecution().executedPlan().toString())


@pytest.mark.parametrize("part", ["join", "filter", "columns"])
def test_rows_that_the_user_has_persisted_are_read_from_the_cache(spark: SparkSession, part: str) -> None:
    """They are one relation: a join that is taken apart, or a filter that gets further conditions, is not in the cache."""
    one, two = (
        frame_of(spark, k=list(range(100)), g=[i % 10 for i in range(100)]),
        frame_of(spark, g=list(range(10)), n=list(range(10))),
    )
    made = {"join": one.join(two, "g").select("k", "n"), "filter": one.where("g > 3"), "columns": one.select("k")}[part].persist()
    third, views, found = frame_of(spark, k=[1, 4, 5]), frame_of(spark, k=[4, 5, 6]).localCheckpoint(), list[tuple[bool, int]]()
    try:
        function = cq.adaptive(lambda v: v.join(made.alias("made"), "k").where("made.k > 0").join(third, "k")).batch(
            lambda rows, number: found.append((reads_cache(rows), rows.count())), plan="first"
        )
        function(views, 0)
        assert notices(function) == ()
        assert "made" in function.explain()
    finally:
        made.unpersist()
    assert found == [(True, 2)]


def test_a_query_that_persists_its_own_joins_is_left_to_spark(spark: SparkSession) -> None:
    table, found = frame_of(spark, k=[1, 2]), list[bool]()
    queries: list[DataFrame] = []

    def query(views: DataFrame) -> DataFrame:
        queries.append(views.join(table, "k").persist())
        return queries[-1]

    function = cq.adaptive(query).batch(lambda rows, number: found.append(reads_cache(rows)), plan="first")
    function(frame_of(spark, k=[1, 1]).localCheckpoint(), 0)
    for rows in queries:
        rows.unpersist()
    assert found == [True]
    assert notices(function) == ("Spark's own plan: the query has persisted the rows of its joins",)


# ------------------------------------------------------------------ doors
@pytest.mark.long
def test_a_streaming_job_over_files(spark: SparkSession, tmp_path: Path) -> None:
    query, views = facts(spark, tmp_path, FAMOUS)
    sink = Collected()
    function = cq.adaptive(query).batch(sink)
    stream = spark.readStream.schema(views[0].schema).option("maxFilesPerTrigger", 2).parquet(f"file://{tmp_path}/views")
    started = (
        stream.writeStream.foreachBatch(function).trigger(availableNow=True).option("checkpointLocation", f"file://{tmp_path}/c")
    )
    started.start().awaitTermination()
    total = sum((rows for rows in sink.bags.values()), start=type(sink.bags[0])())
    assert total == sum((bag(query(frame)) for frame in views), start=type(total)())
    assert len(sink.bags) == 4


@pytest.mark.long
def test_calls_within_the_users_own_function(spark: SparkSession, tmp_path: Path) -> None:
    """Twice in one DataFrame as well."""
    query, views = facts(spark, tmp_path, FEWER)
    joined, found = cq.adaptive(query), list[Any]()

    def write(frame: DataFrame, number: int) -> None:
        found.append(bag(joined(frame)) == bag(query(frame)))
        both = joined(frame).union(joined(frame))
        found.append(both.count() == 2 * query(frame).count())

    stream = spark.readStream.schema(views[0].schema).option("maxFilesPerTrigger", 3).parquet(f"file://{tmp_path}/views")
    started = (
        stream.writeStream.foreachBatch(write).trigger(availableNow=True).option("checkpointLocation", f"file://{tmp_path}/c")
    )
    started.start().awaitTermination()
    assert found == [True] * 6


SQL = "SELECT v.who, f.follower, o.offer FROM {views} v JOIN follows f ON v.who = f.who JOIN offers o ON v.item = o.item"
QUERIES = {
    "plain": (SQL.format(views="views"), None),
    "in other case": (SQL.format(views="Views"), None),
    "an odd name": (SQL.format(views="`my ``views`"), None),
    "a common table expression": (f"WITH some AS (SELECT * FROM views WHERE who > 1) {SQL.format(views='some')}", None),
    "two of them": (
        f"WITH a AS (SELECT * FROM views WHERE who > 1), b AS (SELECT * FROM a WHERE item > 1) {SQL.format(views='b')}",
        None,
    ),
    "one of the same name": (f"WITH views AS (SELECT * FROM views WHERE who > 1) {SQL.format(views='views')}", None),
    "a subquery in FROM": (SQL.format(views="(SELECT * FROM views WHERE who > 1)"), None),
    "subqueries in WHERE": (
        f"{SQL.format(views='views')} WHERE v.who IN (SELECT who FROM follows) "
        "AND NOT EXISTS (SELECT 1 FROM offers x WHERE x.item = v.who - 1000000)",
        None,
    ),
    "the name of a view": (SQL.format(views="taken"), "taken"),
    "a stream in a subquery only": (
        "SELECT * FROM follows f JOIN offers o ON f.who = o.item WHERE f.who IN (SELECT item FROM views)",  # viewers are famous
        None,
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", QUERIES)
def test_queries_in_sql(spark: SparkSession, tmp_path: Path, name: str) -> None:
    _, views = facts(spark, tmp_path, FEWER)
    for table in ("follows", "offers"):
        spark.read.parquet(f"file://{tmp_path}/{table}").createOrReplaceTempView(table)
    frame_of(spark, other=[1]).createOrReplaceTempView("taken")
    text, stream = QUERIES[name]
    sink = Collected()
    function = cq.adaptive_sql(spark, text, stream=stream).batch(sink, plan="worst")
    for number in range(2):
        function(views[number], number)
    assert bool(notices(function)) == (name == "a stream in a subquery only")
    assert spark.table("taken").columns == ["other"]
    assert not spark.catalog.tableExists("views")
    for number in range(2):
        for view in ("views", "`my ``views`", "taken"):
            views[number].createOrReplaceTempView(view)
        expected = bag(spark.sql(text))
        for view in ("views", "my `views", "taken"):
            spark.catalog.dropTempView(view)
        assert sink.bags[number] == expected
        assert expected


# ------------------------------------------------------------------ mistakes
def test_threads_of_a_session_have_micro_batches_of_their_own(spark: SparkSession) -> None:
    """Each query finds its micro-batch under one name, which no other thread takes meanwhile, and leaves no view."""
    spark.createDataFrame([(i, i % 3) for i in range(9)], "who int, what int").createOrReplaceTempView("followers")
    text = "SELECT c.kind, f.what + {} AS what FROM clicks c JOIN followers f ON c.who = f.who"
    queries = [cq.adaptive_sql(spark, text.format(number), stream="clicks") for number in range(2)]
    frames = [spark.createDataFrame([(i, kind) for i in range(9)], "who int, kind string") for kind in "ab"]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(8):
            found = list(pool.map(lambda query, frame: {row["kind"] for row in query(frame).collect()}, queries, frames))
            assert found == [{"a"}, {"b"}]
    assert not spark.catalog.tableExists("clicks")
    spark.catalog.dropTempView("followers")


def test_mistakes_are_reported_in_one_sentence(spark: SparkSession) -> None:
    table = frame_of(spark, k=[1])
    table.createOrReplaceTempView("known")
    anything: Any = 3
    with pytest.raises(InputError, match="expects a function of the micro-batch, such as a lambda, not int"):
        cq.adaptive(anything)
    with pytest.raises(InputError, match=r"adaptive_sql: \[PARSE_SYNTAX_ERROR"):
        cq.adaptive_sql(spark, "SELECT * FROM views WHERE (")
    with pytest.raises(InputError, match="none of its names is unknown to Spark; name the one of the micro-batch by stream=NAME"):
        cq.adaptive_sql(spark, "SELECT * FROM known")
    with pytest.raises(
        InputError,
        match=r"one, two are unknown to Spark; name .* the others have to be tables or temporary views$",
    ):
        cq.adaptive_sql(spark, "SELECT * FROM one JOIN two USING (k) JOIN known USING (k)")
    stream = spark.readStream.format("rate").load()
    for given in (cq.adaptive(lambda v: v), cq.adaptive_sql(spark, "SELECT * FROM views")):
        for run in (given, given.batch(lambda rows, n: None)):
            with pytest.raises(InputError, match="this DataFrame is a stream, not a micro-batch of it"):
                run(stream, *(() if run is given else (0,)))
    stream.createOrReplaceTempView("live")
    two = cq.adaptive_sql(spark, "SELECT * FROM views v JOIN live l ON v.k = l.value", stream="views")
    for both in (cq.adaptive(lambda v: v.join(stream, v.k == stream.value)), two):
        with pytest.raises(InputError, match=r"^adaptive.*: the query joins the micro-batch with a streaming DataFrame"):
            both(table)
    spark.catalog.dropTempView("live")
    with pytest.raises(InputError, match="choose adaptive, static, first, worst, or fixed:PLANS"):
        cq.adaptive(lambda v: v).batch(lambda rows, n: None, plan="best")
    join = cq.AdaptiveJoin(spark).relation("v").relation("known", "known")
    frame = frame_of(spark, k=[1], other=[2]).localCheckpoint()
    for wrong in (
        join.on("v.k = known.kk"),
        join.on("v.k = known.k").select("v.kk"),
        join.on("v.k = known.k").where("v.kk > 1"),
        join.on("v.k = known.k").select("nothing(v.k)"),
    ):
        with pytest.raises(InputError, match="The relations: v has k, other; known has k") as raised:
            wrong.batch(lambda rows, n: None)(frame, 0)
        assert "\n" not in str(raised.value)
