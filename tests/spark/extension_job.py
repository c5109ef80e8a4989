"""A session with the extension of Spark's optimizer: prints what its queries answer and how they are planned, for ``test_extension.py``."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import cqels_opt as cq
from cqels_opt.spark.catalyst import Catalyst
from cqels_opt.spark.extension import ENABLED, EXTENSION

FOLDER = Path(sys.argv[1])
COLUMNS = "a long, b long, x long, n long"
SAMPLE = "cqels: sample the join keys of the micro-batch"

QUERIES = (
    "SELECT v.n, f.x, o.x FROM v JOIN f ON v.a = f.a JOIN o ON v.b = o.b",
    "SELECT o.x, count(*), sum(f.x) FROM v JOIN f ON v.a = f.a JOIN o ON v.b = o.b GROUP BY o.x",
    "SELECT DISTINCT v.n FROM v JOIN f ON v.a = f.a AND v.n % 9 < f.x JOIN o ON v.b + 1 = o.b",
    "SELECT v.n, f.x, o.x, p.x FROM v JOIN f ON v.a = f.a JOIN o ON v.b = o.b LEFT JOIN p ON f.x = p.a",
    "SELECT v.n, f.x, o.x, p.x FROM v JOIN f ON v.a = f.a JOIN p ON f.x = p.a JOIN o ON v.b = o.b AND o.x >= p.x",
    "SELECT p.x, v.n, o.x FROM p JOIN f ON f.x = p.a JOIN v ON v.a = f.a JOIN o ON v.b = o.b",
    "SELECT v.n, q.k FROM v JOIN (SELECT f.a, count(*) AS k FROM f JOIN p ON f.x = p.x GROUP BY f.a) q ON v.a = q.a JOIN o ON o.b = v.b",
    "SELECT v.n FROM v JOIN f ON v.a = f.a JOIN o ON v.b = o.b WHERE v.n % 9 IN (SELECT a FROM p)",
    "SELECT v.n, f.x FROM v LEFT SEMI JOIN o ON v.b = o.b JOIN f ON v.a = f.a JOIN p ON p.a = v.b",
    "SELECT one.n, two.n FROM v one JOIN v two ON one.a = two.b JOIN o ON o.b = one.b",
    "SELECT v.n, f.x FROM v JOIN f ON v.a = f.a JOIN o ON v.b = o.b JOIN (SELECT a, max(n) AS n FROM v GROUP BY a) m ON m.a = v.a",
    "SELECT q.k, p.x FROM (SELECT f.x, count(*) AS k FROM v JOIN f ON v.a = f.a JOIN o ON v.b = o.b GROUP BY f.x) q JOIN p ON p.a = q.x",
    " ".join(
        [
            "SELECT v.n, f.x FROM v JOIN f ON v.a = f.a",
            *(f"JOIN (SELECT DISTINCT b FROM o) o{i} ON v.b = o{i}.b" for i in range(10)),
        ]
    ),
)


def micro_batch(rows: DataFrame) -> DataFrame:
    """The rows as ``foreachBatch`` gets them: the result of a query, without its plan."""
    catalyst, jvm = Catalyst(rows.sparkSession), rows.sparkSession._jvm
    assert jvm is not None
    of = getattr(getattr(jvm.org.apache.spark.sql.execution, "LogicalRDD$"), "MODULE$")
    return catalyst.frame(of.fromDataset(rows._jdf.queryExecution().toRdd(), rows._jdf, False, False))


def answered(query: DataFrame) -> tuple[list[str], str]:
    """The rows in an order of their own, and the optimized plan."""
    return sorted(map(str, query.collect())), str(query._jdf.queryExecution().optimizedPlan().toString())


def compared(spark: SparkSession, seed: int) -> dict[str, tuple[bool, bool, int]]:
    """By query over random tables: whether the extension changes no answer, whether it changes the plan, how many answers there are."""
    draw = random.Random(seed)

    def value(most: int, skew: int) -> int | None:
        return None if draw.random() < 0.1 else int(most * draw.random() ** skew)

    def table(rows: int, a: int, b: int, skew: int) -> DataFrame:
        return spark.createDataFrame([(value(a, skew), value(b, skew), value(9, 1), i) for i in range(rows)], COLUMNS)

    table(draw.randint(30, 60), 8, 50, 3).createOrReplaceTempView("f")
    table(draw.randint(30, 60), 60, 200, 1).createOrReplaceTempView("o")
    table(draw.randint(5, 20), 9, 9, 1).createOrReplaceTempView("p")
    micro_batch(table(draw.randint(40, 80), 9, 100, 2)).createOrReplaceTempView("v")
    found = {}
    for text in QUERIES:
        spark.conf.set(ENABLED, "false")
        rows, plan = answered(spark.sql(text))
        spark.conf.set(ENABLED, "true")
        own_rows, own_plan = answered(spark.sql(text))
        found[text] = (rows == own_rows, numbered(plan) != numbered(own_plan), len(rows))
    return found


def numbered(plan: str) -> str:
    """A plan without the numbers of its columns."""
    return "".join(part.lstrip("0123456789L") for part in plan.split("#"))


def drift(spark: SparkSession) -> dict[str, Any]:
    """Two micro-batches through ``foreachBatch``: in the first each viewer has many followers, in the second each item has many offers."""
    many, few = range(10), range(1_000, 1_400)
    for name, key in {"follows": "who", "offers": "item"}.items():
        rows = [(k, i) for k in many for i in range(100)] + [(k, 0) for k in few]
        spark.createDataFrame(rows, f"{key} long, {name}_x long").write.saveAsTable(name)
    for number, (who, item) in enumerate(((many, few), (few, many))):
        rows = (
            [(who[i % len(who)], item[i % len(item)] + (10_000 if i % 20 else 0)) for i in range(200)]
            if number == 0
            else [(who[i % len(who)] + (10_000 if i % 20 else 0), item[i % len(item)]) for i in range(200)]
        )
        spark.createDataFrame(rows, "who long, item long").coalesce(1).write.json(str(FOLDER / "views" / str(number)))
    views = spark.readStream.schema("who long, item long").option("maxFilesPerTrigger", 1).json(str(FOLDER / "views" / "*"))
    first, answers = list[str](), list[int]()

    def write(batch: DataFrame, number: int) -> None:
        session = batch.sparkSession
        joined = batch.join(session.table("follows"), "who").join(session.table("offers"), "item")
        rows, plan = answered(joined)
        session.conf.set(ENABLED, "false")
        assert answered(batch.join(session.table("follows"), "who").join(session.table("offers"), "item"))[0] == rows
        session.conf.set(ENABLED, "true")
        first.append(first_table(plan))
        answers.append(len(rows))

    writer = views.writeStream.foreachBatch(write).option("checkpointLocation", str(FOLDER / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return {"first": first, "answers": answers, "streamed": streamed(spark)}


def streamed(spark: SparkSession) -> dict[str, Any]:
    """The first of these micro-batches without ``foreachBatch``: the number of answers, and the table that is joined first."""
    views = spark.readStream.schema("who long, item long").json(str(FOLDER / "views" / "0"))
    joined = views.join(spark.table("follows"), "who").join(spark.table("offers"), "item")
    query = joined.writeStream.format("memory").queryName("joined").trigger(availableNow=True).start()
    query.awaitTermination()
    plan = str(query._jsq.streamingQuery().lastExecution().optimizedPlan().toString())
    return {"rows": spark.table("joined").count(), "first": first_table(plan)}


def first_table(plan: str) -> str:
    """The table that a plan joins first: the deepest scan of a left-deep plan comes before the others."""
    return plan.partition("spark_catalog.default.")[2].partition("[")[0]


def pauses(spark: SparkSession) -> int:
    """The samples of sixteen micro-batches for which all orders cost the same."""
    spark.range(50).selectExpr("id AS a", "id AS x").createOrReplaceTempView("f")
    spark.range(50).selectExpr("id AS b", "id AS x").createOrReplaceTempView("o")
    before = samples(spark)
    for _ in range(16):
        micro_batch(spark.range(40).selectExpr("id AS a", "id AS b", "id AS n")).createOrReplaceTempView("v")
        assert spark.sql(QUERIES[0]).count() == 40
    return samples(spark) - before


def retried(spark: SparkSession) -> list[bool]:
    """By plan over a table whose file is missing when it is counted first: whether the joins are in another order."""
    for name, key in (("f", "a"), ("o", "b")):
        rows = [(i, i) for i in range(40)] if name == "o" else [(i % 10, i) for i in range(400)]
        spark.createDataFrame(rows, f"{key} long, x long").coalesce(1).write.parquet(str(FOLDER / "moved" / name))
        spark.read.parquet(str(FOLDER / "moved" / name)).createOrReplaceTempView(name)
    found = list[bool]()
    (FOLDER / "moved" / "f").rename(FOLDER / "away")
    for number in range(66):
        micro_batch(spark.range(40).selectExpr("id % 10 AS a", "id + 30 AS b", "id AS n")).createOrReplaceTempView("v")
        plan = str(spark.sql(QUERIES[0])._jdf.queryExecution().optimizedPlan().toString())
        found.append(plan.index("Relation [b#") < plan.index("Relation [a#"))
        if number == 0:
            (FOLDER / "away").rename(FOLDER / "moved" / "f")
    return found


def samples(spark: SparkSession) -> int:
    """The jobs that have sampled a micro-batch."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(60_000)
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    return sum(SAMPLE in str(jobs.apply(i).description().toString()) for i in range(jobs.size()))


def main() -> None:
    """Prints one line of JSON."""
    settings = {
        "spark.jars": cq.spark_extension(),
        "spark.sql.extensions": EXTENSION,
        "spark.cqels.waitForCounts": "true",
        "spark.cqels.rowsPerJoin": "0",  # so that orders of few rows matter
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(FOLDER / "warehouse"),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    found = {
        "compared": [compared(spark, seed) for seed in range(int(sys.argv[2]))],
        "drift": drift(spark),
        "pauses": pauses(spark),
        "retried": retried(spark),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
