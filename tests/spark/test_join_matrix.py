"""What is expressible beside Spark SQL: each row is a job, in other join orders, with Spark's own answers.

The tables have nulls, duplicates, NaN, -0.0, decimals of different scale, int, long and double keys, dates and timestamps around changes
of the clock, and strings in different case.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t

import cqels_opt as cq
from cqels_opt.spark.session import settings

from .join_orders import Collected, Tables, bag, differences, make_tables, orders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = 1
"""Join orders of each row of the matrix besides the cheapest, which its micro-batch takes: the most expensive."""


NAMES = ("follows", "offers", "people", "places")


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    """The tables, also as temporary views."""
    quick = {"spark.sql.shuffle.partitions": "2", "spark.sql.codegen.wholeStage": "false"}  # the tables are small
    with settings(spark, {"spark.sql.session.timeZone": "Europe/Berlin", **quick}):
        found = make_tables(spark, tmp_path_factory.mktemp("tables"))
        for name in NAMES:
            getattr(found, name).createOrReplaceTempView(name)
        yield found
        for name in NAMES:
            spark.catalog.dropTempView(name)


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the matrix. ``left``: part of the reason why its joins are left to Spark, if they are."""

    name: str
    query: Callable[[DataFrame, Tables], DataFrame]
    left: str | None = None


def c(name: str) -> Any:
    return f.col(name)


# ------------------------------------------------------------------ jobs
def using(v: DataFrame, t: Tables) -> DataFrame:
    return v.join(t.follows, "who").join(t.offers, "item").join(t.people, "who")


def three(v: DataFrame, t: Tables) -> DataFrame:
    """Views, their followers and offers, by aliases."""
    joined = v.alias("v").join(t.follows.alias("f"), c("v.who") == c("f.who"))
    return joined.join(t.offers.alias("o"), c("v.item") == c("o.item"))


def star(v: DataFrame, t: Tables, how: str, condition: str) -> DataFrame:
    """An inner join, a join of another kind with people, and one more inner join."""
    joined = v.alias("v").join(t.follows.alias("f"), c("v.who") == c("f.who"))
    return joined.join(t.people.alias("p"), f.expr(condition), how).join(t.offers.alias("o"), c("v.item") == c("o.item"))


lower_text = f.udf(lambda text: text.lower() if text is not None else None, t.StringType())
rest_of_two = f.udf(lambda x: x % 2 if x is not None else None, t.IntegerType())
rest_of_three = f.udf(lambda x: x % 3 if x is not None else None, t.IntegerType())
lambda_two = f.udf(lambda x: x % 2, t.IntegerType())
lambda_other = f.udf(lambda x: x % 2 + 3, t.IntegerType())
close = f.udf(lambda a, b: a is not None and b is not None and abs(a - b) < 2, t.BooleanType())


def two_lambdas(v: DataFrame, t: Tables) -> DataFrame:
    """Catalyst prints both keys as ``<lambda>(id)``; they are not equal."""
    joined = v.join(t.follows.alias("f"), lambda_two("id") == c("f.who"))
    return joined.join(t.people.alias("p"), lambda_other("id") == c("p.who"))


def long_calls(v: DataFrame, t: Tables) -> DataFrame:
    """Catalyst shortens calls of more than 25 arguments when it prints them; these two differ in the last one."""
    same = ", ".join(["''"] * 30)
    joined = v.join(t.places.alias("a"), f.expr(f"concat({same}, s) = a.code"))
    return joined.join(t.places.alias("b"), f.expr(f"concat({same}, lower(s)) = b.code"))


def between_computed(v: DataFrame, t: Tables) -> DataFrame:
    joined = v.join(t.follows.drop("x", "d"), "who").withColumn("twice", c("follower") * 2)
    return joined.join(t.offers, "item").join(t.people, c("twice") == c("boss"))


