"""Measures Spark's costs on this machine and master: a job, an additional stage, a shuffled row and a broadcast row."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast

from cqels_opt.planner.calibration import Experiment, Timer, Work, fitted, least_seconds
from cqels_opt.planner.calibration_store import SPARK_NAMES
from cqels_opt.spark.ingest_rows import Batches
from cqels_opt.spark.job_descriptions import described
from cqels_opt.spark.session import settings

ROWS = (100_000, 1_000_000)  # shuffled or broadcast; the time of few rows would be lost in that of a job
WIDTH = 5  # columns of a row: three variables and an interval
QUIET = {"spark.sql.adaptive.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "-1"}


def elapsed(experiments: Sequence[Experiment]) -> list[float]:
    """The least wall-clock time of each experiment, because other processes do Spark's work."""
    return least_seconds(experiments, clock=time.perf_counter)


def measure(spark: SparkSession, timer: Timer = elapsed) -> dict[str, float]:
    """Spark's constants by name. Takes about ten seconds; the slow first jobs of a session are not measured."""
    with settings(spark, QUIET), described(spark.sparkContext, "calibrate the cost model"):
        tried = list(experiments(spark))
        found = fitted(zip([experiment.work for experiment in tried], timer(tried)))
    return {name: found[name] for name in SPARK_NAMES}


def experiments(spark: SparkSession) -> Iterator[Experiment]:
    """All experiments. Generating and counting rows (``made``) and a join's own job (``joined``) are fitted to separate them."""
    yield _experiment(_passed(spark.range(0, 1, 1, 1)), {"job": 1})
    yield _experiment(_passed(_passed(spark.range(0, 2, 1, 2)).repartition(2)), {"job": 1, "stage": 1})
    for rows in ROWS:
        made = _made(spark, rows)
        yield _experiment(_counted(made), {"job": 1, "made": rows})
        yield _experiment(_counted(made.repartition(2, "c0")), {"job": 1, "made": rows, "stage": 1, "shuffle": rows})
        few = spark.range(0, 100, 1, 1)
        joined = few.join(broadcast(made), few.id == made.c0).selectExpr("c1")
        yield _experiment(_counted(joined), {"job": 1, "joined": 1, "broadcast": rows})


def _experiment(frame: DataFrame, work: Work) -> Experiment:
    return Experiment(work, frame.collect)


def _made(spark: SparkSession, rows: int) -> DataFrame:
    columns = ["id AS c0", *(f"id + {i} AS c{i}" for i in range(1, WIDTH))]
    return spark.range(0, rows, 1, 2).selectExpr(*columns)


def _passed(frame: DataFrame) -> DataFrame:
    """Through a Python stage, like our stages."""

    def run(batches: Batches) -> Batches:
        yield from batches

    return frame.mapInArrow(run, "id long")


def _counted(frame: DataFrame) -> DataFrame:
    """One row per task: the number of its rows."""

    def run(batches: Batches) -> Batches:
        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"n": pa.array([sum(batch.num_rows for batch in batches)], pa.int64())})

    return frame.mapInArrow(run, "n long")
