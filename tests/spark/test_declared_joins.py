"""AdaptiveJoin beside Spark SQL: conditions as texts and as columns, tables by name, projections, windows, odd names of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f

import cqels_opt as cq
from cqels_opt.spark.join_rows import of_event
from cqels_opt.spark.session import settings

from .join_orders import Collected, Tables, bag, make_tables, micro_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    quick = {"spark.sql.shuffle.partitions": "2", "spark.sql.codegen.wholeStage": "false"}
    with settings(spark, {"spark.sql.session.timeZone": "Europe/Berlin", **quick}):
        found = make_tables(spark, tmp_path_factory.mktemp("tables"))
        spark.sql("DROP TABLE IF EXISTS declared_offers")
        found.offers.createOrReplaceTempView("declared_offers")
        yield found
        spark.catalog.dropTempView("declared_offers")


def star(spark: SparkSession, t: Tables) -> cq.AdaptiveJoin:
    join = cq.AdaptiveJoin(spark).relation("v").relation("f", t.follows).relation("o", "declared_offers")
    return join.on("v.who = f.who").on("v.item = o.item")


FROM = "FROM v JOIN f ON v.who = f.who JOIN o ON v.item = o.item"
DECLARED: dict[str, tuple[Callable[[SparkSession, Tables], cq.AdaptiveJoin], str]] = {
    "texts": (lambda s, t: star(s, t).select("v.id", "f.follower", "tag"), f"SELECT v.id, f.follower, tag {FROM}"),
    "columns": (
        lambda s, t: cq.AdaptiveJoin(s).relation("v").relation("f", t.follows).relation("o", t.offers)
        .on((f.col("v.who") == f.col("f.who")) & (f.lower("v.s") == f.lower("o.tag")))
        .where(f.col("v.id").between(2, 20) & ~f.col("f.w").isin("a", "b")).select("v.id", "f.follower", "o.tag"),
        "SELECT v.id, f.follower, o.tag FROM v JOIN f ON v.who = f.who JOIN o ON lower(v.s) = lower(o.tag) "
        "WHERE v.id BETWEEN 2 AND 20 AND NOT f.w IN ('a', 'b')",
    ),
    "structs of relations": (lambda s, t: star(s, t), f"SELECT struct(v.*) AS v, struct(f.*) AS f, struct(o.*) AS o {FROM}"),
    "all columns": (lambda s, t: star(s, t).select("v.*", "o.price"), f"SELECT v.*, o.price {FROM}"),
    "an aggregate": (lambda s, t: star(s, t).select("count(*)", "max(v.d) AS d"), f"SELECT count(*), max(v.d) AS d {FROM}"),
    "an equality in where": (
        lambda s, t: star(s, t).relation("p", t.people).where("f.follower = p.boss").select("v.id", "p.name"),
        f"SELECT v.id, p.name {FROM} JOIN p ON f.follower = p.boss",
    ),
    "left": (
        lambda s, t: star(s, t).relation("p", t.people, how="left").on("v.who = p.who AND p.boss > v.id").where("p.who IS NULL")
        .select("v.id", "f.follower", "p.name"),
        f"SELECT v.id, f.follower, p.name {FROM} LEFT JOIN p ON v.who = p.who AND p.boss > v.id WHERE p.who IS NULL",
    ),
    "anti": (
        lambda s, t: star(s, t).relation("p", t.people, how="anti").on("v.who = p.boss AND p.name = o.tag").select("v.id", "o.tag"),
        f"SELECT v.id, o.tag {FROM} LEFT ANTI JOIN p ON v.who = p.boss AND p.name = o.tag",
    ),
    "semi": (
        lambda s, t: star(s, t).relation("p", t.people, how="semi").on("f.follower = p.who").select("v.id", "f.follower"),
        f"SELECT v.id, f.follower {FROM} LEFT SEMI JOIN p ON f.follower = p.who",
    ),
    "struct fields": (
        lambda s, t: cq.AdaptiveJoin(s).relation("v").relation("o", t.offers).relation("f", t.follows)
        .on("v.st.f = o.st.f AND v.who = f.who").select("v.id", "o.st.g"),
        "SELECT v.id, o.st.g FROM v JOIN o ON v.st.f = o.st.f JOIN f ON v.who = f.who",
    ),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", DECLARED)
def test_a_declared_join(spark: SparkSession, tables: Tables, name: str) -> None:
    build, sql = DECLARED[name]
    frame = tables.batches[-1]
    for view, table in (("v", frame), ("f", tables.follows), ("o", tables.offers), ("p", tables.people)):
        table.createOrReplaceTempView(view)
    expected = spark.sql(sql)
    for plan in ("worst", "first"):
        sink = Collected()
        function = build(spark, tables).batch(sink, plan=plan)
        function(frame, 0)
        assert sink.bags[0] == bag(expected)
        assert sink.columns == expected.columns
        assert function.last is not None
        assert not function.last.notices
    assert sum(sink.bags[0].values())


# ------------------------------------------------------------------ windows
SEEN = "k int, time timestamp, __at int, __late string, `a b` int"


def seen(spark: SparkSession, numbers: list[int]) -> Any:
    rows = [(n % 2, datetime(2024, 3, 31, 1, 30, n), 77, "no", n) for n in numbers]
    return micro_batch(spark, rows, SEEN)


def windows(spark: SparkSession, t: Tables) -> cq.AdaptiveJoin:
    join = cq.AdaptiveJoin(spark).relation("s", window="3s", time="time").relation("r", window="2s", time="time")
    return join.relation("p", t.people.where("who IS NOT NULL")).on("s.k = r.k AND s.k = p.who")


WINDOWED = {
    "count(*)": ("count(*)", "count(*)"),
    "all columns": ("s.*", "s.*"),
    "own columns": ("s.__at, r.__late, s.`a b`, p.name", "s.__at, r.__late, s.`a b`, p.name"),
    "the event time": ("time, s.time AS seen, r.`a b`", "greatest(s.time, r.time) AS time, s.time AS seen, r.`a b`"),
    "an expression of the event time": (
        "hour(time) AS h; second(TIME) - second(s.time) AS d",
        "hour(greatest(s.time, r.time)) AS h, second(greatest(s.time, r.time)) - second(s.time) AS d",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", WINDOWED)
def test_windows_over_a_stream_with_odd_columns(spark: SparkSession, tables: Tables, name: str) -> None:
    columns, sql = WINDOWED[name]
    numbers = [[1, 2, 3, 4, 5], [], [6, 6, 7, 8]]
    sink = Collected()
    select = columns.split("; ") if ";" in columns else columns.split(", ")
    function = windows(spark, tables).select(*select).batch(sink, plan="worst")
    found = []
    for number, some in enumerate(numbers):
        function(seen(spark, some), number)
        found.append(sink.bags[number])
    seen(spark, [n for some in numbers for n in some]).createOrReplaceTempView("seen")
    tables.people.createOrReplaceTempView("p")
    joined = (
        f"SELECT {sql} FROM seen s JOIN seen r ON s.k = r.k JOIN p ON s.k = p.who "
        "WHERE s.time < r.time + INTERVAL 2 SECONDS AND r.time < s.time + INTERVAL 3 SECONDS"
    )
    expected = bag(spark.sql(joined))
    if name == "count(*)":
        assert [len(rows) for rows in found] == [1, 1, 1]
        assert sum(row[0] for rows in found for row in rows) == next(iter(expected))[0]
    else:
        assert found[0] + found[1] + found[2] == expected
    assert expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hour(time)", "hour(`event time`.`time`)"),
        ("s.time", "s.time"),
        ("`time` AS time", "`event time`.`time` AS time"),
        ("s.k time", "s.k time"),
        ("TIME '10:00:00'", "TIME '10:00:00'"),
        ("concat('time', time)", "concat('time', `event time`.`time`)"),
        ("CAST(s.k AS time)", "CAST(s.k AS time)"),
    ],
)
def test_the_event_time_in_expressions(text: str, expected: str) -> None:
    assert of_event(text) == expected