def computed_before(v: DataFrame, t: Tables) -> DataFrame:
    mine = v.withColumn("low", f.lower("s")).withColumnRenamed("x", "y").where("id > 1")
    return mine.join(t.places, c("low") == c("code")).join(t.offers, "item").select("id", "low", "y", "city", "tag")


def same_twice(v: DataFrame, t: Tables) -> DataFrame:
    joined = v.alias("v").join(t.people.alias("one"), c("v.who") == c("one.who"))
    joined = joined.join(t.people.alias("two"), c("v.item") == c("two.who"))
    return joined.select("id", c("one.name").alias("a"), c("two.name").alias("b"))


def dropped_between(v: DataFrame, t: Tables) -> DataFrame:
    one = v.join(t.people, "who").select("id", "item", c("name").alias("first"))
    return one.join(t.people, c("item") == c("who")).join(t.places, c("name") == c("code"))


def windowed_above(v: DataFrame, t: Tables) -> DataFrame:
    rank = f.expr("rank() OVER (PARTITION BY f.follower ORDER BY v.id)")
    return three(v, t).select("v.id", "f.follower", rank.alias("place"), f.expr("count(*) OVER (PARTITION BY tag) AS n"))


def keyed_subquery(v: DataFrame, t: Tables) -> DataFrame:
    few = t.offers.groupBy("item").agg(f.max("price").alias("most"), f.count("*").alias("n"))
    return v.join(few, "item").join(t.follows, "who").where("n > most OR most > 1")


def chained_units(v: DataFrame, t: Tables) -> DataFrame:
    joined = v.alias("v").join(t.people.alias("p"), c("v.who") == c("p.who"), "left")
    joined = joined.join(t.places.alias("l"), c("p.name") == c("l.code"), "left")
    return joined.join(t.follows.alias("f"), c("v.item") == c("f.who")).join(t.offers.alias("o"), c("v.item") == c("o.item"))


def bushy(v: DataFrame, t: Tables) -> DataFrame:
    right = t.follows.alias("f").join(t.people.alias("p"), c("f.follower") == c("p.who"), "left")
    return v.alias("v").join(right, c("v.who") == c("f.who")).join(t.offers.alias("o"), c("o.item") == c("v.item"))


def one_frame_under_a_unit(v: DataFrame, t: Tables) -> DataFrame:
    famous = t.follows.groupBy("who").count().where("count > 2")
    joined = v.join(famous, "who", "semi").join(t.people.where("boss > 3"), "who", "anti")
    return joined.join(t.follows.select("who", "follower"), "who").join(t.offers.select("item", "price"), "item")


def odd_names(v: DataFrame, t: Tables) -> DataFrame:
    names = {"id": "a b", "who": "w.h.o", "item": "i`t", "x": "ä x", "s": "__at", "at": "time"}
    odd = v.withColumnsRenamed(names)
    follows = t.follows.withColumnsRenamed({"who": "f.o", "follower": "time"}).alias("my follows")
    offers = t.offers.withColumnsRenamed({"item": "`", "tag": "__late"})
    joined = odd.join(follows, c("`w.h.o`") == c("`my follows`.`f.o`")).join(offers, c("`i``t`") == c("````"))
    return joined.where("`a b` > 2 AND `__at` IS NOT NULL")


def same_name_in_other_case(v: DataFrame, t: Tables) -> DataFrame:
    doubled = v.select("*", c("s").alias("S"))
    return doubled.join(t.follows.alias("f"), v.who == c("f.who")).join(t.offers.alias("o"), v.item == c("o.item"))


def in_subquery(v: DataFrame, t: Tables) -> DataFrame:
    v.createOrReplaceTempView("matrix_views")
    return v.sparkSession.sql(
        "SELECT v.id, f.follower, o.tag FROM matrix_views v JOIN follows f ON v.who = f.who JOIN offers o ON v.item = o.item "
        "WHERE v.who IN (SELECT boss FROM people) AND EXISTS (SELECT 1 FROM places p WHERE p.code = o.tag) "
        "AND f.follower <= (SELECT max(rank) FROM places)"
    )


