"""Jobs whose session has Spark's UI: prints what the UI shows of their traces, for ``test_trace_page.py``."""

from __future__ import annotations

import gc
import json
import sys
import threading
import urllib.error
import urllib.request
import warnings
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import cqels_opt as cq
from cqels_opt.errors import EngineWarning
from cqels_opt.spark import trace_page
from cqels_opt.spark.join_run import JoinRun

from .small_world import MAP, MET, rows, write_world

FOLDER = Path(sys.argv[1])
NAME = "met <1> & others"  # markup in a name
PAGE = "cqels-opt page"
SCHEMA = "s string, p string, o string, t long"


def got(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def shown(spark: SparkSession, path: str) -> tuple[int, str]:
    """What the UI of a session answers."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(60_000)
    return got(f"{spark.sparkContext.uiWebUrl}{path}")


def servers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == PAGE]


def of_sparql(spark: SparkSession, engine: cq.Engine) -> dict[str, Any]:
    """A run of a registered query: its page while it is active, and after it was stopped."""
    engine.register(MET, id=NAME)
    (FOLDER / "in").mkdir()
    spark.createDataFrame(rows(40), SCHEMA).coalesce(1).write.json(str(FOLDER / "in" / "0"))
    stream = spark.readStream.schema(SCHEMA).json(str(FOLDER / "in" / "*"))
    trace = FOLDER / "sparql.jsonl"
    run = engine.start({"http://ex.org/S": stream}, FOLDER / "out", FOLDER / "checkpoint", trace)
    run.streaming_query.processAllAvailable()
    assert run.runner.page is not None
    path, thread = run.runner.page, servers()[-1]
    found = {
        "path": path,
        "jobs": shown(spark, "/jobs/")[1],
        "page": shown(spark, path),
        "script": shown(spark, f"{path}page.js"),
    }
    spark.createDataFrame(rows(80)[40:], SCHEMA).coalesce(1).write.json(str(FOLDER / "in" / "1"))
    run.streaming_query.processAllAvailable()
    found["later"] = shown(spark, path)
    trace.write_bytes(trace.read_bytes() + b"no record\n")
    found["damaged"] = shown(spark, path)
    found["others"] = [shown(spark, f"{path}{name}") for name in ("sparql.jsonl", "..%2fsparql.jsonl", "checkpoint/")]
    run.stop()
    found["stopped"] = shown(spark, path)
    thread.join()
    return found


def of_join(spark: SparkSession) -> dict[str, Any]:
    """A join of DataFrames, whose owner is deleted."""
    places = spark.createDataFrame([(1, "a"), (2, "b")], "k long, name string")
    views = spark.createDataFrame([(1, 1000), (2, 2000)], "k long, t long")
    join = cq.AdaptiveJoin(spark).relation("views", window="30s").relation("places", places).on("views.k = places.k")
    answers: list[int] = []

    def then(frame: DataFrame, number: int) -> None:
        answers.append(frame.count())

    run = join.batch(then, state=FOLDER / "join", trace=FOLDER / "join.jsonl")
    run(views, 0)
    path, thread = run._runner.page, servers()[-1]  # type: ignore[attr-defined]
    found = {"path": path, "jobs": shown(spark, "/jobs/")[1], "page": shown(spark, path), "explain": run.explain(analyze=True)}
    del run
    gc.collect()
    thread.join()
    return {**found, "deleted": shown(spark, path), "answers": answers}


def of_sql(spark: SparkSession) -> tuple[dict[str, Any], JoinRun]:
    """A query that is planned per micro-batch: the jobs of its optimizer. Also returns its owner."""
    spark.range(100).select(f.col("id").alias("k")).createOrReplaceTempView("items")
    run = cq.adaptive_sql(spark, "SELECT v.k FROM views v JOIN items i ON v.k = i.k", stream="views").batch(
        lambda frame, number: frame.count(), trace=FOLDER / "sql.jsonl", plan="static"
    )
    run(spark.range(50).select(f.col("id").alias("k")), 0)
    path = run._runner.page  # type: ignore[attr-defined]
    return {"path": path, "jobs": shown(spark, "/jobs/")[1], "page": shown(spark, path)}, run


def of_failure(spark: SparkSession, engine: cq.Engine) -> dict[str, Any]:
    """A version of Spark without the servlet."""
    trace_page.PACKAGES = ("org.example",)  # type: ignore[assignment]
    answers: list[list[str]] = []

    def keep(frame: DataFrame, number: int) -> None:
        answers.extend([row.p, row.q, row.name] for row in frame.collect())

    adaptive = engine.adaptive(MET, keep, trace=FOLDER / "failed.jsonl", id="failed", lateness="0")
    before = set(servers())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(2):
            adaptive(spark.createDataFrame(rows(80)[40 * number : 40 * number + 40], SCHEMA), number)
    said = [str(one.message) for one in caught if issubclass(one.category, EngineWarning)]
    found = {"warnings": said, "page": adaptive.run.runner.page, "servers": len(set(servers()) - before)}
    return {**found, "answers": answers, "until": adaptive.run.driver.frontier.value}


if __name__ == "__main__":
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "true")
        .config("spark.ui.port", "0")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    files = write_world(FOLDER / "world", 1)
    engine = cq.Engine(session, static=files.static, graphs={MAP: files.places})
    sql, run = of_sql(session)
    found = {"sparql": of_sparql(session, engine), "join": of_join(session), "sql": sql, "failure": of_failure(session, engine)}
    (FOLDER / "found.json").write_text(json.dumps(found))
    session.stop()
    run._runner.unlink()  # type: ignore[attr-defined]  # its UI has been stopped
