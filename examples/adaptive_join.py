"""The job of ``plain_join.py`` with joins that follow the data: in each micro-batch, in the order and by the operators that are cheapest.

    diff examples/plain_join.py examples/adaptive_join.py
    python examples/adaptive_join.py DATA OUT

``DATA`` has Parquet folders ``follows`` (who, follower), ``offers`` (item, offer) and, as they come, ``views`` (who, item).
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import cqels_opt as cq


def start(spark: SparkSession, data: str, out: str) -> StreamingQuery:
    """Begins the job; it ends when all existing views have been joined."""
    follows = spark.read.parquet(f"{data}/follows").cache()
    offers = spark.read.parquet(f"{data}/offers").cache()
    views = spark.readStream.schema("who long, item long").option("maxFilesPerTrigger", 1).parquet(f"{data}/views")

    def write(rows: DataFrame, number: int) -> None:
        rows.write.mode("overwrite").parquet(f"{out}/rows/batch={number}")

    join = cq.AdaptiveJoin(spark).relation("views").relation("follows", follows).relation("offers", offers)
    join = join.on("views.who = follows.who AND views.item = offers.item")
    batch = join.select("views.item", "follows.follower", "offers.offer").batch(then=write)

    stream = views.writeStream.foreachBatch(batch).option("checkpointLocation", f"{out}/checkpoint")
    return stream.trigger(availableNow=True).start()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: python {sys.argv[0]} DATA OUT")
    start(SparkSession.builder.appName("views").getOrCreate(), *sys.argv[1:]).awaitTermination()
