"""The jobs that others would write give the answers that the engine gives, so that comparing times means something."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cqels_opt.bench.local import Prepared, prepare, small_world
from cqels_opt.bench.scenarios import QUERIES
from cqels_opt.bench.social import STEADY, STREAM
from cqels_opt.operators.planner import PlanMode
from cqels_opt.windows.replay import BatchSize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cqels_opt.bench.rivals.jobs import Job, StreamingQuery

NAMES = ("q1", "q2", "q3", "q4")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Prepared]:
    """Each query over the same world; its stream is cut into batches of 20 seconds, its windows hold 30."""
    folder = tmp_path_factory.mktemp("rivals")
    store, stream = small_world(folder, 5, places=60, elements=3_000, phases=STEADY, quick=True)
    size = BatchSize(duration=20_000)
    return {
        name: prepare(name, (QUERIES / f"{name}.rq").read_text(), store, {STREAM: stream}, folder / name, size) for name in NAMES
    }


@pytest.mark.parametrize("style", ["as_written", "tuned"])
def test_rivals_answer_as_the_engine_does(spark: SparkSession, prepared: dict[str, Prepared], tmp_path: Path, style: str) -> None:
    from cqels_opt.bench.contenders import digest_of_folders, settings_kept
    from cqels_opt.bench.rivals import as_written, tuned
    from cqels_opt.bench.rivals.jobs import Job
    from cqels_opt.spark.stream import chunk_stream

    start: Callable[[SparkSession, Job], StreamingQuery] = {"as_written": as_written.start, "tuned": tuned.start}[style]
    for name, query in prepared.items():
        ours = query.run("adaptive", PlanMode("adaptive"))
        with settings_kept(spark, tuned.SETTINGS):
            job = Job(name, chunk_stream(spark, query.replay.chunk_folder), query.folder.parent, tmp_path / name)
            start(spark, job).awaitTermination()
            spark.catalog.clearCache()
        assert (name, ours.answers, ours.digest) == (name, *digest_of_folders(job.answers))
        assert ours.answers > 50
