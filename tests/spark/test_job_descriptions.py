"""The descriptions of Spark jobs, read back from Spark's status store, which feeds its UI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PythonException

import cqels_opt as cq
from cqels_opt.spark.job_descriptions import DESCRIPTION, LONGEST, batch_name, described, joined
from cqels_opt.spark.runner import SparkRunner

from .described_jobs import Jobs
from .small_world import CROWDS, MAP, MET, rows, write_world

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def users_description(spark: SparkSession, text: str | None) -> Iterator[None]:
    """What a job, or Spark for foreachBatch, has set."""
    spark.sparkContext.setLocalProperty(DESCRIPTION, text)  # type: ignore[arg-type]
    try:
        yield
    finally:
        spark.sparkContext.setLocalProperty(DESCRIPTION, None)  # type: ignore[arg-type]


def current(spark: SparkSession) -> str | None:
    return spark.sparkContext.getLocalProperty(DESCRIPTION)


# ------------------------------------------------------------------ the context manager
@pytest.mark.parametrize("before", [None, "id = 7f\nrunId = 3a\nbatch = 12"])
def test_the_description_of_before_is_restored(spark: SparkSession, before: str | None) -> None:
    jobs = Jobs(spark)
    with users_description(spark, before):
        with described(spark.sparkContext, "q1 batch 12: ingest"):
            spark.sparkContext.parallelize([1], 1).count()
            with described(spark.sparkContext, "count keys of places"):
                spark.range(2).collect()
        assert current(spark) == before
        spark.sparkContext.parallelize([1], 1).count()
    assert jobs.texts == ["q1 batch 12: ingest", "count keys of places", before or ""]


def test_it_is_restored_after_an_error(spark: SparkSession) -> None:
    jobs = Jobs(spark)
    with users_description(spark, "mine"):
        with pytest.raises(PythonException), described(spark.sparkContext, "fails"):
            spark.sparkContext.parallelize([0], 1).map(lambda x: 1 // x).collect()
        assert current(spark) == "mine"
    assert jobs.texts == ["fails"]


def test_an_error_is_not_replaced_by_that_of_a_stopped_session() -> None:
    class Stopped:
        """A context that was stopped within the block."""

        def getLocalProperty(self, key: str) -> None:  # noqa: N802 - Spark's name
            return None

        def setJobDescription(self, text: str) -> None:  # noqa: N802 - Spark's name
            """Still runs."""

        def setLocalProperty(self, key: str, value: None) -> None:  # noqa: N802 - Spark's name
            raise AttributeError("'NoneType' object has no attribute 'sc'")

    stopped: Any = Stopped()
    with pytest.raises(ValueError, match="mine"), described(stopped, "ingest"):
        raise ValueError("mine")


def test_the_texts() -> None:
    assert batch_name(["q1"], 12) == "q1 batch 12"
    assert batch_name(["a", "b"], 0) == "a, b batch 0"
    assert batch_name([f"q{i}" for i in range(1_200)], 3) == "1,200 queries batch 3"
    assert batch_name([], 3) == "batch 3"
    assert joined(["departures » planes[?tail]"]) == "join departures » planes[?tail]"
    assert joined(["a » b[?x]", "b » a[?x]", "c » b[?x]"]) == "join a » b[?x] and 2 more plans"
    assert joined(["departures"]) == joined([]) == "evaluate"
    assert len(joined(["a" + " » b[?x]" * 100] * 3)) <= LONGEST


# ------------------------------------------------------------------ SPARQL
def frame_of(spark: SparkSession, some: list[tuple[str, str, str, int]]) -> DataFrame:
    return spark.createDataFrame(some, "s string, p string, o string, t long")


def test_jobs_of_a_drop_in(spark: SparkSession, tmp_path: Path) -> None:
    """Each job of a batch has a description; those of the sink have that of the user's job."""
    files = write_world(tmp_path, 1)
    engine = cq.Engine(spark, static=files.static, graphs={MAP: files.places})
    adaptive = engine.adaptive(MET, lambda frame, number: frame.collect(), tmp_path / "state", id="met")
    for number, part in enumerate((rows(40), rows(80)[40:])):
        frame = frame_of(spark, part)
        jobs = Jobs(spark)
        with users_description(spark, f"user's batch {number}"):
            adaptive(frame, number)
            assert current(spark) == f"user's batch {number}"
        *ours, of_sink = jobs.texts
        assert of_sink == f"user's batch {number}"
        if number == 0:
            ingested, joins = ours
            assert ingested == "met batch 0: ingest"
            assert joins.startswith("met batch 0: join now » ") and joins.endswith(" and 1 more plan")
        else:
            assert ours == ["met batch 1: ingest and join"]


def test_jobs_of_several_queries(spark: SparkSession, tmp_path: Path) -> None:
    files = write_world(tmp_path / "world", 1)
    engine = cq.Engine(spark, static=files.static, graphs={MAP: files.places})
    engine.register(MET, id="met")
    engine.register(CROWDS, id="crowds")
    (tmp_path / "in").mkdir()
    frame_of(spark, rows(40)).coalesce(1).write.json(str(tmp_path / "in" / "0"))
    stream = spark.readStream.schema("s string, p string, o string, t long").json(str(tmp_path / "in" / "*"))
    jobs = Jobs(spark)
    run = engine.start({"http://ex.org/S": stream}, tmp_path / "out", tmp_path / "state", to_the_end=True)
    assert run.await_termination()
    texts = jobs.texts
    assert texts[0] == "met, crowds batch 0: ingest"
    assert texts[1].startswith("met, crowds batch 0: join ") and texts[1].endswith(" more plans")


def test_a_merge_is_described(spark: SparkSession) -> None:
    jobs = Jobs(spark)
    assert SparkRunner(spark).merge([]) == []
    assert jobs.texts == ["merge small files of the state"]
    assert current(spark) is None