CASES = [
    Case("USING", using),
    Case("conditions", three),
    Case("int = long = int", lambda v, t: three(v, t).join(t.people.alias("p"), c("f.who") == c("p.who"))),
    Case("double keys", lambda v, t: three(v, t).join(t.offers.alias("q"), c("v.x") == c("q.price"))),
    Case("int = double", lambda v, t: three(v, t).join(t.offers.alias("q"), c("v.who") == c("q.price"))),
    Case("decimals of different scale", lambda v, t: three(v, t).join(t.follows.alias("g"), c("v.d") == c("g.d"))),
    Case("decimal = double", lambda v, t: three(v, t).join(t.offers.alias("q"), c("v.d") == c("q.price"))),
    Case("date = timestamp", lambda v, t: three(v, t).join(t.offers.alias("q"), c("v.day") == f.date_trunc("day", "q.opened"))),
    Case("timestamp = timestamp", lambda v, t: three(v, t).join(t.offers.alias("q"), c("v.at") == c("q.opened"))),
    Case("to_date(timestamp) = date", lambda v, t: three(v, t).join(t.people.alias("p"), f.expr("to_date(v.at) = p.born"))),
    Case("lower(s) = code", lambda v, t: three(v, t).join(t.places.alias("p"), f.lower("v.s") == c("p.code"))),
    Case("x + 1 = y", lambda v, t: three(v, t).join(t.people.alias("p"), c("v.who") + 1 == c("p.boss"))),
    Case("an expression of two relations", lambda v, t: three(v, t).join(t.people.alias("p"), f.expr("v.id + f.who = p.who"))),
    Case("two keys of one relation", lambda v, t: three(v, t).join(t.people.alias("p"), f.expr("v.who = p.who AND v.who = p.boss"))),
    Case("two keys of one pair", lambda v, t: three(v, t).join(t.people.alias("p"), f.expr("v.who = p.who AND f.follower = p.boss"))),
    Case("struct fields", lambda v, t: three(v, t).join(t.offers.alias("q"), c("v.st.f") == c("q.st.f"))),
    Case("structs", lambda v, t: three(v, t).join(t.offers.alias("q"), c("v.st") == c("q.st"))),
    Case("a <=> b", lambda v, t: three(v, t).join(t.people.alias("p"), c("v.who").eqNullSafe(c("p.boss")))),
    Case("a <=> b alone", lambda v, t: v.join(t.people, v.who.eqNullSafe(t.people.boss)).join(t.offers, "item")),
    Case("a < b alone", lambda v, t: v.join(t.follows, c("id") < c("follower")).join(t.offers, "item")),
    Case("a < b with a key", lambda v, t: three(v, t).where("v.id < f.follower + o.item")),
    Case("conditions with OR", lambda v, t: three(v, t).where("v.id < 4 OR f.follower = o.item OR o.tag IS NULL")),
    Case("NOT, IN and BETWEEN", lambda v, t: three(v, t).where("NOT (v.s IN ('a', f.w)) AND o.item BETWEEN f.follower AND 4")),
    Case("a cross product", lambda v, t: three(v.where("id < 3"), t).crossJoin(t.places.where("rank = 1"))),
    Case("WHERE false", lambda v, t: three(v, t).where(f.lit(False))),
    Case("WHERE NULL", lambda v, t: three(v, t).where("CAST(NULL AS BOOLEAN)")),
    Case("a constant key", lambda v, t: three(v, t).join(t.people.alias("p"), f.expr("v.who = p.who AND p.boss = 1"))),
    Case("left", lambda v, t: star(v, t, "left", "v.who = p.who")),
    Case("left, more in ON", lambda v, t: star(v, t, "left", "v.who = p.who AND p.boss > f.follower AND v.id > 3")),
    Case("left, by a key of another inner join", lambda v, t: star(v, t, "left", "f.follower = p.who")),
    Case("left, <=>", lambda v, t: star(v, t, "left", "v.who <=> p.boss")),
    Case("left, no equality", lambda v, t: star(v, t, "left", "v.who < p.boss")),
    Case("left, IS NULL after", lambda v, t: star(v, t, "left", "v.who = p.who AND p.boss = v.item").where("p.who IS NULL")),
    Case("left, coalesce after", lambda v, t: star(v, t, "left", "v.who = p.boss").where("coalesce(p.who, f.follower) = o.item")),
    Case("left, an equality after", lambda v, t: star(v, t, "left", "v.item = p.boss").where("p.who = f.follower")),
    Case(
        "left, an inner join on its column",
        lambda v, t: star(v, t, "left", "v.who = p.who").join(t.places.alias("l"), c("p.name") == c("l.code")),
    ),
    Case("left after left", chained_units, "reads the right side of another one"),
    Case("left within the right side", bushy),
    Case("left, USING", lambda v, t: v.join(t.people, "who", "left").join(t.follows, "who").join(t.offers, "item")),
    Case("semi", lambda v, t: star(v, t, "semi", "v.who = p.who")),
    Case("semi, more in ON", lambda v, t: star(v, t, "semi", "v.who = p.who AND p.boss < f.follower")),
    Case("semi, no equality", lambda v, t: star(v, t, "semi", "v.who < p.boss")),
    Case("anti", lambda v, t: star(v, t, "anti", "v.who = p.who")),
    Case("anti, more in ON", lambda v, t: star(v, t, "anti", "v.who = p.who AND (p.boss = f.follower OR v.s = p.name)")),
    Case("semi and anti", one_frame_under_a_unit),
    Case("right", lambda v, t: star(v, t, "right", "v.who = p.who").where("v.id > 1")),
    Case("full", lambda v, t: three(v, t).join(t.people.alias("p"), c("v.who") == c("p.who"), "full"), "other than a join"),
    Case("aggregate", lambda v, t: three(v, t).groupBy("f.follower").agg(f.count("*"), f.sum("v.d"), f.min("o.item"))),
    Case("HAVING", lambda v, t: three(v, t).groupBy("tag").agg(f.sum("id").alias("n")).where("n > 9").orderBy("n")),
    Case("an aggregate without groups", lambda v, t: three(v, t).selectExpr("count(*)", "max(f.x)", "sum(DISTINCT v.id)")),
    Case("ROLLUP", lambda v, t: three(v, t).rollup("tag", "follower").count()),
    Case("DISTINCT", lambda v, t: three(v, t).select("v.who", "o.tag").distinct()),
    Case("dropDuplicates", lambda v, t: three(v, t).select("v.who", "o.tag").dropDuplicates(["who", "tag"])),
    Case("ORDER BY and LIMIT", lambda v, t: three(v, t).select("v.id", "f.follower", "tag").orderBy("id", "follower", "tag").limit(7)),
    Case("window functions", windowed_above),
    Case("explode", lambda v, t: three(v, t).select("v.id", f.explode(f.sequence(f.lit(0), c("f.follower"))).alias("e"))),
    Case("computed columns above", lambda v, t: three(v, t).selectExpr("v.id + f.follower AS n", "upper(o.tag) AS tag", "v.st.g")),
    Case("computed columns before", computed_before),
    Case("computed columns between", between_computed),
    Case("columns dropped between", lambda v, t: v.join(t.follows, "who").drop("x", "d").join(t.offers, "item").drop("st")),
    Case("an aggregate below", keyed_subquery),
    Case("UNION above", lambda v, t: three(v, t).select("id").union(three(v, t).select("follower")), "other than a join"),
    Case("UNION below", lambda v, t: v.join(t.follows.union(t.follows), "who").join(t.offers, "item")),
    Case("a table twice", same_twice),
    Case("a table twice, dropped between", dropped_between),
    Case("the micro-batch twice", lambda v, t: three(v, t).join(v.alias("w"), c("v.item") == c("w.who")), "2 of the joined"),
    Case("subqueries in WHERE", in_subquery),
    Case("a hint", lambda v, t: v.join(f.broadcast(t.follows), "who").join(t.offers.hint("merge"), "item").hint("shuffle_hash")),
    Case("a Python function in a condition", lambda v, t: three(v, t).where(close("v.id", "f.follower"))),
    Case("a Python function as a key", lambda v, t: three(v, t).join(t.places.alias("p"), lower_text("v.s") == c("p.code"))),
    Case(
        "Python functions as keys of two relations",
        lambda v, t: three(v, t).join(t.people.alias("p"), rest_of_two("v.id") == rest_of_three("p.who")),
    ),
    Case("two lambdas", two_lambdas),
    Case("long calls", long_calls),
    Case("a nondeterministic filter", lambda v, t: three(v.where("rand(1) < 2"), t).where(f.rand(3) >= 0)),
    Case("odd names", odd_names),
    Case("names in different case", same_name_in_other_case),
    Case("a Spark view of joins", lambda v, t: v.join(v.sparkSession.table("follows"), "who").join(v.sparkSession.table("offers"), "item")),
    Case("cached tables", lambda v, t: three(v, t).join(t.people.where("name IS NOT NULL").cache().alias("p"), c("v.who") == c("p.who"))),
    Case("a cached result", lambda v, t: three(v, t).join(t.people.alias("p"), c("v.who") == c("p.who")).cache(), left="has persisted"),
    Case("repartitioned and sampled above", lambda v, t: three(v, t).repartition(3).coalesce(1).select("v.id", "o.tag")),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("case", [pytest.param(one, id=one.name) for one in CASES])
def test_a_job_as_a_function(spark: SparkSession, tables: Tables, case: Case) -> None:
    """The order that the optimizer prefers for the micro-batch, and the worst one. How a job adapts: test_replanning.py."""

    def query(views: DataFrame) -> DataFrame:
        return case.query(views, tables)

    gc.collect()  # Spark's plans are freed with their Python objects
    sink, frame = Collected(), tables.batches[1]
    function, plain = cq.adaptive(query).batch(sink, plan="static"), query(frame)
    function(frame, 0)
    expected = bag(plain)
    assert sink.columns == plain.columns
    assert function.last is not None
    assert sink.bags[0] == expected, f"{function.plans()}: {differences(expected, sink.bags[0])}"
    assert expected or case.name in ("WHERE false", "WHERE NULL")
    assert case.left in function.last.notices[0] if case.left is not None else not function.last.notices
    for plan, other in orders(spark, query, frame, function, ORDERS) if case.left is None else ():
        assert (found := bag(other)) == expected, f"{plan}: {differences(expected, found)}"
        assert other.columns == plain.columns
    spark.catalog.clearCache()  # other tests have the same micro-batches


@pytest.mark.long
@pytest.mark.parametrize(
    "plan", ["worst", "first", "static", "fixed:v: v » o[?item] » f[?who]", "fixed:v: v » o[?item] » p[?who_2] » f[?who]"]
)
def test_the_order_is_decided_by_the_user(spark: SparkSession, tables: Tables, plan: str) -> None:
    """From the first micro-batch on; plans name relations by their aliases."""

    def query(views: DataFrame) -> DataFrame:
        joined = three(views, tables)
        return joined.join(tables.people.alias("p"), c("v.who") == c("p.who")) if "p" in plan.split(":")[-1] else joined

    sink = Collected()
    function = cq.adaptive(query).batch(sink, plan=plan)
    for number, frame in enumerate(tables.batches):
        function(frame, number)
        assert sink.bags[number] == bag(query(frame))
        assert function.last is not None
        assert not function.last.notices
    if plan.startswith("fixed:"):
        assert function.plans() == {"v": plan.removeprefix("fixed:v: ")}
