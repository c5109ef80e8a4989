"""Spark's joins have the answers of our operators: in the chosen order (--joins spark), and in Spark's (--plan spark)."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest
from local_runs import Cut, Outcome, Registered, Settings, World, force_designs, force_plans, register
from pyspark.sql import SparkSession
from random_cases import make

from cqels_opt.runtime.ingest import IngestReport, IngestTask, ingest
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.spark.joins import JoinRunner
from cqels_opt.spark.runner import SparkRunner
from cqels_opt.spark.stream import StreamRun, chunk_stream
from cqels_opt.trace.records import Delta, TraceRecord
from cqels_opt.verify import Element

from .described_jobs import Jobs

EX = "http://ex.org/"
LOC = "http://deri.org/ns/loc#"
LOCSTREAM = "http://deri.org/locstreams"
PLACES = "http://deri.org/localization/"
QUERIES = Path(__file__).resolve().parents[2] / "bench" / "report_queries"


class Joins(JoinRunner):
    """Rows of a batch come as a table, and this process writes the slots: only the second stage runs on Spark."""

    def ingest(self, rows: pa.Table, task: IngestTask) -> list[IngestReport]:  # type: ignore[override]
        return [ingest(rows, task, "t")]


def ran(spark: SparkSession, query: Registered, how: Cut, by_spark: bool = False) -> tuple[Outcome, JoinRunner]:
    sink, runner = LocalSink(), Joins(spark, 2, by_spark=by_spark)
    driver = query.driver(how, runner=runner, sink=sink)
    rng = random.Random(how.seed)
    records = []
    for number, rows in enumerate(query.chunks(how)):
        if how.plan == "random":
            force_plans(driver, rng)
        records += driver.batch(number, rows)
    return Outcome(query.answers(sink.lines), records, driver, sink.lines), runner


def same(spark: SparkSession, query: Registered, *cuts: Cut, ask: int = 1) -> list[TraceRecord]:
    """Both kinds of Spark joins have our operators' answers for each division into batches, at least ``ask`` of them.

    Returns the records of the last run in the chosen order.
    """
    expected = query.run(Cut("7")).answers
    assert len(expected) >= ask
    records: list[TraceRecord] = []
    for how in cuts:
        got, _ = ran(spark, query, how)
        assert got.answers == expected, how
        assert all(record.jobs <= 1 for record in got.records)
        records = got.records
    got, runner = ran(spark, query, replace(cuts[-1], plan="spark"), by_spark=True)
    assert got.answers == expected
    assert {d.plan for record in got.records for d in record.deltas} == {"spark"}
    assert set(runner.effective.values()) == {"true"}
    return records


# ------------------------------------------------------------------ the report's queries
def people(count: int = 30) -> World:
    rng = random.Random(3)
    static, elements = [], []
    for i in range(6):
        static.append((f"<{EX}p{i}>", "<http://xmlns.com/foaf/0.1/name>", f'"P{i}"'))
        for paper in rng.sample(range(5), 2):
            static += [(f"<{EX}p{i}>", "<http://purl.org/dc/elements/1.1/creator>", f"<{EX}d{paper}>")]
            static += [(f"<{EX}d{paper}>", "<http://purl.org/dc/elements/1.1/creator>", f"<{EX}p{i}>")]
    static += [
        (f"<{EX}d{a}>", "<http://purl.org/dc/terms/references>", f"<{EX}d{b}>")
        for a in range(5)
        for b in range(5)
        if (a + b) % 3 == 1
    ]
    places = [(f"<{EX}l{i}>", f"<{LOC}name>", f'"L{i}"') for i in range(3)]
    t = 1_000_000
    for _ in range(count):
        t += rng.choice([0, 1000, 3000])
        elements.append(Element(t, ((f"<{EX}p{rng.randrange(6)}>", f"<{LOC}at>", f"<{EX}l{rng.randrange(3)}>"),)))
    return World({LOCSTREAM: [elements]}, sorted(set(static)), {PLACES: places})


@pytest.mark.long
@pytest.mark.parametrize("name", ["q1", "q2", "q3", "q4"])
def test_the_reports_queries(spark: SparkSession, tmp_path: Path, name: str) -> None:
    query = register((QUERIES / f"{name}.rq").read_text(encoding="utf-8"), people(), tmp_path)
    same(spark, query, Cut("15" if name == "q3" else "100", parts=2))


@pytest.mark.long
def test_the_stages_of_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    """Within foreachBatch: two jobs per batch, and settings that are in effect."""
    query = register((QUERIES / "q4.rq").read_text(encoding="utf-8"), people(), tmp_path)
    expected = query.run(Cut("20")).answers
    for by_spark in (False, True):
        how = Cut("20", plan="spark" if by_spark else "adaptive", parts=2)
        sink, runner = LocalSink(), JoinRunner(spark, 2, by_spark=by_spark)
        driver, records = query.driver(how, runner=runner, sink=sink), list[TraceRecord]()
        run = StreamRun(driver, runner, records.extend)
        jobs = Jobs(spark)
        run.start(chunk_stream(spark, query.replay(how).chunk_folder), tmp_path / f"spark-{by_spark}", to_the_end=True)
        run.await_termination()
        assert query.answers(sink.lines) == expected
        texts = r"q batch \d+: (ingest$|join )|write the relation |merge small files"
        assert [text for text in jobs.texts if not re.match(texts, text)] == []
        assert runner.effective["spark.sql.adaptive.enabled"] == str(by_spark).lower()
        assert by_spark or all(record.jobs <= 2 for record in records)


@pytest.mark.long
def test_the_tasks_of_a_large_batch_run_all_stages(spark: SparkSession, tmp_path: Path) -> None:
    """One job per batch, after the first one, whose ingest did not need as many tasks as its joins."""
    query = register((QUERIES / "q4.rq").read_text(encoding="utf-8"), people(), tmp_path)
    how = Cut("8", parts=2)
    sink, runner = LocalSink(), SparkRunner(spark, 2)
    driver, records = query.driver(how, runner=runner, sink=sink), list[TraceRecord]()
    run, replay = StreamRun(driver, runner, records.extend), query.replay(how)
    run.chunks = [replay.path(number) for number in range(len(replay.chunks))]  # the tasks read them, not Spark
    run.start(chunk_stream(spark, replay.chunk_folder), tmp_path / "spark", to_the_end=True)
    run.await_termination()
    assert query.answers(sink.lines) == query.run(Cut("20")).answers
    assert [record.jobs for record in records] == [2, *[1] * (len(records) - 1)]


# ------------------------------------------------------------------ what queries can say
PREFIXES = f"PREFIX : <{EX}>\nPREFIX loc: <{LOC}>\nPREFIX foaf: <http://xmlns.com/foaf/0.1/>\n"
WINDOW = f"FROM NAMED <{LOCSTREAM}> [{{}}] AS ?{{}}"
BODIES = {
    "last-n": ("TRIPLES 4", "TRIPLES 7", "GRAPH ?u {?a loc:at ?l} GRAPH ?z {?b loc:at ?l} ?b foaf:name ?n"),
    "filters": (
        "NOW",
        "RANGE 20 seconds",
        "GRAPH ?u {?a loc:at ?l} GRAPH ?z {?b loc:at ?l} ?a foaf:name ?n FILTER(?a != ?b && STRLEN(?n) = 2) FILTER(?n < 'P4')",
    ),
    "not exists": (
        "RANGE 5 seconds",
        "NOW",
        "GRAPH ?u {?a loc:at ?l} FILTER NOT EXISTS { GRAPH ?z {?b loc:at ?l} ?b foaf:name 'P1' }",
    ),
    "product": ("NOW", "RANGE 2 seconds", "GRAPH ?u {?a loc:at ?l} GRAPH ?z {?A loc:at ?L} ?A foaf:name ?n"),
    "ground": ("NOW", "RANGE 90 seconds", "GRAPH ?u {:p1 loc:at ?l} GRAPH ?z {:p1 loc:at :l1} ?a foaf:name ?n"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", BODIES)
def test_what_queries_can_say(spark: SparkSession, tmp_path: Path, name: str) -> None:
    u, z, body = BODIES[name]
    text = f"{PREFIXES}SELECT *\n{WINDOW.format(u, 'u')}\n{WINDOW.format(z, 'z')}\nWHERE {{ {body} }}"
    query = register(text, people(), tmp_path)
    records = same(spark, query, Cut("15", plan="random", parts=2, seed=len(name)))
    assert any(record.deltas for record in records)


AT = f"<{LOC}at>"
MERGED = {
    "sets": f"FROM STREAM <{LOCSTREAM}> [NOW - 20 S TO NOW] FROM STREAM <{LOCSTREAM}> [NOW - 40 S TO NOW - 30 S]",
    "bags": f"FROM STREAM <{LOCSTREAM}> WINDOW RANGE 9 S FIXED FROM STREAM <{LOCSTREAM}> WINDOW ELEMS 5",
}


def merged(name: str, folder: Path) -> Registered:
    """People and places, some of which are also in the static data."""
    world = people()
    static = [
        (f"<{EX}p1>", AT, f"<{EX}l1>"),
        (f"<{EX}p9>", AT, f"<{EX}l2>"),
        (f"<{EX}p9>", "<http://xmlns.com/foaf/0.1/name>", '"P9"'),
    ]
    text = f"{PREFIXES}SELECT ?a ?b ?n {MERGED[name]} {{ ?a loc:at ?l . ?b loc:at ?l . ?b foaf:name ?n FILTER(?a != ?b) }}"
    duplicates: Literal["set", "bag"] = "set" if name == "sets" else "bag"
    return register(text, replace(world, default=[*world.default, *static]), folder, Settings(duplicates=duplicates))


@pytest.mark.long
@pytest.mark.parametrize("name", MERGED)
def test_merged_relations(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Windows and static data as one relation, also as Spark's frames."""
    same(spark, merged(name, tmp_path), Cut("15", plan="random", parts=2, seed=3))


