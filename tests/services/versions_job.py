"""A job that joins a stream with a table that changes, in a process whose PySpark the table's format has jars for.

Usage: versions_job.py delta|iceberg FOLDER. The table ``rooms`` is replaced by as many rows with other keys after the second of three
micro-batches. Prints, as JSON, the number of answers of each, and the distinct keys of ``rooms`` as the optimizer of that join and
the optimizer of a join with windows count them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import cqels_opt as cq

BATCHES, ROWS, BEFORE, AFTER = 3, 600, 100, 10
"""Rows of ``rooms``, and its distinct keys before and after the change."""
SETTINGS = {
    "spark": {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",  # compiling takes longer than these rows
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    },
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
    },
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
    },
}


class Tables:
    """Tables of a format: those of Delta are folders, those of Iceberg have names in a catalog."""

    def __init__(self, spark: SparkSession, format: str, folder: Path) -> None:
        self.spark, self.format, self.folder = spark, format, folder

    def name(self, table: str) -> str:
        return f"ice.db.{table}" if self.format == "iceberg" else str(self.folder / table)

    def write(self, table: str, rows: DataFrame, mode: str = "append") -> None:
        rows = rows.coalesce(1)
        if self.format == "delta":
            rows.write.format("delta").mode(mode).save(self.name(table))
        elif not self.spark.catalog.tableExists(self.name(table)):
            rows.writeTo(self.name(table)).create()
        elif mode == "overwrite":
            rows.writeTo(self.name(table)).overwrite(f.lit(True))
        else:
            rows.writeTo(self.name(table)).append()

    def read(self, table: str) -> DataFrame:
        return self.spark.read.format(self.format).load(self.name(table))

    def stream(self, table: str) -> DataFrame:
        reader = self.spark.readStream.format(self.format)
        files = {"delta": "maxFilesPerTrigger", "iceberg": "streaming-max-files-per-micro-batch"}
        return reader.option(files[self.format], 1).load(self.name(table))


def rooms(spark: SparkSession, keys: int) -> DataFrame:
    return spark.range(ROWS).selectExpr(f"id % {keys} AS room", "id AS sensor")


def run(tables: Tables) -> dict[str, Any]:
    spark = tables.spark
    tables.write("rooms", rooms(spark, BEFORE))
    tables.write("sensors", spark.range(ROWS).selectExpr("id AS sensor", "id % 3 AS kind"))
    for commit in range(BATCHES):
        tables.write("views", spark.range(5).selectExpr(f"id + {commit} AS room"))
    joined, sensors, answers = tables.read("rooms"), tables.read("sensors"), list[int]()
    distinct, in_windows = list[float](), list[float]()

    def write(df: DataFrame, batch: int) -> None:
        answers.append(df.count())

    function = cq.adaptive(lambda views: views.join(joined.alias("rooms"), "room").join(sensors, "sensor")).batch(
        write, plan="first"
    )

    windows = cq.AdaptiveJoin(spark).relation("views", window="1h").relation("rooms", joined).on("views.room = rooms.room")
    windowed = windows.batch(lambda df, batch: None)

    def batch(df: DataFrame, number: int) -> None:
        function(df, number)
        function.wait_for_counts()  # of the version that the micro-batch has found
        distinct.append(function.statistics()["relations"]["rooms"]["distinct"]["room"])
        windowed(df.selectExpr("room", "0L AS t"), number)
        in_windows.append(windowed.statistics()["relations"]["rooms"]["distinct"]["room"])
        if number == BATCHES - 2:
            tables.write("rooms", rooms(spark, AFTER), "overwrite")

    writer: Callable[..., Any] = tables.stream("views").writeStream.foreachBatch(batch).start
    query = writer(checkpointLocation=f"file://{tables.folder}/checkpoint", outputMode="append")
    query.processAllAvailable()
    query.stop()
    return {"answers": answers, "distinct": distinct, "in_windows": in_windows}


if __name__ == "__main__":
    of, place = sys.argv[1], Path(sys.argv[2])
    builder = SparkSession.builder.master("local[2]")
    for key, value in {**SETTINGS["spark"], **SETTINGS[of], "spark.sql.catalog.ice.warehouse": str(place / "warehouse")}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    print(json.dumps(run(Tables(session, of, place))))
    session.stop()
