"""Python: queries registered with an engine and started over streaming DataFrames, and the function for a plain foreachBatch."""

from __future__ import annotations

import gc
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from pyspark.errors import StreamingQueryException

import cqels_opt as cq
from cqels_opt.errors import CheckpointError, DataError, EngineWarning, InputError, LimitError, RunError
from cqels_opt.query.parser import parse
from cqels_opt.spark.files import in_places
from cqels_opt.spark.stream import StreamRun, as_rows, numbered
from cqels_opt.trace.records import Delta, TraceRecord, read_trace
from cqels_opt.verify import Answers, Element, Inputs, Options, evaluate
from cqels_opt.windows.element_rows import ELEMENT_ROWS

from .small_world import CROWDS, EX, MAP, MET, STREAM, Files, rows, write_rows, write_world

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row4 = tuple[str, str, str, int]
ROWS = rows(90, seed=3)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The static data; these tests have their own stream folders."""
    return write_world(tmp_path_factory.mktemp("world"), 1)


@pytest.fixture
def engine(spark: SparkSession, files: Files) -> cq.Engine:
    return cq.Engine(spark, static=files.static, graphs={MAP: files.places})


def put(folder: Path, parts: Sequence[Sequence[Row4]], first: int = 0) -> None:
    """JSON files whose modification times determine their order."""
    folder.mkdir(exist_ok=True)
    for number, part in enumerate(parts, first):
        path = folder / f".{number}"
        write_rows(path, part)
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
        path.rename(folder / f"{number}.json")


def parts(of: Sequence[Row4] = ROWS, count: int = 3) -> list[Sequence[Row4]]:
    size = -(-len(of) // count)
    return [of[i : i + size] for i in range(0, len(of), size)]


def reading(spark: SparkSession, folder: Path, schema: str = "s string, p string, o string, t long") -> DataFrame:
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder))


class Collected:
    """A sink that keeps its input by batch; a repeated batch replaces its first version."""

    def __init__(self) -> None:
        self.batches: dict[int, list[dict[str, Any]]] = {}
        self.types: list[tuple[str, str]] = []

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self.types = frame.dtypes
        found = [row.asDict() for row in frame.collect()]
        assert frame.count() == len(found)
        self.batches[batch] = found

    def answers(self, columns: dict[str, str], query: str | None = None) -> Answers:
        """Time in ms, op and bindings of all rows (of one query)."""
        counted: Answers = Counter()
        for row in [row for batch in self.batches.values() for row in batch]:
            if query is None or row["query"] == query:
                bound = frozenset((v, row[c]) for v, c in columns.items() if row[c] is not None)
                counted[round(row["time"].timestamp() * 1000), row["op"], bound] += 1
        return counted


def expected(text: str, files: Files, of: Sequence[Row4] = ROWS, upto: int | None = None) -> Answers:
    """The independent evaluation up to an instant; by default the frontier's: 1 ms before the greatest time."""
    inputs = files.inputs()
    stream = [Element(t, ((s, p, o),)) for s, p, o, t in of]
    found = evaluate(parse(text), Inputs({STREAM: stream}, inputs.default, inputs.graphs), Options())
    last = max(t for *_, t in of) - 1 if upto is None else upto
    return Counter({key: count for key, count in found.items() if key[0] <= last})


# ------------------------------------------------------------------ start
@pytest.mark.long
def test_a_query_over_a_stream_of_rows(spark: SparkSession, engine: cq.Engine, files: Files, tmp_path: Path) -> None:
    query = engine.register(MET)
    put(tmp_path / "in", parts())
    sink = Collected()
    run = query.start({STREAM: reading(spark, tmp_path / "in")}, sink, tmp_path / "state", tmp_path / "t.jsonl", to_the_end=True)
    assert run.await_termination()
    assert not run.is_active
    wanted = expected(MET, files)
    assert sink.answers(query.columns) == wanted
    assert len(wanted) > 50
    assert sink.types == [("time", "timestamp"), ("op", "string"), ("p", "string"), ("q", "string"), ("name", "string")]
    records = list(read_trace(tmp_path / "t.jsonl"))
    assert [r.batch for r in records] == [0, 1, 2]
    assert [r.jobs for r in records] == [2, 1, 1]  # one task runs all stages of a batch after a small one
    assert run.switches == sum(d.switched for r in records for d in r.deltas)
    (told,) = run.statistics()[query.id].values()
    assert told["frontier"] == max(t for *_, t in ROWS) - 1
    assert set(told["relations"]) == {"now", "then", "name", "knows"}
    assert set(run.plans()[query.id]) == {"now", "then"}


@pytest.mark.long
def test_objects_are_one_short_line(spark: SparkSession, engine: cq.Engine, tmp_path: Path) -> None:
    """Lateness as text, and no syntax trees where an object is displayed."""
    query = engine.register(MET, id="met")
    put(tmp_path / "in", parts())
    run = query.start({STREAM: reading(spark, tmp_path / "in")}, Collected(), tmp_path / "state", lateness="2 s", to_the_end=True)
    assert run.driver.frontier.lateness == 2_000
    assert run.await_termination()
    adaptive = engine.adaptive(MET, Collected(), id="again", idle_timeout="1 min", max_ahead="1 hour", report="wc,p:10s")
    assert adaptive.run.driver.options.idle_timeout == 60_000
    assert adaptive.run.driver.frontier.max_ahead == 3_600_000
    assert adaptive.query.meaning.report.default.period == 10_000
    assert repr(query) == "CompiledQuery('met', cqels, columns=['p', 'q', 'name'])"
    assert repr(query.member) == "Member('met', cqels)"
    assert repr(engine) == f"Engine(store={str(engine.store)!r}, queries=['met', 'again'])"
    assert repr(run) == f"StreamRun(['met'], 3 micro-batches, {run.switches} plan switches, not active)"
    assert repr(adaptive) == "Adaptive('again', 0 micro-batches, 0 plan switches)"


def test_likely_mistakes_are_warnings(engine: cq.Engine) -> None:
    with pytest.warns(EngineWarning, match=r"^odd: \?city is in SELECT, and nothing binds it: its column is empty"):
        engine.register("SELECT ?city { ?s ?p ?o }", id="odd")


