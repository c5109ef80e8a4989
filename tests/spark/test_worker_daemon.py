from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cqels_opt.spark.warm_up import await_worker, warm_up
from cqels_opt.spark.worker_daemon import without_archives

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_only_the_archives_of_the_package_are_left_out() -> None:
    path = [
        "/v/pyspark/python/lib/pyspark.zip",
        "/v/pyspark/python/lib/py4j-0.10-src.zip",
        "/mine/deps.zip",
        "/v/pyspark/python/lib",
        "/v",
    ]
    assert without_archives(path, Path("/v/pyspark")) == ["/mine/deps.zip", "/v/pyspark/python/lib", "/v"]
    assert without_archives(path, Path("/other")) == path


def _file(_: object) -> list[str]:
    import pyspark

    return [str(pyspark.__file__)]


def test_workers_import_the_installed_package(spark: SparkSession) -> None:
    warm_up(spark)
    await_worker()
    (file,) = spark.sparkContext.parallelize([0], 1).mapPartitions(_file).collect()
    assert ".zip" not in file


def test_a_session_that_has_ended_is_no_failure(spark: SparkSession) -> None:
    class Ended:
        @property
        def sparkContext(self) -> object:  # noqa: N802 - Spark's name
            raise ConnectionRefusedError

    warm_up(Ended())  # type: ignore[arg-type]
    await_worker()
