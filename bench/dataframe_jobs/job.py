"""A job over DataFrames: its data, its static tables, and the contenders that run it on the same micro-batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet

from cqels_opt.adaptive_join import AdaptiveJoin
from cqels_opt.bench.rivals.jobs import PLANNER
from cqels_opt.spark.extension import ENABLED
from cqels_opt.spark.plain_join import DataFrame
from cqels_opt.spark.session import SparkSession

Batch: TypeAlias = Callable[[DataFrame, int], float | None]
"""Runs one micro-batch; returns milliseconds if it has measured them itself."""
Digest: TypeAlias = tuple[int, int]
"""The number of answers of a micro-batch, and a sum of their hashes that does not depend on their order."""


@dataclass(slots=True)
class Sink:
    """The sink of every contender: it computes the digest of the rows that it gets."""

    columns: tuple[str, ...]
    rows: int = 0
    hashes: int = 0

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Computes all rows of a micro-batch, or of a part of one, and adds their digest."""
        hashes = f"sum(CAST(hash({', '.join(self.columns)}) AS LONG)) AS hashes"
        found = frame.selectExpr("count(*) AS rows", hashes).collect()[0]
        self.rows += found["rows"]
        self.hashes += found["hashes"] or 0

    def take(self) -> Digest:
        """The digest since the last call."""
        found, self.rows, self.hashes = (self.rows, self.hashes), 0, 0
        return found


@dataclass(frozen=True, slots=True)
class Case:
    """What a contender gets: the session, the data, a folder of its own, the static tables (also temporary views), its sink."""

    spark: SparkSession
    data: Path
    state: Path
    tables: Mapping[str, DataFrame]
    sink: Sink
    quick: bool


@dataclass(frozen=True, slots=True)
class Contender:
    """A way to run a job; ``planner`` of the settings of :data:`cqels_opt.bench.rivals.jobs.PLANNER` are on, AQE first.

    ``extension`` turns on the extension of Spark's optimizer.
    """

    start: Callable[[Case], Batch]
    planner: int = 1
    extension: bool = False

    def settings(self) -> dict[str, str]:
        """The settings of Spark during its turn."""
        on = (*PLANNER[: self.planner], *([ENABLED] if self.extension else []))
        return {setting: str(setting in on).lower() for setting in (*PLANNER, ENABLED)}


@dataclass(frozen=True, slots=True)
class Job:
    """A job; ratios are relative to the contender ``base``, and the first ``warm_up`` micro-batches do not count (if quick: at most one).

    ``make`` writes the data to a folder (small if quick) and returns a description; its last argument is the user's folder of
    data. Each micro-batch is a file in the folder ``stream``. ``columns`` are the columns of the answers. ``phases`` are names of
    groups of micro-batches, ``phase`` returns the group of a micro-batch by its number and ``quick``. ``memory`` is the JVM's heap.
    A contender whose turns, warm-up included, take longer than ``limit`` seconds in total is ended.
    """

    name: str
    title: str
    make: Callable[[Path, bool, Path | None], str]
    tables: Callable[[SparkSession, Path], Mapping[str, DataFrame]]
    contenders: Mapping[str, Contender]
    columns: tuple[str, ...]
    base: str
    warm_up: int = 2
    stream: str = "stream"
    memory: str = "4g"
    limit: float = 3_600.0
    settings: Mapping[str, str] = field(default_factory=dict)
    phases: tuple[str, ...] = ()
    phase: Callable[[int, bool], int] | None = None


def uncounted(job: Job, quick: bool) -> int:
    """The number of micro-batches at the beginning that do not count."""
    return min(job.warm_up, 1) if quick else job.warm_up


def files_of(folder: Path) -> list[Path]:
    """The files of a stream, one per micro-batch, in order."""
    return sorted(folder.glob("*.parquet"))


def write_table(path: Path, rows: pd.DataFrame | pa.Table) -> None:
    """A table as a Parquet file that Spark reads: times in microseconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows, preserve_index=False)
    parquet.write_table(found, path, coerce_timestamps="us")


def write_stream(folder: Path, rows: pd.DataFrame, size: int, batches: int) -> None:
    """The first micro-batches of ``size`` rows each."""
    for number in range(batches):
        path = folder / f"{number:04d}.parquet"
        write_table(path, rows.iloc[number * size : (number + 1) * size])
        os.utime(path, (number, number))  # Spark orders files by their times, which would be equal


def cached(spark: SparkSession, data: Path, names: Iterable[str]) -> dict[str, DataFrame]:
    """Static tables in Spark's cache, as temporary views of the same names; computed before any clock starts."""
    tables = {}
    for name in names:
        tables[name] = spark.read.parquet(str(data / f"{name}.parquet")).cache()
        tables[name].count()
        tables[name].createOrReplaceTempView(name)
    return tables


def in_sql(case: Case, view: str, query: str) -> Batch:
    """The plain job: a query over the static tables and the micro-batch, which is a temporary view."""

    def batch(frame: DataFrame, number: int) -> None:
        frame.createOrReplaceTempView(view)
        case.sink(frame.sparkSession.sql(query), number)

    return batch


def names_of(columns: Iterable[str]) -> tuple[str, ...]:
    """The names of selected columns: ``planes.model AS model`` is ``model``."""
    return tuple(column.rpartition(" AS ")[2] for column in columns)


def enriched(join: AdaptiveJoin, case: Case, conditions: Mapping[str, str], columns: Iterable[str]) -> AdaptiveJoin:
    """A join with static tables, each by its condition, and the columns of the answers."""
    for name, on in conditions.items():
        join = join.relation(name, case.tables[name]).on(on)
    return join.select(*columns)
