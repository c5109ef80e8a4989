"""AdaptiveJoin beside Spark SQL: conditions as texts and as columns, tables by name, projections, windows, odd names of columns."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, cast

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as f

import cqels_opt as cq
from cqels_opt.errors import CheckpointError, InputError
from cqels_opt.spark.column_text import text_of
from cqels_opt.spark.join_rows import of_event
from cqels_opt.spark.session import settings
from cqels_opt.spark.versions import BEFORE_4
from cqels_opt.trace.records import read_trace

from .join_orders import Collected, Tables, bag, make_tables, micro_batch

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


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
    "a left join with a condition on its left side": (
        lambda s, t: star(s, t).relation("p", t.people, how="left").on("v.who = p.who AND v.d IS NULL").select("v.id", "p.name"),
        f"SELECT v.id, p.name {FROM} LEFT JOIN p ON v.who = p.who AND v.d IS NULL",
    ),
    "an anti join with a condition on its left side": (
        lambda s, t: star(s, t).relation("p", t.people, how="anti").on("v.who = p.who AND v.id > 12").select("v.id", "f.follower"),
        f"SELECT v.id, f.follower {FROM} LEFT ANTI JOIN p ON v.who = p.who AND v.id > 12",
    ),
    "an ON for two joins": (
        lambda s, t: cq.AdaptiveJoin(s).relation("v").relation("o", t.offers).relation("p", t.people, how="left")
        .on("v.item = o.item AND v.who = p.who AND o.price > 1").select("v.id", "o.price", "p.name"),
        "SELECT v.id, o.price, p.name FROM v JOIN o ON v.item = o.item LEFT JOIN p ON v.who = p.who AND o.price > 1",
    ),
    "columns with literals": (
        lambda s, t: cq.AdaptiveJoin(s).relation("v").relation("f", t.follows)
        .on((f.col("v.who") == f.col("f.who")) & (f.when(f.col("v.id") > 9, f.col("v.d")).otherwise(1.5) == f.col("f.d")))
        .where((f.col("v.day") < f.lit(date(2024, 10, 1))) | (f.expr("v.s = 'a' OR v.s = 'b'") & (f.col("v.id") > 3)))
        .select(f.col("v.id"), f.upper("f.w").alias("upper w"), "f.follower"),
        "SELECT v.id, upper(f.w) AS `upper w`, f.follower FROM v JOIN f ON v.who = f.who AND "
        "(CASE WHEN v.id > 9 THEN v.d ELSE 1.5D END) = f.d WHERE v.day < DATE '2024-10-01' OR ((v.s = 'a' OR v.s = 'b') AND v.id > 3)",
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
    sink = Collected()
    function = build(spark, tables).batch(sink, plan=("worst", "first")[[*DECLARED].index(name) % 2])
    function(frame, 0)
    assert sink.bags[0] == bag(expected)
    assert sink.columns == expected.columns
    assert function.last is not None
    assert not function.last.notices
    assert sum(sink.bags[0].values())


@pytest.mark.skipif(
    BEFORE_4, reason="in Spark 3.5 a column's tree is of Catalyst, which prints the text of an expression in another form"
)
def test_columns_as_texts(spark: SparkSession) -> None:
    """Their own texts have no quotation marks, and operators before their operands."""
    key, day = f.col("s.k"), f.lit(date(2024, 3, 31))
    texts = {
        "(s.day = DATE '2024-03-31')": f.col("s.day") == day,
        "(s.`a b` <=> 'it\\'s')": f.col("s.`a b`").eqNullSafe("it's"),
        "CASE WHEN (s.k > 1) THEN 1 ELSE 0 END": f.when(key > 1, 1).otherwise(0),
        "((s.k = 1 or s.k = 2) AND (s.k IN (1, 3)))": f.expr("s.k = 1 or s.k = 2") & key.isin(1, 3),
        "(s.a[0] = CAST(s.k AS BIGINT))": f.col("s.a")[0] == key.cast("long"),
        "(NOT (s.k = CAST('NaN' AS DOUBLE)))": ~(key == float("nan")),
        "upper(s.k) AS `a b`": f.upper(key).alias("a b"),
        "count(DISTINCT s.k, s.`a b`) AS `n`": f.count_distinct("s.k", "s.`a b`").alias("n"),
        "TRY_CAST(s.k AS INT)": key.try_cast("int"),
        "(s.k = '$' '{user}')": key == "${user}",
        "(NOT (s.k IS NOT NULL AND FALSE))": ~key.isin([]),
        "s.*": f.col("s.*"),
        "s.k + 1 AS q": f.expr("s.k + 1 AS q -- one more"),
        "posexplode(s.a) AS (`i`, `x`)": f.posexplode("s.a").alias("i", "x"),
        "sum(s.k) OVER (PARTITION BY s.j ORDER BY s.k DESC NULLS LAST ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)": f.sum(key).over(
            Window.partitionBy("s.j").orderBy(key.desc()).rowsBetween(-1, 0)
        ),
        "count(CASE WHEN (s.k > 1) THEN 1 END) OVER ()": f.count(f.when(key > 1, 1)).over(Window.partitionBy()),
    }
    for text, column in texts.items():
        assert text_of(spark, column, "on") == text
    found = text_of(spark, f.exists(f.array("s.k"), lambda one: one == f.col("p.k")), "on")
    assert re.fullmatch(r"exists\(array\(s\.k\), (x_\d+) -> \(\1 = p\.k\)\)", found)
    refused: dict[str, Any] = {
        r"select\(…\) expects a string or a Column, not int": 3,
        r"select\(' '\): the text is empty": " ",
        r"select\(…\): Spark SQL has no text for UpdateFields of a Column: add the column to the DataFrame before": f.col(
            "s.st"
        ).withField("a", f.lit(1)),
        "no text for the function timestampdiff of a Column": f.timestamp_diff("HOUR", f.col("s.a"), f.col("s.b")),
        "no text for a function of Python of a Column": f.udf(len)("s.k"),
        r"the column id is one of a DataFrame: name it with its relation, as in col\('RELATION\.id'\)": spark.range(1).id == 0,
    }
    for why, given in refused.items():
        with pytest.raises(InputError, match=why):
            text_of(spark, given, "select")


NO_EQUALITY = (
    "v.id < p.boss",
    "v.s <=> p.name",
    "v.who = p.who OR v.id = p.boss",
    "v.who BETWEEN p.boss AND 3",
    "NOT v.who = p.who",
)


@pytest.mark.long
@pytest.mark.parametrize("how", ["left", "semi", "anti"])
def test_right_sides_without_an_equality(spark: SparkSession, tables: Tables, how: str) -> None:
    """Of the micro-batch, and of a window, in turn."""
    frame = tables.batches[-1]
    frame.createOrReplaceTempView("v")
    tables.people.createOrReplaceTempView("p")
    columns = ["v.id", "v.s"] + (["p.name"] if how == "left" else [])
    for number, condition in enumerate(NO_EQUALITY):
        window = {"window": "now", "time": "id"} if number % 2 else {}
        join = cq.AdaptiveJoin(spark).relation("v", **window).relation("p", tables.people, how=how).on(condition).select(*columns)
        sink = Collected()
        join.batch(sink)(frame, 0)
        sql = f"SELECT {', '.join(columns)} FROM v LEFT {'' if how == 'left' else how.upper()} JOIN p ON {condition}"
        assert sink.bags[0] == bag(spark.sql(sql)), condition


BRACKETED = (
    "v.b = (p.b IS NULL)",
    "(v.k = 1) = (p.k = 1)",
    "v.b = (NOT p.b)",
    "v.b = (p.k IN (1, 5))",
    "v.b = (p.s LIKE 'o%')",
)


@pytest.mark.long
def test_equalities_of_bracketed_conditions(spark: SparkSession) -> None:
    """With and without a window, as texts and as columns."""
    v = micro_batch(spark, [(1, 1, True), (2, 2, False), (3, None, None)], "id long, k int, b boolean")
    p = micro_batch(spark, [("one", 1, True), ("two", 5, False), ("none", None, None)], "s string, k int, b boolean")
    v.createOrReplaceTempView("v")
    p.createOrReplaceTempView("p")
    for number, condition in enumerate(BRACKETED):
        window = {} if number == 1 else {"window": "now", "time": "id"}
        left, _, right = condition.partition(" = (p")
        given = f.expr(left) == f.expr(f"p{right[:-1]}") if number == 3 else condition
        join = cq.AdaptiveJoin(spark).relation("v", **window).relation("p", p).on(given).select("v.id", "p.s")
        sink = Collected()
        join.batch(sink)(v, 0)
        assert sink.bags[0] == bag(spark.sql(f"SELECT v.id, p.s FROM v JOIN p ON {condition}")), condition
        assert sink.bags[0], condition


@pytest.mark.parametrize("how", ["left", "semi", "anti"])
def test_columns_named_as_keywords(spark: SparkSession, how: str) -> None:
    """``end`` is not that of a CASE: the equality of two inner relations after it is the key of their join, not part of the left join."""
    v = spark.createDataFrame([(1, "x", 5), (1, "y", 5), (2, "x", 50)], "who int, item string, at int")
    o = spark.createDataFrame([("x", 10), ("z", 20)], "item string, `case` int")
    p = spark.createDataFrame([(1, 10, "Ann")], "who int, `end` int, name string")
    selected = ["v.who", "v.item", "o.case", *(["p.name"] if how == "left" else [])]
    plain = v.alias("v").join(o.alias("o"), f.expr("v.item = o.item"))
    plain = plain.join(p.alias("p"), f.expr("v.who = p.who AND v.at < p.end"), f"left_{how}" if how != "left" else how)
    for window in ({}, {"window": "now", "time": "at"}):
        join = cq.AdaptiveJoin(spark).relation("v", **window).relation("o", o).relation("p", p, how=how)
        join, sink = join.on("v.who = p.who AND v.at < p.end AND v.item = o.item").select(*selected), Collected()
        join.batch(sink)(v, 0)
        assert sink.bags[0] == bag(plain.selectExpr(*selected))


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


@pytest.mark.long
def test_rows_that_a_filter_drops_advance_the_time(spark: SparkSession) -> None:
    """A row is late after a later row of its stream, whatever relations have of that."""
    join = cq.AdaptiveJoin(spark).relation("s", window="10s", time="at").where("s.k > 0").select("s.id")
    sink = Collected()
    run = join.batch(sink)
    for number, row in enumerate([(1, 0, datetime(2024, 3, 31, 3)), (2, 5, datetime(2024, 3, 31, 2))]):
        run(micro_batch(spark, [row], "id int, k int, at timestamp"), number)
    assert not any(sink.bags.values())
    assert run.last is not None
    assert run.last.late == 1


def test_the_trace_has_the_frontier_from_the_first_rows_on(spark: SparkSession) -> None:
    """That after the micro-batch, by which the next one is late."""
    join = cq.AdaptiveJoin(spark).relation("v", window="1s", time="id")
    function, found = join.batch(Collected(), lateness=5), []
    for number, rows in enumerate(([], [(100,)], [(94,), (120,)], [])):
        function(micro_batch(spark, rows, "id long"), number)
        assert function.last is not None
        found.append((function.last.frontier, function.last.late))
    assert found == [(None, 0), (95, 0), (115, 1), (115, 0)]


@pytest.mark.long
def test_arrays_that_may_have_nulls_are_keys(spark: SparkSession) -> None:
    v, p = micro_batch(spark, [(1, [1])], "id long, ar array<int>"), spark.sql("SELECT array(1) AS ar")
    sink = Collected()
    join = cq.AdaptiveJoin(spark).relation("v", window="now", time="id").relation("p", p).on("v.ar = p.ar").select("v.id")
    join.batch(sink)(v, 0)
    assert [*sink.bags[0].elements()] == [(1,)]


def rows_of(join: cq.AdaptiveJoin, frame: DataFrame) -> list[tuple[Any, ...]]:
    """The answers of one micro-batch, in ascending order."""
    sink = Collected()
    join.batch(sink)(frame, 0)
    return sorted(sink.bags[0].elements())


def test_keys_of_maps_have_their_case(spark: SparkSession) -> None:
    v = spark.sql("SELECT 1L AS id, map('Color', 'red', 'color', 'blue') AS m, named_struct('Q', 'red') AS st").localCheckpoint()
    p = spark.sql("SELECT * FROM VALUES ('red', 'R'), ('blue', 'B') AS x(c, n)")
    over = cq.AdaptiveJoin(spark).relation("v", window="now", time="id").relation("p", p).select("p.n")
    assert rows_of(over.on("v.m.Color = p.c"), v) == [("R",)]
    assert rows_of(over.on("v.m.color = P.C"), v) == [("B",)]
    assert rows_of(over.on("v.ST.q = p.c"), v) == [("R",)]


def test_keys_of_rows_that_a_filter_drops_may_be_errors(spark: SparkSession) -> None:
    v = micro_batch(spark, [(1, "num", "7"), (2, "text", "abc")], "id long, kind string, s string")
    over = cq.AdaptiveJoin(spark).relation("v", window="now", time="id").relation("p", spark.sql("SELECT 7 AS k, 'seven' AS n"))
    join = over.on("CAST(v.s AS int) = p.k").where("v.kind = 'num'").select("v.id", "p.n")
    with settings(spark, {"spark.sql.ansi.enabled": "true"}):
        assert rows_of(join, v) == [(1, "seven")]


def test_texts_that_look_like_variables_are_literals(spark: SparkSession) -> None:
    """Spark replaces ${…} in the texts that it parses."""
    v, p = micro_batch(spark, [(1, "${user}"), (2, "x")], "id long, s string"), spark.sql("SELECT '$' '{user}' AS s")
    join = cq.AdaptiveJoin(spark).relation("v").relation("p", p).on(f.col("v.s") == f.col("p.s")).where(f.col("v.s") == "${user}")
    assert rows_of(join.select(f.col("v.id"), f.lit("costs ${5}").alias("c")), v) == [(1, "costs ${5}")]


def test_times_of_windows_keep_their_microseconds(spark: SparkSession) -> None:
    """Whatever the session writes into the files of others."""
    v = micro_batch(
        spark, [(i, datetime(2024, 5, 1, 1, 1, 1, us)) for i, us in ((1, 123_456), (2, 123_789))], "id long, at timestamp"
    )
    join = (
        cq.AdaptiveJoin(spark).relation("a", window="10ms", time="id").relation("b", window="10ms", time="id").on("a.at = b.at")
    )
    name = "spark.sql.parquet.outputTimestampType"
    with settings(spark, {name: "TIMESTAMP_MILLIS"}):
        assert rows_of(join.select("a.id", "b.id AS other"), v) == [(1, 1), (2, 2)]
        assert spark.conf.get(name) == "TIMESTAMP_MILLIS"


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_numbers_that_no_timestamp_has_are_no_times(spark: SparkSession, ansi: str) -> None:
    """Such as a largest number for rows without an end. They end no job and do not advance the time of the others."""
    times = [[1, 2**63 - 1, 2], [3, -(2**63), 2**63 // 1000 + 1], [4]]
    sink = Collected()
    join = cq.AdaptiveJoin(spark).relation("a", window="1ms").relation("b", window="10ms").on("a.k = b.k")
    run = join.select("a.t", "b.t AS other").batch(sink)
    rejected = []
    with settings(spark, {"spark.sql.ansi.enabled": ansi}):
        for number, some in enumerate(times):
            run(spark.createDataFrame([(1, at) for at in some], "k int, t long"), number)
            assert run.last is not None
            rejected.append((run.last.rejected, run.last.late))
    assert rejected == [(1, 0), (2, 0), (0, 0)]
    assert [sorted(bag.elements()) for bag in sink.bags.values()] == [
        [(1, 1), (2, 1), (2, 2)],
        [(3, 1), (3, 2), (3, 3)],
        [(4, 1), (4, 2), (4, 3), (4, 4)],
    ]


def numbered(spark: SparkSession, number: int) -> DataFrame:
    """A row with a key of its own in all micro-batches, and one that they share."""
    columns = "id int, k int, t long, at timestamp, x double"
    rows = [(number * 100 + i, 1, number * 3, datetime(2024, 5, 1, 12), -0.0) for i in range(20)]
    return spark.createDataFrame(rows, columns).coalesce(1)


def itself(spark: SparkSession, selected: str, condition: str = "a.id = b.id") -> cq.AdaptiveJoin:
    join = cq.AdaptiveJoin(spark).relation("a", window="10ms").relation("b", window="10ms")
    return join.on("a.k = b.k").where(condition).select(selected)


@pytest.mark.parametrize("condition", ["a.x >= 0", "a.x = 0.0", "a.x IN (0.0D, 5D)", "a.x < 0.0"])
def test_zeros_with_a_sign_are_zeros_in_kept_rows(spark: SparkSession, condition: str) -> None:
    """Parquet's filter by dictionaries takes them for other numbers."""
    got = Collected()
    itself(spark, "a.id", f"a.id = b.id AND {condition}").batch(got)(numbered(spark, 0), 0)
    assert got.bags[0].total() == (0 if "<" in condition else 20)