@pytest.mark.long
@pytest.mark.parametrize("by_spark", [False, True])
def test_designs_by_lot(spark: SparkSession, tmp_path: Path, by_spark: bool) -> None:
    """Other sub-results with every batch: executors receive the block that the batch was planned for."""
    query = register((QUERIES / "q2.rq").read_text(encoding="utf-8"), people(), tmp_path)
    expected = query.run(Cut("7")).answers
    how, rng, sink = Cut("6", plan="spark" if by_spark else "adaptive", parts=2), random.Random(9), LocalSink()
    driver = query.driver(how, runner=Joins(spark, 2, by_spark=by_spark), sink=sink)
    others = 0
    for number, rows in enumerate(query.chunks(how)):
        others += force_designs(driver, rng)
        driver.batch(number, rows)
    assert others > 2
    assert query.answers(sink.lines) == expected


@pytest.mark.long
def test_designs_by_lot_with_our_operators_on_executors(spark: SparkSession, tmp_path: Path) -> None:
    query = register((QUERIES / "q2.rq").read_text(encoding="utf-8"), people(), tmp_path)
    expected, rng, sink = query.run(Cut("7")).answers, random.Random(9), LocalSink()
    runner = SparkRunner(spark, 2)
    driver = query.driver(how := Cut("10", parts=2), runner=runner, sink=sink)
    others: list[int] = []
    run = StreamRun(driver, runner, lambda _: others.append(force_designs(driver, rng)))
    run.start(chunk_stream(spark, query.replay(how).chunk_folder), tmp_path / "spark", to_the_end=True)
    run.await_termination()
    assert sum(others) > 1
    assert query.answers(sink.lines) == expected


