"""A query over a stream and static data as a first version in Spark: ``foreachBatch``, and the query as SQL over views.

The elements of each micro-batch are appended to a folder. The window is a DataFrame over that folder, created in each batch; the
static relations are views of the triples. Spark's planner does the rest.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from cqels_opt.bench.rivals.jobs import ELEMENTS, Job, StreamingQuery, begin, located, register_views
from cqels_opt.spark.session import SparkSession
from cqels_opt.spark.stream import DataFrame

SQL = Path(__file__).parent / "as_written"


def start(spark: SparkSession, job: Job) -> StreamingQuery:
    """Starts the job."""
    register_views(spark, job.world)
    text = (SQL / f"{job.query}.sql").read_text(encoding="utf-8")
    kept = job.folder / "elements"
    greatest: dict[int, int] = {}

    def batch(delta: DataFrame, number: int) -> None:
        session = delta.sparkSession
        located(delta).write.mode("overwrite").parquet(str(kept / f"batch={number}"))
        everything = session.read.schema(ELEMENTS).parquet(str(kept))
        now = everything.where(f"batch = {number}")
        first, last = now.selectExpr("min(t)", "max(t)").collect()[0]
        greatest[number] = last
        now.createOrReplaceTempView("now")
        everything.where(f"t > {first - job.window}").createOrReplaceTempView("recent")
        session.sql(text).write.mode("overwrite").json(str(job.answers / f"batch={number}"))
        for old in [n for n, t in greatest.items() if t <= first - job.window]:
            shutil.rmtree(kept / f"batch={old}")
            del greatest[old]

    return begin(job, batch)
