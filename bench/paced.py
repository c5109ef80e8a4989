"""``cqels-opt bench paced``: the report's queries in real time: latencies, and milliseconds per micro-batch.

A micro-batch begins when the previous one is done, and takes the elements that have arrived by then. An element is done when its
answers are in the sink: for the engine when the frontier has passed it and the batch is committed, for a Spark job when its
answers are written, for ``noop`` when the trigger ends. The engine as ``adaptive`` reads the files of a live folder itself; as ``rows``
it has the rows of a DataFrame, which Spark reads.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
from rich.console import Console

from cqels_opt.bench import latency
from cqels_opt.bench.answers import digest_of_answers, digest_of_folders
from cqels_opt.bench.apart import empty_folder, scratch_folder
from cqels_opt.bench.measure import order
from cqels_opt.bench.pace import Commits, Pace, Times, files_by_batch
from cqels_opt.bench.report import REPORT, ReportWorld, World
from cqels_opt.bench.rivals import tuned
from cqels_opt.bench.rivals.jobs import PLANNER, Job, StreamingQuery, settings_kept
from cqels_opt.bench.scenarios import SECOND, WARM_UP
from cqels_opt.bench.social import START
from cqels_opt.bench.tables import paced_rows, show_rows
from cqels_opt.engine import Engine
from cqels_opt.errors import RunError
from cqels_opt.planner.plan_modes import plan_mode
from cqels_opt.rdf.graphs import GENERATED_AT
from cqels_opt.runtime.file_streams import finite_frontier
from cqels_opt.runtime.line_sinks import FileSink
from cqels_opt.runtime.live_files import live_files
from cqels_opt.runtime.registered_query import catalog_of
from cqels_opt.runtime.run_factory import make_driver
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.spark.runner import SparkRunner
from cqels_opt.spark.session import SparkSession, make_session
from cqels_opt.spark.stream import CHUNK_SCHEMA, DataFrame, StreamRun, folder_stream
from cqels_opt.windows.batch_size import BatchSize
from cqels_opt.windows.replay import ReplaySource, cut

RATES = (1_000, 5_000)
CONTENDERS = ("adaptive", "rows", "tuned", "noop")
PIECE = 100  # milliseconds of the stream per file
PERCENTILES = (50, 90, 99, 100)
TIME_LIMIT = 2  # maximum time after the last element, as a multiple of the stream's length
AT_LEAST = 120  # but at least this many seconds
AT_ONCE = "0 seconds"


@dataclass(frozen=True, slots=True)
class Length:
    """Uncounted and counted seconds of the stream."""

    warm: int
    counted: int


@dataclass(frozen=True, slots=True)
class Paced:
    """A run: latencies in milliseconds by percentile, milliseconds and elements per counted micro-batch, unfinished elements."""

    query: str
    rate: int
    contender: str
    latencies: dict[int, float]
    histogram: str  # of the latencies, in HdrHistogram's encoding
    batches: int
    milliseconds: float
    elements: float
    behind: int
    delay: float  # maximum delay of the pace itself
    answers: int | None
    digest: str | None
    verified: bool = False  # its answers were compared with those of another contender

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "contender": self.contender,
            "parameters": {"query": self.query, "rate": self.rate},
            "latency ms": {f"p{p}": ms for p, ms in self.latencies.items()},
            "latency hdr": self.histogram,
            "milliseconds": {"median": self.milliseconds, "batches": self.batches},
            "elements a batch": self.elements,
            "behind": self.behind,
            "pace late by ms": self.delay,
            "answers": self.answers,
            "verified": self.verified,
        }


class Course:
    """A stream that is ready to be released, and a folder for a run over it."""

    def __init__(self, spark: SparkSession, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.first = START + world.batch.first  # earlier elements fill the window
        self.plan = cut(
            [ReplaySource(iri, (path,)) for iri, path in world.streams], world.folder / "pieces", BatchSize(duration=PIECE)
        )
        self.pace = Pace(self.plan, folder / "live", self.first)
        self.frame = spark.readStream.schema(CHUNK_SCHEMA).parquet(str(self.pace.folder))
        self.commits = Commits()

    def run(self, query: StreamingQuery, seconds: int) -> None:
        """Releases the stream, and waits until all of it is done or the time limit is reached."""
        self.pace.fill()
        query.processAllAvailable()
        self.pace.begin()
        self.pace.join()
        rest = threading.Thread(target=query.processAllAvailable, daemon=True)
        rest.start()
        rest.join(max(AT_LEAST, TIME_LIMIT * seconds))
        query.stop()
        if query.exception() is not None:
            raise RunError(f"the paced run failed: {query.exception()}")


def study(quick: bool) -> dict[str, Any]:
    """All queries at all rates; ``quick`` is one query at a tenth of the rates, for some seconds."""
    length = Length(2, 4) if quick else Length(5, 20)
    queries = ("Q2",) if quick else tuple(REPORT.queries)
    results: list[Paced] = []
    with scratch_folder() as scratch, make_session(None, scratch) as spark:
        for rate in RATES:
            scenario = replace(REPORT, rate=rate)
            results += paced(spark, scratch / str(rate), scenario, queries, length, quick)
    return {"results": [r.as_json() for r in results]}


def paced(
    spark: SparkSession, folder: Path, scenario: ReportWorld, queries: Sequence[str], length: Length, quick: bool = False
) -> list[Paced]:
    """Runs the queries of a scenario at its rate, with each contender, in a random order: the later ones find a JVM that is warmer."""
    progress = Console(stderr=True)
    world = replace(scenario, counted=length.warm + length.counted - WARM_UP + 1).prepare(spark, folder / "world", quick)
    results = []
    for number, name in enumerate(queries):
        mine = []
        for contender in order(CONTENDERS, number, scenario.rate):
            progress.print(f"paced: {name} by {contender} at {scenario.batch(quick):,} elements/s")
            mine.append(_run(spark, contender, name, scenario, world, length, empty_folder(folder / "run"), quick))
        compared = [m for m in mine if m.digest is not None and not m.behind]
        if len({m.digest for m in compared}) > 1:
            raise RunError(f"{name}: contenders give other answers: {[(m.contender, m.answers) for m in mine]}")
        found = [replace(m, verified=bool(m in compared and len(compared) > 1 and m.answers)) for m in mine]
        results += sorted(found, key=lambda m: CONTENDERS.index(m.contender))
    return results


def _run(
    spark: SparkSession, contender: str, name: str, scenario: ReportWorld, world: World, length: Length, folder: Path, quick: bool
) -> Paced:
    course, seconds = Course(spark, world, folder), length.warm + length.counted
    kept = {"spark.sql.streaming.numRecentProgressUpdates": "100000"}
    with settings_kept(spark, (*PLANNER, *kept)):
        for key, value in kept.items():
            spark.conf.set(key, value)
        runs = {"adaptive": _adaptive, "rows": _rows, "tuned": _tuned, "noop": _noop}
        query, answers, digest = runs[contender](spark, scenario.queries[name], course, seconds)
    t: Times = np.concatenate([parquet.read_table(path).column("t").to_numpy() for _, path in world.streams])
    counted = t[t >= course.first + length.warm * SECOND]
    late = 1000 * course.commits.latencies(counted, course.pace.origin, course.first)
    batches = _batches(course, query, int(counted[0]))
    return Paced(
        name,
        scenario.batch(quick),
        contender,
        {p: float(np.percentile(late, p, method="inverted_cdf")) for p in PERCENTILES},
        latency.as_json(late[np.isfinite(late)]).get("hdr", ""),
        len(batches),
        float(np.median([ms for ms, _ in batches])) if batches else float("nan"),
        float(np.median([n for _, n in batches])) if batches else float("nan"),
        int(np.isinf(late).sum()),
        1000 * course.pace.greatest_delay,
        answers,
        digest,
    )


def _batches(course: Course, query: StreamingQuery, since: int) -> list[tuple[float, int]]:
    """Milliseconds and elements of the micro-batches that contain no element before a time."""
    took = {p["batchId"]: float(p["durationMs"]["triggerExecution"]) for p in query.recentProgress}
    pieces = {chunk.file: (span[0], chunk.elements) for chunk, span in zip(course.plan.chunks, course.pace.times)}
    found = []
    for batch, files in files_by_batch(course.folder / "spark").items():
        if batch in took and min(pieces[f][0] for f in files) >= since:
            found.append((took[batch], sum(pieces[f][1] for f in files)))
    return found


# ------------------------------------------------------------------ contenders
Outcome = tuple[StreamingQuery, int | None, str | None]


def _adaptive(spark: SparkSession, text: Path, course: Course, seconds: int) -> Outcome:
    """Over a live folder, as ``cqels-opt run``."""
    run, folders = _engine(spark, text, course), [(0, course.pace.folder)]
    run.files = live_files(course.folder / "spark", folders, run.driver.frontier, GENERATED_AT)
    return _answered(run, folder_stream(spark, folders), course, seconds)


def _rows(spark: SparkSession, text: Path, course: Course, seconds: int) -> Outcome:
    """Over a DataFrame of rows, as ``Engine.start``."""
    return _answered(_engine(spark, text, course), course.frame, course, seconds)


def _engine(spark: SparkSession, text: Path, course: Course) -> StreamRun:
    folder = course.folder
    query = Engine(spark, store=course.world.store, folder=folder / "registered").register(text.read_text(encoding="utf-8"))
    runner, sink = SparkRunner(spark), FileSink(folder / "answers.jsonl")
    frontier, options = finite_frontier(course.plan, 0, eager=False), DriverOptions(plan=plan_mode("adaptive"))
    driver = make_driver(catalog_of([query], folder), folder, runner, sink, frontier, options, None)
    return StreamRun(driver, runner, lambda records: course.commits.note(driver.frontier.value))


def _answered(run: StreamRun, frame: DataFrame, course: Course, seconds: int) -> Outcome:
    run.start(frame, course.folder / "spark", trigger=AT_ONCE)
    course.run(run.streaming_query, seconds)
    return run.streaming_query, run.driver.state.totals.get("answers", 0), digest_of_answers(course.folder / "answers.jsonl")


def _tuned(spark: SparkSession, text: Path, course: Course, seconds: int) -> Outcome:
    def written(number: int) -> None:
        course.commits.note(course.pace.greatest(files_by_batch(course.folder / "spark")[number]))

    job = Job(text.stem, course.frame, course.world.folder, course.folder, trigger=AT_ONCE, after=written)
    query = tuned.start(spark, job)
    course.run(query, seconds)
    spark.catalog.clearCache()
    return query, *digest_of_folders(job.answers, job.standing)


def _noop(spark: SparkSession, text: Path, course: Course, seconds: int) -> Outcome:
    checkpoint = course.folder / "spark"
    writer = course.frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime=AT_ONCE).start()
    course.run(query, seconds)
    files = files_by_batch(checkpoint)
    for p in query.recentProgress:
        if p["batchId"] in files:
            began = datetime.fromisoformat(p["timestamp"].replace("Z", "+00:00")).timestamp()
            course.commits.add(course.pace.greatest(files[p["batchId"]]), began + p["durationMs"]["triggerExecution"] / 1000)
    return query, None, None


# ------------------------------------------------------------------ the table
def show(found: Mapping[str, Any]) -> None:
    """Prints a table with one line per query, rate and contender."""
    show_rows(paced_rows(found))
