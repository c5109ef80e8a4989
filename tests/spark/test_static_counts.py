"""The counts of the keys of static relations: few rows are counted in the driver, more of them by Spark, with the same result."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as f

from cqels_opt.relational.planner import Counts
from cqels_opt.spark import join_counts
from cqels_opt.spark.catalyst import analyzed
from cqels_opt.spark.join_counts import row_width, static_counts

from .join_orders import frame_of_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 400


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Numbers and texts with nulls and repetitions, in three files, one of them empty."""
    some, folder = np.random.default_rng(5), tmp_path_factory.mktemp("table")
    numbers = pa.array([None if n < 5 else n for n in some.integers(0, 60, ROWS).tolist()], pa.int64())
    texts = pa.array([None if n > 7 else f"t{n}" for n in some.integers(0, 10, ROWS).tolist()], pa.string())
    rows = frame_of_table(spark, pa.table({"n": numbers, "s": texts}))
    rows.where("n % 2 = 0 OR n IS NULL").coalesce(1).write.parquet(f"file://{folder}/even")
    rows.where("n % 2 = 1").coalesce(1).write.parquet(f"file://{folder}/odd")
    rows.where("false").coalesce(1).write.parquet(f"file://{folder}/none")
    return spark.read.parquet(*(f"file://{folder}/{part}" for part in ("even", "odd", "none")))


def counted(table: DataFrame) -> Counts:
    return static_counts(table, {"n": f.expr("n"), "s": f.expr("upper(s)")})


def plain(counts: Counts) -> tuple[int, dict[str, tuple[float, dict[int, int]]]]:
    keys = {name: (of.distinct, dict(zip(*(a.tolist() for a in of.held)))) for name, of in counts.keys.items()}
    assert all(of.rows == counts.rows and not of.level for of in counts.keys.values())
    return counts.rows, keys


@pytest.mark.parametrize("few_bytes, few_rows", [(1 << 20, 1_000), (1 << 20, 50), (0, 1_000)])
def test_both_ways_to_count_agree(table: DataFrame, monkeypatch: pytest.MonkeyPatch, few_bytes: int, few_rows: int) -> None:
    """Fewer rows than a partition has: the driver gives up, and Spark counts."""
    monkeypatch.setattr(join_counts, "FEW_BYTES", few_bytes)
    monkeypatch.setattr(join_counts, "FEW_ROWS", few_rows)
    expected = {
        name: Counter(row[0] for row in table.selectExpr(f"xxhash64({text})").where(f"{text} IS NOT NULL").collect())
        for name, text in (("n", "n"), ("s", "upper(s)"))
    }
    assert plain(counted(table)) == (ROWS, {name: (float(len(of)), dict(of)) for name, of in expected.items()})


def test_bytes_are_measured_where_spark_does_not_know_them(spark: SparkSession, table: DataFrame) -> None:
    """The rows of an RDD have no size, and texts count 20 bytes by default: a broadcast of long ones would not fit."""
    texts = spark.createDataFrame([(i, "x" * 1_000) for i in range(30)], "n int, s string")
    unsized = spark.createDataFrame(texts.rdd, "n int, s string")
    found = static_counts(unsized, {"n": f.col("n")})
    assert found.width == 1_012
    assert row_width(analyzed(unsized), found) == 1_012
    assert row_width(analyzed(unsized)) < 100
    assert counted(table).width is None


@pytest.mark.parametrize("few_bytes", [1 << 20, 0])
def test_bytes_are_measured_where_a_relation_has_fewer_rows_than_its_table(
    table: DataFrame, monkeypatch: pytest.MonkeyPatch, few_bytes: int
) -> None:
    """Spark's size of a filter, an aggregate or a join is not that of the rows that they leave."""
    monkeypatch.setattr(join_counts, "FEW_BYTES", few_bytes)
    few = {
        "filter": table.where("n = 7 AND s IS NOT NULL"),
        "aggregate": table.groupBy("n").agg(f.first("s", True).alias("s")).where("s IS NOT NULL"),
        "semi join": table.where("s IS NOT NULL").join(table.select("n").limit(1), "n", "left_semi"),
    }
    for how, rows in few.items():
        found = static_counts(rows, {"n": f.col("n")})
        assert 0 < found.rows < 70, how
        assert found.width == 18, how  # a number, and a text of two letters with its place
        assert row_width(analyzed(rows), found) == 28, how  # the default size of a text is 20 bytes
    assert static_counts(table.alias("t"), {"n": f.col("n")}).width is None


def test_bytes_of_arrays_are_measured(table: DataFrame) -> None:
    rows = table.where("n = 7").selectExpr("n", "array_repeat('abcdefgh', 100) AS texts")
    assert (static_counts(rows, {"n": f.col("n")}).width or 0) > 800


def test_no_rows_and_no_keys(table: DataFrame) -> None:
    assert plain(counted(table.where("n > 1000"))) == (0, {"n": (0.0, {}), "s": (0.0, {})})
    assert static_counts(table, {}) == Counts(ROWS, {})