@pytest.mark.parametrize(("name", "value"), [("lateness", "soon"), ("idle_timeout", -1), ("max_ahead", "0s")])
def test_durations_that_are_none(engine: cq.Engine, tmp_path: Path, name: str, value: Any) -> None:
    query = engine.register(MET)
    with pytest.raises(InputError, match=f"^{name}="):
        query.start({STREAM: None}, Collected(), tmp_path / "state", **{name: value})  # type: ignore[dict-item]
    with pytest.raises(InputError, match=f"^{name}="):
        engine.adaptive(MET, Collected(), tmp_path / "other", **{name: value})


def test_options_that_do_not_exist(engine: cq.Engine, tmp_path: Path) -> None:
    query = engine.register(MET)
    for start in (query.start, engine.start):
        with pytest.raises(TypeError, match=r"start.*unexpected keyword argument 'latenes'"):
            start({}, Collected(), tmp_path / "state", latenes="1s")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'latenes'"):
        engine.adaptive(MET, Collected(), latenes="1s")  # type: ignore[call-arg]


def test_a_path_of_a_cluster_is_no_place_of_a_state(engine: cq.Engine) -> None:
    query = engine.register(MET)
    with pytest.raises(InputError, match=r"^checkpoint: dbfs:/x: the state of a run needs a folder that all executors see"):
        query.start({STREAM: None}, Collected(), "dbfs:/x")  # type: ignore[dict-item]
    with pytest.raises(InputError, match=r"^state: dbfs:/x: the state of a run needs"):
        engine.adaptive(MET, Collected(), "dbfs:/x", id="a")


@pytest.mark.parametrize("place", ["dbfs:/x", "s3://bucket/x", "hdfs://name/x"])
def test_places_of_no_local_path(engine: cq.Engine, tmp_path: Path, place: str) -> None:
    with pytest.raises(InputError, match=f"^trace: {place}: a local file or folder is expected"):
        engine.adaptive(MET, Collected(), tmp_path / "state", trace=place, id="b")
    with pytest.raises(InputError, match=f"^sink: {place}: a local file or folder is expected"):
        engine.adaptive(MET, place, tmp_path / "state2", id="c")


def test_files_as_uris(spark: SparkSession, engine: cq.Engine, files: Files, tmp_path: Path) -> None:
    query = engine.register(MET)
    put(tmp_path / "in", parts())
    at = (tmp_path / "a b").as_uri()
    (tmp_path / "a b").mkdir()
    assert "%20" in at
    run = query.start({STREAM: reading(spark, tmp_path / "in")}, f"{at}/out", f"{at}/state", f"{at}/t.jsonl", to_the_end=True)
    assert run.await_termination()
    assert len(list(read_trace(tmp_path / "a b" / "t.jsonl"))) == 3
    found = Collected()
    found(spark.read.parquet(str(tmp_path / "a b" / "out")), 0)
    assert found.answers(query.columns) == expected(MET, files)


@pytest.mark.long
def test_a_folder_of_answers(spark: SparkSession, engine: cq.Engine, files: Files, tmp_path: Path) -> None:
    """Spark reads it as a table; with several queries, each has its own folder."""
    queries = [engine.register(MET), engine.register(CROWDS)]
    put(tmp_path / "in", parts())
    run = engine.start({STREAM: reading(spark, tmp_path / "in")}, tmp_path / "out", tmp_path / "state", to_the_end=True)
    assert run.await_termination()
    for query, text in zip(queries, (MET, CROWDS)):
        table = spark.read.parquet(str(tmp_path / "out" / f"query={query.id}"))
        assert dict(table.dtypes) == {
            "time": "timestamp",
            "op": "string",
            "batch": "int",
            **dict.fromkeys(query.columns.values(), "string"),
        }
        found = Collected()
        found(table, 0)
        assert found.answers(query.columns) == expected(text, files)


TYPED = f"""SELECT ?s ?delay ?price ?when ?late ?name WHERE {{ ?x <{EX}s> ?s ; <{EX}delay> ?delay ; <{EX}price> ?price ;
    <{EX}when> ?when ; <{EX}late> ?late ; <{EX}name> ?name }}"""
TYPES = {
    "s": "string",
    "delay": "long",
    "price": "decimal(8,2)",
    "when": "timestamp",
    "late": "boolean",
    "name": "struct<value:string,lang:string>",
}


def test_typed_columns(spark: SparkSession, tmp_path: Path) -> None:
    """In DataFrames and in Parquet; what is not of its column's type is null, with a warning and a notice in the trace."""
    xsd = "http://www.w3.org/2001/XMLSchema#"
    cells = [("s", f"<{EX}a>"), ("delay", f'"5"^^<{xsd}integer>'), ("price", f'"1.255"^^<{xsd}decimal>')]
    cells += [("when", f'"2013-07-01T12:00:00Z"^^<{xsd}dateTime>'), ("late", f'"true"^^<{xsd}boolean>'), ("name", '"Berlin"@de')]
    others = [(p, '"none"' if p == "delay" else o) for p, o in cells]
    lines = [f"<{EX}{x}> <{EX}{p}> {o} .\n" for x, of_x in (("x", cells), ("y", others)) for p, o in of_x]
    (tmp_path / "a.nt").write_text("".join(lines))
    engine, sink = cq.Engine(spark, static=tmp_path / "a.nt"), Collected()
    query = engine.register(TYPED, types=TYPES)
    with pytest.warns(
        EngineWarning, match=r"some values of \?delay in the answers of q1 are not of the type long: they are null"
    ):
        query.start({}, sink, tmp_path / "state", tmp_path / "t.jsonl")
    when, price = datetime(2013, 7, 1, 12, tzinfo=UTC), Decimal("1.26")
    assert dict(sink.types) == {"time": "timestamp", "op": "string", **{n: t.replace("long", "bigint") for n, t in TYPES.items()}}
    found = {row["delay"]: row for row in sink.batches[0]}
    assert set(found) == {5, None}
    for row in found.values():
        assert (row["s"], row["price"], row["late"]) == (f"{EX}a", price, True)
        assert (row["when"].astimezone(UTC), row["name"].asDict()) == (when, {"value": "Berlin", "lang": "de"})
    (record,) = read_trace(tmp_path / "t.jsonl")
    assert record.notices == ("1 values of ?delay in the answers of q1 are not of the type long: they are null",)
    query.start({}, tmp_path / "out", tmp_path / "other")
    table = spark.read.parquet(str(tmp_path / "out")).drop("batch")
    assert table.dtypes == sink.types
    assert sorted(str(row.asDict()) for row in table.collect()) == sorted(map(str, sink.batches[0]))


