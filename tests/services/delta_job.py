"""A job over Delta tables, in a process whose PySpark Delta has jars for.

Usage: delta_job.py FOLDER fill | run [DOOMED]. ``fill`` writes the tables ``people`` (an RDF stream, a commit a second), ``views`` and
``rooms`` (version 0); ``run`` continues a query and a join over them, and is killed with SIGKILL in the sink of batch DOOMED, when that has
written its answers.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import cqels_opt as cq

EX = "http://ex.org/"
QUERY = f"PREFIX : <{EX}> SELECT ?p ?q FROM NAMED :S [RANGE 3s] AS ?w {{ GRAPH ?w {{ ?p :at ?x . ?q :at ?x }} }}"
COMMITS, EACH = 5, 6


def people() -> list[tuple[str, str, str, int]]:
    """(s, p, o, t): people who move about, two of them at a time."""
    return [(f"<{EX}p{i % 4}>", f"<{EX}at>", f"<{EX}x{i % 3}>", 1000 + 500 * (i // 2)) for i in range(COMMITS * EACH)]


def fill(spark: SparkSession, folder: Path) -> None:
    rows = people()
    for commit in range(COMMITS):
        part = rows[commit * EACH : (commit + 1) * EACH]
        add(spark.createDataFrame(part, "s string, p string, o string, t long"), folder / "people")
        add(spark.createDataFrame([(commit,), (commit + 1,)], "room long"), folder / "views")
    add(spark.createDataFrame([(room, f"Room {room}") for room in range(3)], "room long, name string"), folder / "rooms")


def add(rows: DataFrame, table: Path) -> None:
    rows.coalesce(1).write.format("delta").mode("append").save(str(table))


def run(spark: SparkSession, folder: Path, doomed: int | None) -> None:
    def stream(name: str) -> DataFrame:
        reader = spark.readStream.format("delta").option("startingVersion", 0).option("maxFilesPerTrigger", 1)
        return reader.load(str(folder / name))

    def once(df: DataFrame, batch: int) -> None:
        writer = df.write.format("delta").mode("append").option("txnAppId", "met").option("txnVersion", batch)
        writer.save(str(folder / "met"))
        if batch == doomed:
            os.kill(os.getpid(), signal.SIGKILL)

    query = cq.Engine(spark).register(QUERY)
    query.start({f"{EX}S": stream("people")}, once, folder / "checkpoint", to_the_end=True).await_termination()

    versions: dict[int, DataFrame] = {}

    def rooms(batch: int) -> DataFrame:
        """The newest version; the same object as long as there is no newer one."""
        newest = spark.sql(f"DESCRIBE HISTORY delta.`{folder / 'rooms'}` LIMIT 1").collect()[0].version
        reader = spark.read.format("delta").option("versionAsOf", newest)
        return versions.setdefault(newest, reader.load(str(folder / "rooms")))

    def named(df: DataFrame, batch: int) -> None:
        add(df, folder / "named")
        if batch == 2:
            add(spark.createDataFrame([(4, "Room 4, new")], "room long, name string"), folder / "rooms")

    join = cq.AdaptiveJoin(spark).relation("views").relation("rooms", rooms).on("views.room = rooms.room")
    batch = join.select("views.room", "rooms.name").batch(then=named)
    started = stream("views").writeStream.foreachBatch(batch).option("checkpointLocation", str(folder / "join"))
    started.trigger(availableNow=True).start().awaitTermination()
    met = spark.read.format("delta").load(str(folder / "met"))
    met.selectExpr("unix_millis(time) AS time", "p", "q").write.json(str(folder / "met.json"))
    spark.read.format("delta").load(str(folder / "named")).write.json(str(folder / "named.json"))


if __name__ == "__main__":
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.databricks.delta.snapshotPartitions", "1")  # of 50: a task each for the few files of a table
        .config("spark.sql.codegen.wholeStage", "false")  # compiling takes longer than these rows
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    place, what, *which = sys.argv[1:]
    fill(session, Path(place)) if what == "fill" else run(session, Path(place), int(which[0]) if which else None)
    session.stop()