def test_plans_of_windows_follow_settings(spark: SparkSession) -> None:
    """A plan that was analyzed in an earlier micro-batch has its time zone."""
    hours: list[int] = []
    run = itself(spark, "hour(a.at) AS hour").batch(lambda rows, number: hours.extend({row.hour for row in rows.collect()}))
    wanted = []
    for number, zone in enumerate(["Europe/Berlin", "America/New_York", "Asia/Tokyo", "UTC"]):
        rows = numbered(spark, number).localCheckpoint()
        with settings(spark, {"spark.sql.session.timeZone": zone}):
            run(rows, number)
            wanted += [row[0] for row in rows.selectExpr("hour(at)").limit(1).collect()]
    assert hours == wanted
    assert len({*hours}) == 4


@pytest.mark.skipif(BEFORE_4, reason="Spark 3.5 has no functions in SQL")
def test_plans_of_windows_follow_functions(spark: SparkSession) -> None:
    """Functions in SQL are part of an analyzed plan."""
    added: list[int] = []
    run = itself(spark, "tests_added(a.id) - a.id AS more").batch(
        lambda rows, _: added.extend({row.more for row in rows.collect()})
    )
    for number in range(4):
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION tests_added(x INT) RETURNS INT RETURN x + {number}")
        run(numbered(spark, number), number)
    spark.sql("DROP TEMPORARY FUNCTION tests_added")
    assert added == [0, 1, 2, 3]


