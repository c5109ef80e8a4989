"""Hand-written jobs have the engine's answers, so that their times are comparable."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pandas as pd
import pytest

from cqels_opt.bench import rivals
from cqels_opt.bench.answers import answers_of_folders, digest_of_folders
from cqels_opt.bench.local import Prepared, Ran, prepare, small_world
from cqels_opt.bench.rivals import as_written, tuned
from cqels_opt.bench.rivals.jobs import PLANNER, TRIPLES, VIEWS, Job, settings_kept
from cqels_opt.bench.scenarios import QUERIES
from cqels_opt.bench.social import STEADY, STREAM
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.spark.stream import chunk_stream
from cqels_opt.windows.batch_size import BatchSize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARKS, STANDARD = (
    "LATERAL VIEW explode(sequence(1, c.n)) AS occurrence",
    "CROSS JOIN UNNEST(range(c.n::BIGINT)) AS o(occurrence)",
)
NAMES = ("q1", "q2", "q3", "q4")


def test_of_answers_that_stand_the_new_ones_count(tmp_path: Path) -> None:
    """An answer at two successive instants is ISTREAM's at the first; if the second has it twice, it is new once."""
    for batch, rows in ((0, [(5, "a"), (6, "a"), (6, "b")]), (1, [(7, "a"), (7, "a"), (7, "b"), (9, "b")])):
        folder = tmp_path / f"batch={batch}"
        folder.mkdir()
        (folder / "part.json").write_text("".join(json.dumps({"time": t, "x": x}) + "\n" for t, x in rows), encoding="utf-8")
    assert sorted((t, row["x"]) for t, row in answers_of_folders(tmp_path, True)) == [(5, "a"), (6, "b"), (7, "a"), (9, "b")]
    assert len(list(answers_of_folders(tmp_path, False))) == 7


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world whose stream lasts a minute; its windows are of 30 seconds."""
    folder = tmp_path_factory.mktemp("rivals")
    small_world(folder, 5, places=60, elements=3_000, phases=STEADY, quick=True)
    return folder


@pytest.fixture(scope="module")
def prepared(world: Path) -> dict[str, tuple[Prepared, Ran]]:
    """Each query and the engine's answers, for the stream in two batches."""
    found = {}
    for name in NAMES:
        text, size = (QUERIES / f"{name}.rq").read_text(encoding="utf-8"), BatchSize(duration=30_000)
        query = prepare(name, text, world / "store", {STREAM: world / "stream.ndjson"}, world / name, size)
        found[name] = (query, query.run("adaptive", PlannerOptions("adaptive")))
    return found


@pytest.mark.long
@pytest.mark.parametrize("style", ["as_written", "tuned"])
def test_the_sql_means_what_the_queries_mean(
    world: Path, prepared: dict[str, tuple[Prepared, Ran]], tmp_path: Path, style: str
) -> None:
    """Its text in another engine, over the whole stream at once: then all elements are new and in the window."""
    connection = duckdb.connect()
    lines = [line for file in ("static.nt", "places.nt") for line in (world / file).read_text(encoding="utf-8").splitlines()]
    static = pd.DataFrame([re.fullmatch(r"(\S+) (\S+) (.*) \.", line).groups() for line in lines], columns=list("spo"))  # type: ignore[union-attr]
    elements = [json.loads(line) for line in (world / "stream.ndjson").read_text(encoding="utf-8").splitlines()]
    connection.register(TRIPLES, static)
    connection.register("now", pd.DataFrame([(e["s"], e["o"], e["t"]) for e in elements], columns=["person", "loc", "t"]))
    for name, view in VIEWS.items():
        connection.execute(f"CREATE VIEW {name} AS {view}")
    for name, (_, ours) in prepared.items():
        for table, made in tuned.TABLES[name].items():
            connection.execute(f"CREATE OR REPLACE TABLE tuned_{table} AS {made}")
        text = (Path(rivals.__file__).parent / style / f"{name}.sql").read_text(encoding="utf-8")
        text = re.sub(r"\brecent w\b", "now w", text).replace(SPARKS, STANDARD)
        out = tmp_path / name / "batch=0"
        out.mkdir(parents=True)
        rows = connection.execute(text).fetchdf().to_dict("records")
        (out / "answers.json").write_text("".join(json.dumps(row, default=int) + "\n" for row in rows), encoding="utf-8")
        assert (name, *digest_of_folders(tmp_path / name, name != "q1")) == (name, ours.answers, ours.digest)
        assert ours.answers > 1_000


@pytest.mark.long
@pytest.mark.parametrize(("style", "name"), [("as_written", "q2"), ("tuned", "q3"), ("tuned", "q4")])
def test_the_jobs_answer_as_the_engine_does(
    spark: SparkSession, world: Path, prepared: dict[str, tuple[Prepared, Ran]], tmp_path: Path, style: str, name: str
) -> None:
    query, ours = prepared[name]
    start = {"as_written": as_written.start, "tuned": tuned.start}[style]
    with settings_kept(spark, PLANNER):
        job = Job(name, chunk_stream(spark, query.replay.chunk_folder), world, tmp_path)
        start(spark, job).awaitTermination()
        spark.catalog.clearCache()
    assert digest_of_folders(job.answers, job.standing) == (ours.answers, ours.digest)
    assert set(job.effective) == set(PLANNER)
    if style == "tuned":
        assert set(job.effective.values()) == {"true"}
