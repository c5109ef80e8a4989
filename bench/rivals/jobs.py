"""Common parts of the jobs: inputs, outputs, the static data as Parquet tables of strings, and the start of a streaming query."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from cqels_opt.bench.social import AT
from cqels_opt.spark.plain_join import DataFrame
from cqels_opt.spark.session import SparkSession

StreamingQuery: TypeAlias = Any
"""Spark's handle of a streaming query."""

PLANNER = (
    "spark.sql.adaptive.enabled",
    "spark.sql.cbo.enabled",
    "spark.sql.cbo.joinReorder.enabled",
    "spark.sql.cbo.planStats.enabled",
    "spark.sql.statistics.histogram.enabled",
)
"""Planner settings. Inside ``foreachBatch`` they differ from the session's, so they are read there."""
TRIPLES = "triples"
_LINE = "^([^ ]+) ([^ ]+) (.*) [.]$"  # without backslashes, which Spark SQL would interpret

VIEWS = dict(
    re.findall(
        rf"VIEW (\w+) AS (SELECT [^;]*FROM {TRIPLES}[^;]*);",
        (Path(__file__).parent / "as_written" / "views.sql").read_text("utf-8"),
    )
)
"""The relations of the queries as SELECTs, one per predicate; the plain SQL uses them as views."""


@dataclass(frozen=True, slots=True)
class Job:
    """A query (``q1`` … ``q4``), the stream's chunks, the world's folder, and the folder for state, checkpoint and answers.

    ``window`` is in milliseconds. ``trigger`` None: the job processes the existing input and ends. ``after`` is called when the
    answers of a micro-batch are written. ``effective`` collects the settings of :data:`PLANNER` in a micro-batch.
    """

    query: str
    frame: DataFrame
    world: Path
    folder: Path
    window: int = 30_000
    trigger: str | None = None
    after: Callable[[int], None] | None = None
    effective: dict[str, str] = field(default_factory=dict)

    @property
    def standing(self) -> bool:
        """Whether its SQL returns all answers of an instant; that of Q1 returns those that elements add to the window."""
        return self.query != "q1"

    @property
    def answers(self) -> Path:
        """The folder of JSON files, one folder per micro-batch."""
        return self.folder / "answers"


ELEMENTS = "person string, loc string, t long, batch int"
"""The schema of a window's stored elements."""


@contextmanager
def settings_kept(spark: SparkSession, names: Iterable[str]) -> Iterator[None]:
    """Restores the session's settings of these names at the end."""
    before = {name: str(spark.conf.get(name)) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def located(delta: DataFrame) -> DataFrame:
    """The locations of people in the triples of a micro-batch."""
    return delta.where(f"p = '<{AT}>'").selectExpr("s AS person", "o AS loc", "t")


def begin(job: Job, batch: Callable[[DataFrame, int], None]) -> StreamingQuery:
    """Starts the streaming query of a job with its micro-batch function."""

    def whole(delta: DataFrame, number: int) -> None:
        batch(delta, number)
        job.effective.update({name: str(delta.sparkSession.conf.get(name)) for name in PLANNER})
        if job.after is not None:
            job.after(number)

    writer = job.frame.writeStream.foreachBatch(whole).option("checkpointLocation", str(job.folder / "spark"))
    trigger: dict[str, Any] = {"availableNow": True} if job.trigger is None else {"processingTime": job.trigger}
    return writer.trigger(**trigger).start()


def register_views(spark: SparkSession, world: Path) -> None:
    """Registers the static triples and the relations over them as temporary views."""
    spark.read.parquet(str(triples(spark, world))).createOrReplaceTempView(TRIPLES)
    for name, query in VIEWS.items():
        spark.sql(query).createOrReplaceTempView(name)


def triples(spark: SparkSession, world: Path) -> Path:
    """The folder of all static triples as Parquet, created on first use."""
    folder = world / "rivals" / TRIPLES
    if not (folder / "_SUCCESS").exists():
        lines = spark.read.text([str(world / "static.nt"), str(world / "places.nt")])
        parts = [f"regexp_extract(value, '{_LINE}', {i + 1}) AS {name}" for i, name in enumerate("spo")]
        lines.selectExpr(*parts).write.mode("overwrite").parquet(str(folder))
    return folder
