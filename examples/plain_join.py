"""A Spark job as there are many: page views as they come, joined with who follows the viewer and with what is on offer for the page's item.

The joins are done in the order in which they are written, whatever the data are like. ``adaptive_join.py`` next to it is the same job with
the order and the operators chosen again for every micro-batch; a diff of the two is what that takes.

    python examples/plain_join.py DATA OUT

``DATA`` has Parquet folders ``follows`` (who, follower), ``offers`` (item, offer) and, as they come, ``views`` (who, item).
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery


def start(spark: SparkSession, data: str, out: str) -> StreamingQuery:
    """Begins the job; it ends when all existing views have been joined."""
    follows = spark.read.parquet(f"{data}/follows").cache()
    offers = spark.read.parquet(f"{data}/offers").cache()
    views = spark.readStream.schema("who long, item long").option("maxFilesPerTrigger", 1).parquet(f"{data}/views")

    def write(rows: DataFrame, number: int) -> None:
        rows.write.mode("overwrite").parquet(f"{out}/rows/batch={number}")

    def batch(views: DataFrame, number: int) -> None:
        rows = views.join(follows, "who").join(offers, "item")
        write(rows.select("item", "follower", "offer"), number)

    stream = views.writeStream.foreachBatch(batch).option("checkpointLocation", f"{out}/checkpoint")
    return stream.trigger(availableNow=True).start()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: python {sys.argv[0]} DATA OUT")
    start(SparkSession.builder.appName("views").getOrCreate(), *sys.argv[1:]).awaitTermination()