@pytest.mark.long
def test_what_operators_put_out_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    u, z, body = BODIES["filters"]
    text = f"{PREFIXES}SELECT *\n{WINDOW.format(u, 'u')}\n{WINDOW.format(z, 'z')}\nWHERE {{ {body} }}"
    query = register(text, people(), tmp_path)
    how = Cut("100", plan="first")
    got, _ = ran(spark, query, how)
    assert unmeasured(got.records) == unmeasured(query.run(how).records)


def unmeasured(records: Sequence[TraceRecord]) -> list[list[Delta]]:
    """The delta sources without what only our own joins measure."""
    return [
        [
            replace(delta, operators=tuple(replace(o, ms=None, bytes=None, tasks=None, skew=None) for o in delta.operators))
            for delta in record.deltas
        ]
        for record in records
    ]


def worthwhile(folder: Path, count: int) -> Iterator[Registered]:
    """Random queries with answers and joins, few enough joins for Spark to plan quickly."""
    seed = 0
    while count:
        case, seed = make(seed), seed + 1
        query = register(case.query(), case.world, folder / str(seed), case.settings)
        if any(block.units for block in query.program.blocks):  # which Spark has no joins for
            continue
        sizes = [(len(b.occurrences), len(b.statics)) for b in query.program.blocks]
        joins = sum(streams * (streams + statics - 1) for streams, statics in sizes)
        if 1 <= joins <= 12 and query.run(Cut("100")).answers:
            count -= 1
            yield query


@pytest.mark.long
def test_random_queries(spark: SparkSession, tmp_path: Path) -> None:
    for number, query in enumerate(worthwhile(tmp_path, 2)):
        same(spark, query, Cut("20", plan="random", seed=number), Cut("100", parts=2))