@pytest.mark.parametrize("ignored", ["true", "false"])
def test_a_batch_that_its_function_refused_is_done_again(spark: SparkSession, tmp_path: Path, ignored: str) -> None:
    """The second attempt writes other files into the same folder."""
    found, broken = dict[int, int](), [0, 1]

    def then(frame: DataFrame, number: int) -> None:
        if number in broken:
            broken.remove(number)
            raise ValueError("the database is away")
        found[number] = frame.count()

    join = (
        cq.AdaptiveJoin(spark)
        .relation("a", window="10ms")
        .relation("b", window="10ms")
        .on("a.k = b.k")
        .select("a.id", "b.id AS other")
    )
    run = join.batch(then, state=tmp_path / "state")
    with settings(spark, {"spark.sql.files.ignoreMissingFiles": ignored}):
        for number, rows in enumerate([[(1, 1, 0), (2, 1, 3)], [(3, 1, 5)], [(4, 1, 8)]]):
            frame = micro_batch(spark, rows, "id long, k int, t long")
            if number < 2:
                with pytest.raises(ValueError, match="the database is away"):
                    run(frame, number)
            run(frame, number)
    assert found == {0: 4, 1: 5, 2: 7}


def pairs_of(spark: SparkSession) -> cq.AdaptiveJoin:
    join = cq.AdaptiveJoin(spark).relation("a", window="10ms").relation("b", window="10ms")
    return join.on("a.k = b.k").select("a.id", "b.id AS other")


