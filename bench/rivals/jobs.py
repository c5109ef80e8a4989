"""What the jobs have in common: their inputs and outputs, the columns of an element, and how a streaming query is begun."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from cqels_opt.bench.social import AT
from cqels_opt.spark.session import SparkSession
from cqels_opt.spark.stream import DataFrame

StreamingQuery: TypeAlias = Any
"""Spark's handle of a streaming query."""

PLANNER = (
    "spark.sql.adaptive.enabled",
    "spark.sql.cbo.enabled",
    "spark.sql.cbo.joinReorder.enabled",
    "spark.sql.cbo.planStats.enabled",
    "spark.sql.statistics.histogram.enabled",
)
"""What Spark's planner may do. Inside ``foreachBatch`` it is not what the session was set to: it is looked up there."""


@dataclass(frozen=True, slots=True)
class Job:
    """A query (``q1`` … ``q4``), the stream's chunks, the world's folder, and where state, checkpoint and answers go.

    ``window`` is in milliseconds. ``trigger`` None: what is there is done, and then the job ends. ``after`` is called when the answers
    of a micro-batch are written. ``effective`` takes the settings of :data:`PLANNER` as they are in a micro-batch.
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
        """Whether its SQL gives all answers of an instant; that of Q1 gives what elements add to the window."""
        return self.query != "q1"

    @property
    def answers(self) -> Path:
        """A folder a micro-batch, of JSON files."""
        return self.folder / "answers"


@contextmanager
def settings_kept(spark: SparkSession, names: Iterable[str]) -> Iterator[None]:
    """The session's settings of these names are afterwards what they were."""
    before = {name: str(spark.conf.get(name)) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


class Elements:
    """The columns in which the elements of a window are kept."""

    SCHEMA = "person string, loc string, t long, batch int"


def located(delta: DataFrame) -> DataFrame:
    """Who is where, of the triples of a micro-batch."""
    return delta.where(f"p = '<{AT}>'").selectExpr("s AS person", "o AS loc", "t")


@dataclass(frozen=True, slots=True)
class Written:
    """A job, and what it does with a micro-batch."""

    job: Job
    batch: Callable[[DataFrame, int], None]

    def begin(self, spark: SparkSession) -> StreamingQuery:
        """Starts the streaming query."""
        job = self.job

        def batch(delta: DataFrame, number: int) -> None:
            self.batch(delta, number)
            job.effective.update({name: str(delta.sparkSession.conf.get(name)) for name in PLANNER})
            if job.after is not None:
                job.after(number)

        writer = job.frame.writeStream.foreachBatch(batch).option("checkpointLocation", str(job.folder / "spark"))
        trigger: dict[str, Any] = {"availableNow": True} if job.trigger is None else {"processingTime": job.trigger}
        return writer.trigger(**trigger).start()
