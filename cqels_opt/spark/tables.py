"""Static relations as Parquet files for Spark's own joins, written when a run first needs them.

They are in the run's folder but not part of its state; a restarted run writes them again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from cqels_opt.lod.store import StaticPattern
from cqels_opt.operators.block_relations import scan_static
from cqels_opt.operators.blocks import Static
from cqels_opt.operators.rows import Ints
from cqels_opt.runtime.evaluate_task import EvaluateTask
from cqels_opt.spark.job_descriptions import described
from cqels_opt.spark.paths import in_sql, to_read, to_write
from cqels_opt.spark.scan import scanned
from cqels_opt.state import worker_cache

ROWS = 500_000  # rows per file


@dataclass(frozen=True, slots=True)
class Table:
    """A relation's files, and its name in Spark's catalog if analysed. ``c<i>`` is the i-th variable, ``n`` multiplicities."""

    frame: DataFrame
    path: Path
    columns: tuple[str, ...]
    name: str

    @property
    def counted(self) -> bool:
        """Whether rows have multiplicities."""
        return "n" in self.columns


class Tables:
    """The static relations of a run, each created on first use within ``apart``, so that its jobs do not count as a batch's.

    ``analysed`` ones are tables with statistics of all their columns.
    """

    def __init__(self, analysed: bool, apart: Callable[[], AbstractContextManager[None]]) -> None:
        self.analysed, self.prefix, self._apart = analysed, f"cqels_opt_{os.urandom(4).hex()}", apart
        self._made: dict[tuple[str, StaticPattern | str], Table] = {}

    def get(self, spark: SparkSession, static: Static, task: EvaluateTask) -> Table:
        """The table of a relation."""
        key, folder = (task.program.store, static.at), task.step.path / "spark-tables"
        if not self._made:
            shutil.rmtree(folder, ignore_errors=True)
        if key not in self._made:
            with self._apart(), described(spark.sparkContext, f"write the relation {static.name} as Parquet"):
                self._made[key] = self._table(spark, static, task.program.store, folder)
        return self._made[key]

    def _table(self, spark: SparkSession, static: Static, store: str, folder: Path) -> Table:
        counted = worker_cache.relation(store, static.at).n is not None or not static.variables
        columns = (*(f"c{i}" for i in range(len(static.variables))), *(["n"] if counted else []))

        def read() -> Sequence[Ints]:
            held = scan_static(static, store)
            return [*(held.columns[v] for v in static.variables), *([held.n] if counted else [])]

        name = f"{self.prefix}_{len(self._made)}"
        path, schema = folder / name, ", ".join(f"{c} BIGINT" for c in columns)
        parts = max(1, min(spark.sparkContext.defaultParallelism, static.rows // ROWS))
        scanned(spark, read, columns, parts).write.parquet(to_write(path))
        if self.analysed:
            spark.sql(f"CREATE TABLE {name} ({schema}) USING parquet LOCATION {in_sql(path)}")
            spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR ALL COLUMNS")
        return Table(spark.read.schema(schema).parquet(to_read(path)), path, columns, name)