PAIRED = [[(1, 1, 0), (2, 1, 3)], [(3, 1, 5)], [(4, 1, 8)]]


def paired(spark: SparkSession, number: int) -> DataFrame:
    return micro_batch(spark, PAIRED[number], "id long, k int, t long")


@pytest.mark.long
def test_an_earlier_batch_is_done_again_by_the_same_object(spark: SparkSession, tmp_path: Path) -> None:
    found = dict[int, list[Any]]()
    run = pairs_of(spark).batch(lambda frame, number: found.update({number: sorted(frame.collect())}), state=tmp_path / "state")
    for number in (0, 1, 2):
        run(paired(spark, number), number)
    first = dict(found)
    for number in (1, 2):
        run(paired(spark, number), number)
    assert found == first


@pytest.mark.parametrize("harm", ["missing", "empty", "other", "more"])
def test_rows_of_windows_that_were_changed_are_refused(spark: SparkSession, tmp_path: Path, harm: str) -> None:
    """Spark reads the files that are there: answers would be missing without a word."""
    done = list[int]()
    run = pairs_of(spark).batch(lambda _, number: done.append(number), state=tmp_path / "state")
    run(paired(spark, 0), 0)
    file = next((tmp_path / "state" / "rows").glob("*/part*.parquet"))
    match harm:
        case "missing":
            file.unlink()
        case "empty":
            file.write_bytes(b"")
        case "other":
            file.rename(file.with_name("part-of-another.parquet"))
        case "more":
            file.with_name("part-of-another.parquet").write_bytes(file.read_bytes())
    why = r"rows/000000000000/part.*: the file of rows .*: restore it, or use another folder"
    with pytest.raises(CheckpointError, match=why):
        run(paired(spark, 1), 1)
    with pytest.raises(CheckpointError, match=why):
        pairs_of(spark).batch(lambda _, number: done.append(number), state=tmp_path / "state")(paired(spark, 1), 1)
    assert done == [0]


