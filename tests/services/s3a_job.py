"""A join of windows whose state is below an ``s3a`` URI, in a process with Hadoop's connector.

Usage: s3a_job.py FOLDER STATE FIRST [DOOMED]. Gives the micro-batches from FIRST on; the rows of each go to FOLDER. The process is killed
with SIGKILL after micro-batch DOOMED, as if the job had not recorded it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import cqels_opt as cq

BATCHES, EACH, WINDOW = 6, 20, 10


def rows(batch: int) -> list[tuple[int, str, int]]:
    """(who, loc, t): people in rooms, a row per millisecond."""
    some = random.Random(batch)
    return [(some.randrange(9), some.choice("abc"), batch * EACH + i) for i in range(EACH)]


def run(spark: SparkSession, folder: Path, state: str, first: int, doomed: int | None) -> None:
    def keep(df: DataFrame, batch: int) -> None:
        found = df.selectExpr("unix_millis(time) AS time", "who", "other").collect()
        (folder / f"{batch}.json").write_text(json.dumps([[*row] for row in found]))

    join = cq.AdaptiveJoin(spark).relation("here", window="now").relation("lately", window=f"{WINDOW}ms")
    join = join.on("here.loc = lately.loc").select("time", "here.who", "lately.who AS other")
    function = join.batch(then=keep, state=state)
    for batch in range(first, BATCHES):
        function(spark.createDataFrame(rows(batch), "who int, loc string, t long"), batch)
        if batch == doomed:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.extraClassPath", os.environ["S3A_CLASS_PATH"])
        .config("spark.hadoop.fs.s3a.endpoint", os.environ["AWS_ENDPOINT_URL"])
        .config("spark.hadoop.fs.s3a.endpoint.region", os.environ["AWS_DEFAULT_REGION"])
        .config("spark.hadoop.fs.s3a.access.key", os.environ["AWS_ACCESS_KEY_ID"])
        .config("spark.hadoop.fs.s3a.secret.key", os.environ["AWS_SECRET_ACCESS_KEY"])
        .config("spark.hadoop.fs.s3a.path.style.access", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    place, uri, begin, *which = sys.argv[1:]
    run(session, Path(place), uri, int(begin), int(which[0]) if which else None)
    session.stop()
