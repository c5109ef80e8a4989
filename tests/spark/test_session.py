"""The session of the commands: the settings beyond those of its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cqels_opt.spark.session import FILE_MANAGER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_logs_of_a_checkpoint_are_written_without_processes(spark: SparkSession) -> None:
    """By a class that this Spark version has."""
    name = spark.conf.get(FILE_MANAGER)
    assert name is not None and name.endswith(".FileSystemBasedCheckpointFileManager")
    spark.sparkContext._jvm.java.lang.Class.forName(name)  # type: ignore[union-attr]