def test_a_trace_that_is_not_of_the_join_stays(spark: SparkSession, tmp_path: Path) -> None:
    trace = tmp_path / "notes.txt"
    trace.write_text("my notes\n")
    alone = cq.adaptive(lambda rows: rows.join(spark.range(3), "id"))
    for join in (pairs_of(spark), alone):
        with pytest.raises(InputError, match=r"notes\.txt: it is not empty, and no run of cqels-opt has written it"):
            join.batch(Collected(), trace=trace)
        with pytest.raises(InputError, match="it is a folder, and a file is expected"):
            join.batch(Collected(), trace=tmp_path)
    assert trace.read_text() == "my notes\n"


@pytest.mark.parametrize("kept", [True, False])
def test_a_trace_is_continued_and_of_one_join(spark: SparkSession, tmp_path: Path, kept: bool) -> None:
    """Without a state, the lines of the job before the restart stay."""
    trace, state = tmp_path / "t.jsonl", tmp_path / "state" if kept else None
    first = pairs_of(spark).batch(Collected(), trace=trace, state=state)
    first(paired(spark, 0), 0)
    with pytest.raises(InputError, match=r"t\.jsonl: it has the output of the run with the checkpoint"):
        pairs_of(spark).batch(Collected(), trace=trace, state=tmp_path / "another")
    del first
    gc.collect()
    again = pairs_of(spark).batch(Collected(), trace=trace, state=state, allow_gap=True)
    again(paired(spark, 1), 1)
    assert [record.batch for record in read_trace(trace)] == [0, 1]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"limits": 5}, r"limits=5: give Limits\("),
        ({"limits": None}, r"limits=None: give Limits\("),
        ({"plan": None}, "plan=None: choose adaptive"),
        ({"name": 3}, "name=3: a text is expected"),
        ({"allow_gap": "no"}, "allow_gap='no': True or False is expected"),
    ],
)
def test_arguments_of_other_types(spark: SparkSession, wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        pairs_of(spark).batch(Collected(), **wrong)


def test_what_is_asked_of_explain(spark: SparkSession) -> None:
    run = cq.adaptive(lambda rows: rows).batch(Collected())
    for explained in (pairs_of(spark).explain, run.explain):
        with pytest.raises(InputError, match="format='xml': choose from text, json, dot"):
            explained(cast("Any", "xml"))
        with pytest.raises(InputError, match="alternatives=-1: a number of plans is expected"):
            explained("text", -1)
    with pytest.raises(InputError, match=r"relation\('z'\): time=4: the name of a column is expected"):
        cq.AdaptiveJoin(spark).relation("z", window=3, time=cast("Any", 4))
    with pytest.raises(InputError, match=r"limits: rows=1\.5 is no whole number"):
        cq.Limits(rows=cast("Any", 1.5))


def test_names_of_streams_with_capitals(spark: SparkSession) -> None:
    rows = spark.range(3).withColumnRenamed("id", "a")
    for sensitive in ("true", "false"):
        with settings(spark, {"spark.sql.caseSensitive": sensitive}):
            query = cq.adaptive_sql(spark, "SELECT * FROM Vv v JOIN (SELECT 1 a) q USING (a)")
            assert [tuple(row) for row in query(rows).collect()] == [(1,)]


def test_what_joins_of_windows_refuse(spark: SparkSession) -> None:
    """One sentence each, before anything is computed."""
    wide, narrow = (spark.sql(f"SELECT CAST(1 AS decimal(38,{scale})) AS d") for scale in (18, 10))
    stream = micro_batch(spark, [(1, 1, "x")], "id long, k int, s string")
    twice = spark.sql("SELECT 1 AS k, 2 AS n, 3 AS N")
    over = cq.AdaptiveJoin(spark).relation("v", window="now", time="id")
    decimals = over.relation("a", wide).relation("b", narrow).on("CAST(v.k AS decimal(38,18)) = b.d AND b.d = a.d")
    zones = {name: spark.sql(f"SELECT {name}'2024-03-31 02:30:00' AS n") for name in ("TIMESTAMP_NTZ", "TIMESTAMP")}
    clocks = over.relation("a", zones["TIMESTAMP_NTZ"]).relation("b", zones["TIMESTAMP"])
    clocks = clocks.on("CAST(v.s AS TIMESTAMP_NTZ) = b.n AND b.n = a.n")
    for why, join in {
        "Spark compares fewer digits where more than 38 are needed": decimals,
        "cast all of them to one type, because times without a zone that differ": clocks,
        "relation p has two columns n: rename one of them": over.relation("p", twice).on("v.k = p.k"),
        "`nope`.* The relations: v has id, k, s": over.where("v.nope > 1"),
        "cannot be resolved.* The relations: v has id, k, s": over.select("v.other"),
        "`unheard_of`": over.where("unheard_of(v.k)"),
        r"relation\('p'\): the function returned NoneType; it must return a DataFrame": over.relation("p", lambda _: None).on(  # type: ignore[arg-type, return-value]
            "v.k = p.k"
        ),
    }.items():
        with pytest.raises(InputError, match=why):
            join.batch(Collected())(stream, 0)
    with (
        settings(spark, {"spark.sql.caseSensitive": "true"}),
        pytest.raises(InputError, match="ignore the case of names"),
    ):
        over.batch(Collected())
    with pytest.raises(InputError, match="a micro-batch is a DataFrame, not int: give this function to foreachBatch"):
        over.batch(Collected())(cast("Any", 3), 0)
    for given, why in {(3, None): "expects a name first, not int", ("p", 3): r"relation\('p', …\) expects a DataFrame"}.items():
        with pytest.raises(InputError, match=why):
            over.relation(*cast("Any", given))
    with pytest.raises(InputError, match=r"relation\('p'\): .*`nowhere`"):
        over.relation("p", "nowhere")


@pytest.mark.long
def test_views_of_a_join_go_with_it(spark: SparkSession) -> None:
    def own() -> set[str]:
        return {table.name for table in spark.catalog.listTables() if table.name.startswith("cqels_opt_")}

    before = own()
    join = cq.AdaptiveJoin(spark).relation("v").relation("p", spark.range(3)).on("v.k = p.id").select("v.k")
    run = join.batch(Collected())
    run(micro_batch(spark, [(1,)], "k long"), 0)
    run.wait_for_counts()
    assert len(own() - before) == 2
    del run
    gc.collect()
    assert own() == before


def test_columns_that_windows_cannot_keep_are_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    refused = "NULL" if BEFORE_4 else "make_interval(0, 1)"  # PySpark 3.5 has no type for intervals, and Spark 4 keeps NULL
    batch = micro_batch(spark, [(1, 1000)], "k int, t long").selectExpr("*", f"{refused} AS month")
    join = (
        cq.AdaptiveJoin(spark)
        .relation("a", window="10s", time="t")
        .relation("b", window="10s", time="t")
        .on("a.k = b.k")
        .select("a.k")
    )
    run = join.batch(Collected(), state=str(tmp_path / "state"))
    with pytest.raises(InputError, match=r"the rows of windows are kept as Parquet files, .*month.*: cast or drop it$"):
        run(batch, 0)
    run(batch.drop("month"), 0)


# ------------------------------------------------------------------ SQL
def test_what_is_a_query_of_a_micro_batch(spark: SparkSession) -> None:
    for given, why in {
        ("SELECT v.k FROM v", "w"): "the query does not read stream='w'; it reads v",
        ("SELECT v.k FROM v", 3): r"adaptive_sql\(…\) expects stream=NAME as a string, not int",
        (None, None): r"adaptive_sql\(…\) expects a query as a string, not NoneType",
        ("CREATE TEMP VIEW z AS SELECT * FROM v", None): "this is no query; give the SELECT alone",
    }.items():
        with pytest.raises(InputError, match=why):
            cq.adaptive_sql(spark, *cast("Any", given[:1]), stream=cast("Any", given[1]))


@pytest.mark.skipif(BEFORE_4, reason="Spark 3.5 has no recursive queries")
def test_names_of_recursive_queries_are_known(spark: SparkSession) -> None:
    query = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT z.id, r.n FROM of_now z JOIN r ON z.k = r.n"
    sink = Collected()
    cq.adaptive_sql(spark, query).batch(sink)(micro_batch(spark, [(1, 2), (2, 9)], "id long, k int"), 0)
    assert [*sink.bags[0].elements()] == [(1, 2)]
