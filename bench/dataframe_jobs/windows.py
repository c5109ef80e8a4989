"""Rivals for joins of windows: Spark's stream-stream join with its RocksDB state store, and windows that the job keeps itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cqels_opt.bench.apart import empty_folder
from cqels_opt.bench.dataframe_jobs.job import Batch, Case, files_of
from cqels_opt.spark.plain_join import DataFrame

WATERMARK = "1 minute"
"""A stream-stream join drops rows that are as old as its watermark: equal times at the end of a micro-batch must not be."""
SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.pollingDelay": "250ms",  # while other contenders have their turn; it is not in the measured time
}


def unchanged(rows: DataFrame) -> DataFrame:
    """The rows of a query are its answers."""
    return rows


@dataclass(frozen=True, slots=True)
class Side:
    """One of the relations over the stream: its rows by a condition, and the seconds for which they are kept (0: not)."""

    where: str
    seconds: int


@dataclass(frozen=True, slots=True)
class WindowJoin:
    """A query over relations over one stream, and static tables; ``t`` is the time of a row.

    ``finish`` computes the answers from the rows of the query in a micro-batch.
    """

    sides: Mapping[str, Side]
    query: str
    finish: Callable[[DataFrame], DataFrame] = unchanged

    def stream_stream(self, case: Case) -> Batch:
        """A streaming query over the same files, which gets each file in its turn.

        Its milliseconds are those of Spark's own progress report for planning and running the micro-batch, with its state store.
        The logs of a streaming query do not count, because the other contenders run inside one and do not pay for its logs. Where more
        than two relations are joined, the state of all but the first grows.
        """
        source, files = empty_folder(case.state / "source"), files_of(case.data / "stream")
        frame = case.spark.readStream.schema(case.spark.read.parquet(str(files[0])).schema).parquet(str(source))
        for number, (name, side) in enumerate(self.sides.items()):
            rows = frame.where(side.where)
            if number == 0 or len(self.sides) == 2:  # the input of a join may have one watermark
                rows = rows.withWatermark("t", WATERMARK)
            rows.createOrReplaceTempView(name)
        writer = case.spark.sql(self.query).writeStream.foreachBatch(lambda rows, number: case.sink(self.finish(rows), number))
        query = writer.option("checkpointLocation", str(case.state / "checkpoint")).start()
        done = 0

        def batch(frame: DataFrame, number: int) -> float:
            nonlocal done
            os.link(files[number], source / files[number].name)
            query.processAllAvailable()
            new = [one for one in query.recentProgress if one["batchId"] >= done]
            done = max(one["batchId"] for one in new) + 1
            return float(sum(one["durationMs"].get(part, 0) for one in new for part in ("queryPlanning", "addBatch")))

        return batch

    def by_hand(self, case: Case) -> Batch:
        """For two relations: keeps the rows of the longest window as Parquet; joins new rows with all, and kept rows with new ones."""
        kept: Path | None = None
        longest = max(side.seconds for side in self.sides.values())
        held = " OR ".join(f"({side.where})" for side in self.sides.values() if side.seconds)

        def batch(frame: DataFrame, number: int) -> None:
            nonlocal kept
            new = frame.persist()
            try:
                greatest = new.selectExpr("max(unix_micros(t)) AS greatest").collect()[0]["greatest"]
                session = frame.sparkSession
                old = session.read.schema(new.schema).parquet(str(kept)) if kept is not None else new.limit(0)
                every = old.unionByName(new)
                case.sink(self._answers(new, old, every), number)
                kept = case.state / f"{number:04d}"
                left = every.where(held).where(f"unix_micros(t) > {greatest - longest * 1_000_000}")
                left.coalesce(1).write.parquet(str(kept))
            finally:
                new.unpersist()

        return batch

    def _answers(self, new: DataFrame, old: DataFrame, every: DataFrame) -> DataFrame:
        (left, right), (first, _) = self.sides, self.sides.values()
        found = self._over({left: new, right: every})
        return found if not first.seconds else found.unionByName(self._over({left: old, right: new}))

    def _over(self, frames: Mapping[str, DataFrame]) -> DataFrame:
        for name, frame in frames.items():
            frame.where(self.sides[name].where).createOrReplaceTempView(name)
        return frame.sparkSession.sql(self.query)
