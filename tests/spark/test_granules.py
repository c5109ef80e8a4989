"""Rows shuffled to a partitioned probe: the index pages that a task reads are needed by no other task."""

from __future__ import annotations

import duckdb
import numpy as np
from mixed_frames import for_duckdb
from pyspark.sql import SparkSession

from cqels_opt.rdf.ids import KIND_INTEGER, KIND_IRI, KIND_SHIFT
from cqels_opt.spark.partitioned import granule

PAGE = 4096 // 8  # keys of an index


def keys(count: int, kind: int) -> np.ndarray:
    """Sorted ids of a kind whose payloads are hash values."""
    payloads = np.random.default_rng(1).integers(0, 1 << KIND_SHIFT, count)
    return np.sort(payloads | kind << KIND_SHIFT)


def granules(ids: np.ndarray, parts: int) -> np.ndarray:
    """In DuckDB, without Spark."""
    text = for_duckdb(granule("id", parts))
    found = duckdb.sql(f"SELECT {text} AS g FROM (SELECT unnest($ids) AS id)", params={"ids": ids}).fetchnumpy()
    return np.asarray(found["g"], np.int64)


def pages(ids: np.ndarray, by: np.ndarray, parts: int) -> list[float]:
    """The share of an index's pages that the keys of each task are on, if the hash of ``by`` distributes the rows."""
    to = (by.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)) % np.uint64(parts)
    lies_on, every = np.arange(len(ids)) // PAGE, -(-len(ids) // PAGE)
    return [len(np.unique(lies_on[to == part])) / every for part in range(parts)]


def test_a_task_touches_its_share_of_the_pages() -> None:
    """By granule about one eighth, by the key itself all."""
    parts, ids = 8, keys(1_000_000, KIND_IRI)
    assert min(pages(ids, ids, parts)) > 0.99
    shares = pages(ids, granules(ids, parts), parts)
    assert max(shares) < 2 / parts
    assert sum(shares) < 1.5


def test_values_in_ids_are_spread_one_by_one() -> None:
    """A hundred small integers have equal upper bits; they are distributed over the tasks nevertheless."""
    ids = (np.arange(100) + (1 << 59)) | KIND_INTEGER << KIND_SHIFT
    assert len(np.unique(granules(ids, 8))) == 100


def test_spark_means_the_same(spark: SparkSession) -> None:
    ids = np.concatenate([keys(50, KIND_IRI), keys(50, KIND_INTEGER)])
    frame = spark.createDataFrame([(int(i),) for i in ids], "id long")
    found = [row.g for row in frame.selectExpr(f"{granule('id', 8)} AS g").collect()]
    assert found == granules(ids, 8).tolist()