def test_typed_columns_of_queries_that_share_a_program(
    spark: SparkSession, engine: cq.Engine, files: Files, tmp_path: Path
) -> None:
    """They differ in a constant; answers that are added to the run later have the types as well."""
    text = f"SELECT ?p FROM NAMED <{STREAM}> [RANGE 1s] AS ?w WHERE {{ GRAPH ?w {{ ?p <{EX}at> <{EX}x%d> }} }}"
    for number in (1, 2):
        engine.register(text % number, id=f"q{number}", types={"p": "string"})
    put(tmp_path / "in", parts())
    sink = Collected()
    run = engine.start({STREAM: reading(spark, tmp_path / "in")}, sink, tmp_path / "state", to_the_end=True)
    assert len(run.driver.programs) == 1
    run.add(text % 1, id="q3", types={"p": "string"})
    assert run.await_termination()
    assert dict(sink.types) == {"time": "timestamp", "op": "string", "query": "string", "p": "string"}
    found = {(row["query"], row["p"].startswith(EX)) for rows in sink.batches.values() for row in rows}
    assert {("q1", True), ("q2", True)} <= found <= {("q1", True), ("q2", True), ("q3", True)}


def test_types_that_do_not_fit(engine: cq.Engine, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^types: there is no \?nme in SELECT; it selects \?p, \?q, \?name$"):
        engine.register(MET, types={"nme": "string"})
    engine.register(MET, id="typed", types={"name": "string"})
    engine.register(MET, id="terms")
    with pytest.raises(
        InputError, match=r"the queries typed and terms share the column name, which is string in one and N-Triples"
    ):
        engine.start({STREAM: None}, Collected(), tmp_path / "state")  # type: ignore[dict-item]


def test_timestamps_from_parquet(spark: SparkSession, engine: cq.Engine, files: Files, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, part in enumerate(parts()):
        s, p, o, t = zip(*part)
        table = pa.table({"s": s, "p": p, "o": o, "t": pa.array(t, pa.timestamp("ms", tz="UTC"))})
        pa_parquet.write_table(table, tmp_path / "in" / f"{number}.parquet")
        os.utime(tmp_path / "in" / f"{number}.parquet", (1_000_000_000 + number, 1_000_000_000 + number))
    schema = "s string, p string, o string, t timestamp"
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    query, sink = engine.register(CROWDS), Collected()
    query.start({STREAM: frame}, sink, tmp_path / "state", to_the_end=True).await_termination()
    assert sink.answers(query.columns) == expected(CROWDS, files)


def test_eager_reports_the_greatest_time_too(spark: SparkSession, engine: cq.Engine, files: Files, tmp_path: Path) -> None:
    cuts = [i for i in range(1, len(ROWS)) if ROWS[i][3] > ROWS[i - 1][3]]
    place = cuts[len(cuts) // 2]
    put(tmp_path / "in", [ROWS[:place], ROWS[place:]])
    query, sink = engine.register(MET), Collected()
    frames = {f"<{STREAM}>": reading(spark, tmp_path / "in")}
    query.start(frames, sink, tmp_path / "state", to_the_end=True, eager=True).await_termination()
    assert sink.answers(query.columns) == expected(MET, files, upto=ROWS[-1][3])


@pytest.mark.parametrize(
    "plan",
    [
        "first",
        "static",
        "worst",
        "fixed:now: now » then[?l] » name[?l] » knows[?p ?q]; then: then » now[?l] » knows[?p ?q] » name[?l]",
    ],
)
def test_any_plan(plan: str, spark: SparkSession, engine: cq.Engine, files: Files, tmp_path: Path) -> None:
    put(tmp_path / "in", parts(count=2))
    query, sink = engine.register(MET), Collected()
    run = query.start({STREAM: reading(spark, tmp_path / "in")}, sink, tmp_path / "state", to_the_end=True, plan=plan)
    run.await_termination()
    assert sink.answers(query.columns) == expected(MET, files)
    if plan.startswith("fixed:"):
        assert "; ".join(f"{source}: {text}" for source, text in run.plans()[query.id].items()) == plan.removeprefix("fixed:")


@pytest.mark.long
def test_a_second_start_continues(spark: SparkSession, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CQELS_OPT_TERM_KEY")  # each engine loads the static data under another key
    """With its own engine, as in a restarted process."""
    sink = Collected()
    for first in (0, 2):
        put(tmp_path / "in", parts(count=4)[first : first + 2], first)
        engine = cq.Engine(spark, static=files.static, graphs={MAP: files.places}, folder=tmp_path / "engine")
        query = engine.register(MET)
        run = query.start({STREAM: reading(spark, tmp_path / "in")}, sink, tmp_path / "state", to_the_end=True)
        run.await_termination()
    assert sorted(sink.batches) == [0, 1, 2, 3]
    assert sink.answers(query.columns) == expected(MET, files)


def test_several_queries_in_one_job(spark: SparkSession, engine: cq.Engine, files: Files, tmp_path: Path) -> None:
    met, crowds = engine.register(MET, id="met"), engine.register(CROWDS, id="crowds")
    put(tmp_path / "in", parts())
    sink = Collected()
    run = engine.start({STREAM: reading(spark, tmp_path / "in")}, sink, tmp_path / "state", tmp_path / "t.jsonl", to_the_end=True)
    run.await_termination()
    assert sink.types[:3] == [("time", "timestamp"), ("op", "string"), ("query", "string")]
    assert sink.answers(met.columns, "met") == expected(MET, files)
    assert sink.answers(crowds.columns, "crowds") == expected(CROWDS, files)
    records = list(read_trace(tmp_path / "t.jsonl"))
    assert [(r.batch, r.query) for r in records] == [(b, q) for b in range(3) for q in ("met", "crowds")]
    assert [r.jobs for r in records] == [2, 2, 1, 1, 1, 1]


class Events(cq.Listener):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.batches: list[TraceRecord] = []
        self.switches: list[tuple[int, str]] = []
        self.failures: list[tuple[str | None, int, str]] = []

    def on_batch(self, record: TraceRecord) -> None:
        self.batches.append(record)

    def on_switch(self, record: TraceRecord, delta: Delta) -> None:
        self.switches.append((record.batch, delta.source))

    def on_failure(self, query: str | None, batch: int, error: Exception) -> None:
        self.failures.append((query, batch, str(error)))


@pytest.mark.long
def test_a_listener_gets_the_records_of_a_run_and_of_a_drop_in(
    spark: SparkSession, engine: cq.Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that the trace file has; and the log has a line per batch."""
    query, events, sink = engine.register(MET, id="met"), Events(), Collected()
    put(tmp_path / "in", parts())
    streams = {STREAM: reading(spark, tmp_path / "in")}
    with caplog.at_level("INFO", logger="cqels_opt"):
        run = query.start(streams, sink, tmp_path / "state", tmp_path / "t.jsonl", to_the_end=True, listener=events)
        run.await_termination()
    assert events.batches == list(read_trace(tmp_path / "t.jsonl"))
    assert events.switches == [(r.batch, delta.source) for r in events.batches for delta in r.switches]
    assert [r.answers for r in events.batches] == [len(sink.batches[number]) for number in range(3)]
    assert all(record.ms.sink > 0 for record in events.batches)
    logged = [record.message for record in caplog.records if "elements" in record.message]
    assert [text.split(":")[0] for text in logged] == [f"met batch {number}" for number in range(3)]

    records: list[TraceRecord] = []
    adaptive = engine.adaptive(MET, Collected(), tmp_path / "adaptive", listener=records.append, id="again")
    for number, part in enumerate(parts()):
        adaptive(frame_of(spark, part), number)
    assert [(r.query, r.batch) for r in records] == [("again", number) for number in range(3)]
    assert [r.answers for r in records] == [r.answers for r in events.batches]


@pytest.mark.long
def test_a_listener_gets_the_failures_of_a_run(spark: SparkSession, engine: cq.Engine, tmp_path: Path) -> None:
    """Of a query that has ended, and of a batch that fails because of the sink."""
    put(tmp_path / "in", parts())
    engine.register(MET, id="met")
    engine.register(CROWDS, id="crowds")
    streams, events = {STREAM: reading(spark, tmp_path / "in")}, Events()
    with pytest.warns(RuntimeWarning, match="met failed at batch 1"):
        limits = cq.Limits(rows=60, seconds=600)
        run = engine.start(streams, Collected(), tmp_path / "a", to_the_end=True, limits=limits, listener=events)
        run.await_termination()
    ((query, batch, why),) = events.failures
    assert (query, batch) == ("met", 1) and "more than the limit of 60" in why

    def failing(frame: DataFrame, batch: int) -> None:
        raise ValueError("the table is locked")

    events = Events()
    run = engine.start(streams, failing, tmp_path / "b", to_the_end=True, listener=events)
    with pytest.raises(RunError, match=r"^the run failed: ValueError: the table is locked$"):
        run.await_termination()
    assert (events.batches, events.failures) == ([], [(None, 0, "the table is locked")])


@pytest.mark.long
def test_limits_of_a_run(spark: SparkSession, engine: cq.Engine, files: Files, tmp_path: Path) -> None:
    """A query over its limit ends and the other has its answers; if it is the only one, the run ends but not the session."""
    put(tmp_path / "in", parts())
    met, crowds = engine.register(MET, id="met"), engine.register(CROWDS, id="crowds")
    streams, limits = {STREAM: reading(spark, tmp_path / "in")}, cq.Limits(rows=60, seconds=600)
    alone = met.start(streams, Collected(), tmp_path / "alone", to_the_end=True, limits=limits)
    with pytest.raises(LimitError, match="rows of answers in a micro-batch, more than the limit of 60"):
        alone.await_termination()
    sink = Collected()
    with pytest.warns(
        RuntimeWarning, match="met failed at batch 1, and the others continue without it: .* more than the limit of 60"
    ):
        run = engine.start(streams, sink, tmp_path / "both", to_the_end=True, limits=limits)
        run.await_termination()
    assert set(run.failures) == {"met"} and run.queries == ("crowds",)
    assert sink.answers(crowds.columns, "crowds") == expected(CROWDS, files)
    assert {batch for batch, rows in sink.batches.items() if any(row["query"] == "met" for row in rows)} == {0}


def test_names_that_clash(spark: SparkSession, engine: cq.Engine, tmp_path: Path) -> None:
    """Spark does not distinguish ?x and ?X, and ``time``, ``op`` and ``query`` are reserved."""
    text = f"""PREFIX : <{EX}> SELECT ?x ?X ?time ?query FROM NAMED :S [NOW] AS ?w
    WHERE {{ GRAPH ?w {{ ?x :at ?X }} BIND(1 AS ?time) BIND(?x AS ?query) }}"""
    put(tmp_path / "in", [ROWS[:5]])
    query, sink = engine.register(text), Collected()
    assert query.columns == {"x": "x", "X": "X_2", "time": "time_2", "query": "query_2"}
    query.start({STREAM: reading(spark, tmp_path / "in")}, sink, tmp_path / "state", to_the_end=True).await_termination()
    assert [name for name, _ in sink.types] == ["time", "op", "x", "X_2", "time_2", "query_2"]
    found = [(row["x"], row["X_2"], row["query_2"]) for row in sink.batches[0]]
    assert sorted(found) == sorted((s, o, s) for s, _, o, t in ROWS[:5] if t < ROWS[4][3])


def test_several_queries_share_columns(spark: SparkSession, engine: cq.Engine, tmp_path: Path) -> None:
    """``columns`` also holds for the DataFrame of all queries: Spark regards ?X and ?x as the same column."""
    queries = [
        engine.register(f"PREFIX : <{EX}> SELECT {names} FROM NAMED :S [NOW] AS ?w WHERE {{ GRAPH ?w {{ {pattern} }} }}")
        for names, pattern in (("?x ?X", "?x :at ?X"), ("?X ?y", "?X :at ?y"))
    ]
    assert [query.columns for query in queries] == [{"x": "x", "X": "X_2"}, {"X": "X", "y": "y"}]
    put(tmp_path / "in", [ROWS[:5]])
    sink = Collected()
    engine.start({STREAM: reading(spark, tmp_path / "in")}, sink, tmp_path / "state", to_the_end=True).await_termination()
    assert [name for name, _ in sink.types] == ["time", "op", "query", "x", "X_2", "y"]
    seen = sorted((s, o) for s, _, o, t in ROWS[:5] if t < ROWS[4][3])
    assert sorted((row["x"], row["X_2"]) for row in sink.batches[0] if row["query"] == "q1") == seen
    assert sorted((row["x"], row["y"]) for row in sink.batches[0] if row["query"] == "q2") == seen


@pytest.mark.long
def test_late_rows_are_dropped_and_counted(spark: SparkSession, engine: cq.Engine, files: Files, tmp_path: Path) -> None:
    one, two, three = parts()
    late = [(f"<{EX}p1>", f"<{EX}at>", f"<{EX}x1>", one[-1][3] - 1)]
    put(tmp_path / "in", [one, [*late, *two], three])
    query, sink = engine.register(MET), Collected()
    frames = {STREAM: reading(spark, tmp_path / "in")}
    query.start(frames, sink, tmp_path / "state", tmp_path / "t.jsonl", to_the_end=True).await_termination()
    assert [r.late for r in read_trace(tmp_path / "t.jsonl")] == [0, 1, 0]
    assert sink.answers(query.columns) == expected(MET, files)


def test_an_order_of_elements_settles_lateness(spark: SparkSession, engine: cq.Engine, files: Files, tmp_path: Path) -> None:
    """With ``order``, earlier rows of the same batch can make a row late."""
    late = (f"<{EX}p1>", f"<{EX}at>", f"<{EX}x1>", ROWS[40][3] - 10)
    arrived = [*ROWS[:41], late, *ROWS[41:]]
    (tmp_path / "in").mkdir()
    lines = [json.dumps({"s": s, "p": p, "o": o, "t": t, "n": n}) for n, (s, p, o, t) in enumerate(arrived)]
    (tmp_path / "in" / "0.json").write_text("\n".join(lines) + "\n")
    query, sink = engine.register(MET), Collected()
    frames = {STREAM: reading(spark, tmp_path / "in", "s string, p string, o string, t long, n long")}
    query.start(frames, sink, tmp_path / "state", tmp_path / "t.jsonl", to_the_end=True, order="n").await_termination()
    assert [r.late for r in read_trace(tmp_path / "t.jsonl")] == [1]
    assert sink.answers(query.columns) == expected(MET, files)


def test_bad_rows(spark: SparkSession, engine: cq.Engine, files: Files, tmp_path: Path) -> None:
    """Counted and skipped; with ``on_error="fail"`` they end the run."""
    bad: list[dict[str, object]] = [{"o": "x1"}, {"s": None}, {"t": None}, {"p": '"at"'}, {"s": '"p1"'}]
    good = [{"s": s, "p": p, "o": o, "t": t} for s, p, o, t in ROWS]
    (tmp_path / "in").mkdir()
    lines = [*good[:50], *({**good[50], **change} for change in bad), *good[50:]]
    (tmp_path / "in" / "0.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    query, sink = engine.register(MET), Collected()
    frames = {STREAM: reading(spark, tmp_path / "in")}
    query.start(frames, sink, tmp_path / "state", tmp_path / "t.jsonl", to_the_end=True).await_termination()
    assert [(r.elements, r.rejected, r.late) for r in read_trace(tmp_path / "t.jsonl")] == [(len(ROWS), len(bad), 0)]
    assert sink.answers(query.columns) == expected(MET, files)
    other = Collected()
    run = query.start(frames, other, tmp_path / "other", to_the_end=True, on_error="fail")
    with pytest.raises(DataError, match=f"<{STREAM}>:50: the object is not an N-Triples term"):
        run.await_termination()
    assert other.batches == {}


def test_plain_strings_are_not_terms(spark: SparkSession, engine: cq.Engine, tmp_path: Path) -> None:
    """The user is warned once, with a value and how to write it; the rejected rows are kept with their reasons."""
    query = engine.register(MET)
    put(tmp_path / "in", [[("<http://a>", "<http://p>", "alice", 1000)], [("http://ex.org/a", "<http://p>", '"x"', 2000)]])
    with pytest.warns(EngineWarning) as caught:
        query.start(
            {STREAM: reading(spark, tmp_path / "in")}, Collected(), tmp_path / "state", to_the_end=True
        ).await_termination()
    (warning,) = [str(one.message) for one in caught if issubclass(one.category, EngineWarning)]
    assert warning == (
        f"all triples of batch 0 are rejected (1): <{STREAM}>:0: the object is not an N-Triples term: "
        "not a term in N-Triples syntax: 'alice'; write \"alice\" for a text, or <http://…> for an IRI"
    )
    assert "'http://ex.org/a'; write <http://ex.org/a>\"" in (tmp_path / "state" / "rejected.jsonl").read_text()


def test_names_of_graphs_are_terms(spark: SparkSession, engine: cq.Engine, tmp_path: Path) -> None:
    """A row whose ``g`` is no name of a graph is rejected, whether or not the query reads it."""
    window = f"FROM NAMED WINDOW <{EX}w> ON <{STREAM}> [RANGE PT5S STEP PT1S]"
    queries = {
        True: f"SELECT ?g ?p {window} WHERE {{ WINDOW <{EX}w> {{ GRAPH ?g {{ ?p <{EX}at> ?l }} }} }}",
        False: f"SELECT ?p {window} WHERE {{ WINDOW <{EX}w> {{ ?p <{EX}at> ?l }} }}",
    }
    rows = [
        (f"<{EX}{i}>", f"<{EX}at>", "<http://l>", graph, 1000 + i)
        for i, graph in enumerate(["gg", '"lit"', "<http://g>", "_:b", None])
    ]
    frame = spark.createDataFrame(rows, "s string, p string, o string, g string, t long")
    for reads_graphs, query in queries.items():
        sink = Collected()
        adaptive = engine.adaptive(query, sink, tmp_path / str(reads_graphs), dialect="rspql")
        adaptive(frame, 0)
        assert adaptive.rejects is not None
        reasons = [json.loads(line)["reason"] for line in adaptive.rejects.read_text().splitlines()]
        assert len(reasons) == 2
        assert "the name of the graph is not an N-Triples term: " in reasons[0]
        assert reasons[1] == 'the name of the graph "lit" is neither an IRI nor a blank node'


def test_a_cell_of_a_notebook_runs_again(spark: SparkSession, engine: cq.Engine, tmp_path: Path) -> None:
    """The same query over the same state has the same name; the object before refuses further batches."""
    for options in ({}, {"id": "mine"}):
        state = tmp_path / f"state {options.get('id')}"
        first, second = (engine.adaptive(MET, Collected(), state, **options) for _ in range(2))  # type: ignore[arg-type]
        assert first.query.id == second.query.id
        second(frame_of(spark, parts()[0]), 0)
        with pytest.raises(
            CheckpointError, match=f"^{re.escape(str(state))}: another query of this process works with this state"
        ):
            first(frame_of(spark, parts()[0]), 0)
    apart = [engine.adaptive(MET, Collected()) for _ in range(2)]
    for adaptive in apart:
        adaptive(frame_of(spark, parts()[0]), 0)
    with pytest.raises(InputError, match="there is a query 'mine' already"):
        engine.adaptive(MET, Collected(), id="mine", duplicates="set")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"stream": f"{EX}OTHER"}, f"the query does not read {EX}OTHER; it reads <{STREAM}>"),
        ({"stream": 5}, "stream=5: give the IRI of a stream"),
        ({"on_error": "Skip"}, "on_error='Skip': choose from fail, skip"),
        ({"eager": "yes"}, "eager='yes': True or False is expected"),
        ({"limits": 5}, r"limits=5: give Limits\("),
        ({"types": ["n"]}, r"types=\['n'\]: give the type of a column by its variable"),
        ({"plan": None}, "plan=None: choose from"),
    ],
)
def test_what_adaptive_refuses(engine: cq.Engine, wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        engine.adaptive(MET, Collected(), **wrong)


def test_orders_that_are_none(spark: SparkSession) -> None:
    schema = "s string, p string, o string, t long, `a.b` long"
    frame = spark.createDataFrame([("<http://a>", "<http://p>", "<http://o>", 1, 7)], schema)
    assert [row["offset"] for row in as_rows(frame, 0, "a.b").collect()] == [7]
    for order, why in {
        "nope": "there is no such column among s, p, o, t, a.b",
        "s": "the column is string: it must have whole",
    }.items():
        with pytest.raises(InputError, match=f"order='{order}': {why}"):
            as_rows(frame, 0, order)
    with pytest.raises(InputError, match="has the columns s and S, which Spark takes for one"):
        as_rows(frame.withColumnRenamed("a.b", "S"), 0)


def test_what_an_engine_refuses(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="graphs: 'g' is no absolute IRI"):
        cq.Engine(spark, graphs={"g": files.places})
    with pytest.raises(InputError, match="on_error='foo': choose from fail, skip"):
        cq.Engine(spark, on_error="foo")  # type: ignore[arg-type]
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match=r"folder: .*/file: it is a file; a folder is expected"):
            cq.Engine(spark, folder=folder)


def test_columns_that_are_no_strings(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("<http://a>", "<http://p>", 5, 1)], "s string, p string, o int, t long")
    with pytest.raises(InputError, match=r"^the column o is int: it must be a string of N-Triples terms: <http"):
        as_rows(frame, 0)


def test_what_start_refuses(spark: SparkSession, engine: cq.Engine, tmp_path: Path) -> None:
    put(tmp_path / "in", parts())
    frame = reading(spark, tmp_path / "in")
    with pytest.raises(InputError, match="no query is registered"):
        engine.start({STREAM: frame}, Collected(), tmp_path / "state")
    query = engine.register(MET)
    with pytest.raises(InputError, match=f"reads stream <{STREAM}>"):
        query.start({f"{EX}T": frame}, Collected(), tmp_path / "state")
    rows_now = spark.createDataFrame([], "s string, p string, o string, t long")
    messages = cq.Messages(spark.createDataFrame([], "value string"), "nq")
    for wrong, why in (
        ("s.ndjson", "is str: a streaming DataFrame, Messages or a KafkaTopic is expected; cq.local.Engine reads files"),
        (None, "is NoneType: a streaming DataFrame, "),
        (rows_now, ": this DataFrame is not streaming: make it with spark.readStream"),
        (messages, ": this DataFrame is not streaming: make it with spark.readStream"),
    ):
        with pytest.raises(InputError, match=rf"^streams: <{STREAM}> ?{why}"):
            query.start({STREAM: cast("Any", wrong)}, Collected(), tmp_path / "state")
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "answers"):
        with pytest.raises(InputError, match=r"^sink: .*file: it is a file; a folder is expected"):
            query.start({STREAM: frame}, place, tmp_path / "state")
    for trigger in ("soon", "-5 seconds", "", 5):
        with pytest.raises(InputError, match=f"^trigger={trigger!r}: an interval is expected, such as"):
            query.start({STREAM: frame}, Collected(), tmp_path / f"of {trigger}", trigger=cast("Any", trigger))
    with pytest.raises(
        InputError, match=r"^trigger='1 second': a run to the end of its input has no interval: leave out trigger"
    ):
        query.start({STREAM: frame}, Collected(), tmp_path / "both", trigger="1 second", to_the_end=True)
    run = query.start({STREAM: frame}, Collected(), tmp_path / "followed")
    assert not run.await_termination(0)
    with pytest.raises(InputError, match="timeout=-1: a number of seconds is expected, or None"):
        run.await_termination(-1)
    run.stop()
    with pytest.raises(InputError, match="plan='spark': choose from adaptive, static"):
        query.start({STREAM: frame}, Collected(), tmp_path / "state", plan="spark")
    with pytest.raises(
        TypeError, match=r"^Engine\.adaptive\(\) got an unexpected keyword argument 'latenes'; did you mean lateness\?$"
    ):
        engine.adaptive(MET, Collected(), **cast("Any", {"latenes": "1s"}))
    with pytest.raises(
        InputError, match=r"this DataFrame is a stream, not a micro-batch of it: give this function to writeStream\.f"
    ):
        engine.adaptive(MET, Collected())(frame, 0)
    with pytest.raises(InputError, match="t is missing of"):
        query.start({STREAM: frame.drop("t")}, Collected(), tmp_path / "state")
    with pytest.raises(InputError, match="the column t is string"):
        query.start({STREAM: frame.withColumn("t", frame["s"])}, Collected(), tmp_path / "state")
    with pytest.raises(InputError, match="there is a query 'q1' already"):
        engine.register(MET, id="q1")
    for name in ("", "team/rooms", "..", ".hidden", "a" * 101, "http://ex.org/q"):
        with pytest.raises(InputError, match="is not a valid name of a query: names of files contain it"):
            engine.register(MET, id=name)


@pytest.mark.long
def test_a_run_keeps_what_it_reads(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    """Its engine has a temporary folder, and only the run refers to the engine."""
    put(tmp_path / "in", parts())
    sink = Collected()

    def begin() -> tuple[StreamRun, dict[str, str]]:
        query = cq.Engine(spark, static=files.static, graphs={MAP: files.places}).register(MET)
        return query.start({STREAM: reading(spark, tmp_path / "in")}, sink, tmp_path / "state", to_the_end=True), query.columns

    run, columns = begin()
    gc.collect()
    assert run.await_termination()
    assert sink.answers(columns) == expected(MET, files)


def test_rows_of_very_many_batches_have_places(spark: SparkSession) -> None:
    """Five batches per second make 2²³ in three weeks."""
    columns = "stream int, partition int, s string, p string, o string, g string, t long, late boolean"
    frame = spark.createDataFrame([(0, 0, "s", "p", "o", None, 1, False)], columns)

    def places(batch: int) -> list[int]:
        made = numbered(frame, batch, 2)
        return in_places(made.frame.toArrow(), made.first).column("offset").to_pylist()

    assert places(1 << 23) == places(0)
    assert places((1 << 24) - 1)[0] > 1 << 62


def test_rows_of_a_graph_are_in_one_task_and_graphs_are_told_apart(spark: SparkSession) -> None:
    columns = "stream int, partition int, s string, p string, o string, g string, t long, late boolean"
    rows = [(0, 0, f"s{i}", "p", "o", f"g{i % 50}" if i % 3 else None, 1, False) for i in range(600)]
    made = numbered(spark.createDataFrame(rows, columns).repartition(7), 5, 3)
    parts = [list(rows) for rows in made.frame.rdd.glom().collect()]
    found = [in_places(pa.Table.from_pylist([row.asDict() for row in part], ELEMENT_ROWS), made.first) for part in parts if part]
    places: dict[object, set[int]] = {}
    for row in (row for part in found for row in part.to_pylist()):
        places.setdefault(row["g"] or row["s"], set()).add(row["offset"])
    assert all(len(mine) == 1 for mine in places.values())
    assert len(set.union(*places.values())) == len(places) == len({row[5] or row[2] for row in rows})


# ------------------------------------------------------------------ foreachBatch
def follow(spark: SparkSession, folder: Path, function: Any, checkpoint: Path) -> None:
    """An existing job with its own foreachBatch and checkpoint."""
    writer = reading(spark, folder).writeStream.foreachBatch(function).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


@pytest.mark.long
def test_a_drop_in_for_foreach_batch(spark: SparkSession, engine: cq.Engine, files: Files, tmp_path: Path) -> None:
    put(tmp_path / "in", parts())
    sink = Collected()
    adaptive = engine.adaptive(MET, sink, tmp_path / "state", trace=tmp_path / "t.jsonl")
    follow(spark, tmp_path / "in", adaptive, tmp_path / "spark")
    assert sink.answers(adaptive.query.columns) == expected(MET, files)
    assert adaptive.switches == sum(d.switched for r in read_trace(tmp_path / "t.jsonl") for d in r.deltas)
    assert set(adaptive.plans()) == {"now", "then"}
    assert [block["frontier"] for block in adaptive.statistics().values()] == [ROWS[-1][3] - 1]  # type: ignore[index]


@pytest.mark.long
def test_a_batch_that_failed_is_done_by_the_same_object(
    spark: SparkSession, engine: cq.Engine, files: Files, tmp_path: Path
) -> None:
    """A job that restarts its query with the same foreachBatch object: no element of the batch is late by then."""
    put(tmp_path / "in", parts())
    sink, calls = Collected(), [0]

    def write(frame: DataFrame, batch: int) -> None:
        calls[0] += 1
        if calls[0] == 2:
            raise OSError("no space left on the device")
        sink(frame, batch)

    adaptive = engine.adaptive(MET, write, tmp_path / "state")
    with pytest.raises(StreamingQueryException, match="no space left on the device"):
        follow(spark, tmp_path / "in", adaptive, tmp_path / "spark")
    follow(spark, tmp_path / "in", adaptive, tmp_path / "spark")
    assert sink.answers(adaptive.query.columns) == expected(MET, files)
    assert adaptive.run.driver.state.totals["late"] == 0


@pytest.mark.long
def test_adaptive_goes_on_from_its_state(
    spark: SparkSession, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CQELS_OPT_TERM_KEY")
    sink = Collected()
    for first in (0, 2):
        put(tmp_path / "in", parts(count=4)[first : first + 2], first)
        engine = cq.Engine(spark, static=files.static, graphs={MAP: files.places})
        adaptive = engine.adaptive(MET, sink, tmp_path / "state")
        follow(spark, tmp_path / "in", adaptive, tmp_path / "spark")
    assert sorted(sink.batches) == [0, 1, 2, 3]
    assert sink.answers(adaptive.query.columns) == expected(MET, files)


def frame_of(spark: SparkSession, part: Sequence[Row4]) -> DataFrame:
    return spark.createDataFrame([*part], "s string, p string, o string, t long")


@pytest.mark.long
def test_a_batch_that_comes_again(spark: SparkSession, engine: cq.Engine, files: Files, tmp_path: Path) -> None:
    """The same rows under the same id, in the same process or a new one."""
    sink = Collected()
    adaptive = engine.adaptive(MET, sink, tmp_path / "state")
    one, two, three = parts()
    for number, part in enumerate((one, two)):
        adaptive(frame_of(spark, part), number)
    seen = sorted(map(str, sink.batches[1]))
    adaptive(frame_of(spark, two), 1)
    assert sorted(map(str, sink.batches[1])) == seen
    again = cq.Engine(spark, static=files.static, graphs={MAP: files.places}).adaptive(MET, sink, tmp_path / "state")
    again(frame_of(spark, two), 1)
    assert sorted(map(str, sink.batches[1])) == seen
    again(frame_of(spark, three), 2)
    assert sink.answers(again.query.columns) == expected(MET, files)


def test_the_static_data_of_an_engine_are_updated(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    sink = Collected()
    engine = cq.Engine(spark, static=files.static, graphs={MAP: files.places})
    adaptive = engine.adaptive(MET, sink, tmp_path / "state")
    adaptive(frame_of(spark, ROWS[:20]), 0)
    gone = engine.update(remove=files.static)
    adaptive(frame_of(spark, ROWS[20:50]), 1)
    adaptive(frame_of(spark, ROWS[20:50]), 1)  # a repeated batch has the version of its first run
    come = engine.update(add=[files.static])
    adaptive(frame_of(spark, ROWS[50:]), 2)
    assert (gone.number, gone.removed, come.number, come.added) == (2, come.added, 3, gone.removed)
    assert [len(sink.batches.get(number, [])) > 0 for number in range(3)] == [True, False, True]


def test_adaptive_without_state_begins_at_the_beginning(spark: SparkSession, engine: cq.Engine) -> None:
    sink = Collected()
    adaptive = engine.adaptive(MET, sink)
    with pytest.raises(CheckpointError, match=r"continues at batch 7, but adaptive\(\) has no state"):
        adaptive(frame_of(spark, ROWS), 7)
    assert sink.batches == {}
    adaptive(frame_of(spark, ROWS[:40]), 0)
    adaptive(frame_of(spark, ROWS[40:]), 1)
    assert sorted(sink.batches) == [0, 1]


@pytest.mark.long
def test_a_limit_ends_the_query_and_not_the_job(spark: SparkSession, engine: cq.Engine, tmp_path: Path) -> None:
    """Another query of the job continues; neither changes the user's session."""
    sink, other = Collected(), Collected()
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    limited = engine.adaptive(MET, sink, tmp_path / "one", limits=cq.Limits(rows=1))
    both = cq.together(limited, engine.adaptive(MET, other, tmp_path / "two"))
    with pytest.warns(RuntimeWarning, match="rows of answers in a micro-batch, more than the limit of 1"):
        for number, part in enumerate((ROWS[:20], ROWS[20:60], ROWS[60:])):
            both(frame_of(spark, part), number)
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    spark.conf.set("spark.sql.adaptive.enabled", str(before))
    assert sum(len(rows) for rows in sink.batches.values()) <= 1
    assert len(other.batches) == 3
    assert "Over:" in limited._repr_html_()
    assert "new rows of <b>now</b>" in limited.query._repr_html_()


def test_adaptive_of_several_streams(engine: cq.Engine) -> None:
    text = f"""PREFIX : <{EX}> SELECT ?p FROM NAMED :S [NOW] AS ?v FROM NAMED :T [RANGE 5s] AS ?w
    WHERE {{ GRAPH ?v {{ ?p :at ?l }} GRAPH ?w {{ ?p :at ?l }} }}"""
    with pytest.raises(InputError, match="say with stream= which of them"):
        engine.adaptive(text, Collected())


# ------------------------------------------------------------------ terms with equal ids
def test_terms_with_equal_ids_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    """A term of the stream, and one that an expression makes, have the id of a static term; each stage runs again."""
    one, other = "http://a.org/zrcn1imlm5dc", "http://a.org/hb4mggqwr1rn"
    (tmp_path / "static.nt").write_text(f'<{one}> <{EX}role> "admin" .\n<{EX}c> <{EX}role> "guest" .\n')
    put(tmp_path / "in", [[(f"<{s}>", f"<{EX}p>", f'"{other}"', 1000 * i)] for i, s in enumerate((other, f"{EX}c", other), 1)])
    text = (
        f"PREFIX : <{EX}> SELECT ?who ?r ?q FROM NAMED <{STREAM}> [RANGE 10s] AS ?w WHERE {{ GRAPH ?w {{ ?who :p ?text }} "
        "BIND(IRI(?text) AS ?made) OPTIONAL { ?who :role ?r } OPTIONAL { ?made :role ?q } }"
    )
    query, sink = cq.Engine(spark, static=tmp_path / "static.nt").register(text), Collected()
    run = query.start({STREAM: reading(spark, tmp_path / "in")}, sink, tmp_path / "state", to_the_end=True, eager=True)
    assert run.await_termination()
    assert [text for text, _ in run.driver.scheme.displaced] == [f"<{other}>"]
    found = {(row["who"], row["r"], row["q"]) for rows in sink.batches.values() for row in rows}
    assert found == {(f"<{other}>", None, None), (f"<{EX}c>", '"guest"', None)}
