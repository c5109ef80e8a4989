"""The local engine as a user has it: the answers of the independent evaluation, without Spark, Java or another process."""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from local_runs import commit_records
from spark.small_world import CROWDS, MAP, MET, STREAM, Files, rows, write_rows, write_world

import cqels_opt as cq
from cqels_opt.errors import CheckpointError, InputError, RunError, for_the_command_line
from cqels_opt.query.parser import parse
from cqels_opt.storage import disk
from cqels_opt.trace.records import TraceRecord, read_trace
from cqels_opt.verify import Options, evaluate, read_answers


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return write_world(tmp_path / "world", 60)


def engine(files: Files) -> cq.local.Engine:
    return cq.local.Engine(static=files.static, graphs={MAP: files.places})


def expected(files: Files, query: str = MET) -> Counter[object]:
    return Counter(evaluate(parse(query), files.inputs(), Options()))


@pytest.mark.parametrize("query", [MET, CROWDS])
def test_lines_of_answers(query: str, files: Files, tmp_path: Path) -> None:
    out, trace = tmp_path / "out.jsonl", tmp_path / "trace.jsonl"
    run = engine(files).register(query).start({STREAM: files.stream}, out, tmp_path / "checkpoint", trace, batch=20)
    assert run.await_termination() and not run.is_active
    assert read_answers(out) == expected(files, query)
    assert [record.batch for record in read_trace(trace)] == [0, 1, 2]
    assert sum(record.jobs for record in read_trace(trace)) == 0
    assert repr(run).startswith("LocalRun(['q1'], 3 micro-batches")
    assert run.queries == ("q1",)
    for wrong in (-1, "1s", True):
        with pytest.raises(cq.InputError, match=f"timeout={wrong!r}: a number of seconds is expected, or None"):
            run.await_termination(wrong)  # type: ignore[arg-type]
    with pytest.raises(cq.InputError, match="queries are added to and removed from a run of"):
        run.add(MET)


def test_a_function_gets_tables(files: Files, tmp_path: Path) -> None:
    got: list[pa.Table] = []
    queries = engine(files)
    queries.register(MET, types={"name": "string"})
    queries.register("PREFIX : <http://ex.org/> ASK FROM NAMED :S [RANGE 5s] AS ?w WHERE { GRAPH ?w { ?p :at :x1 } }", id="ask")
    queries.start(
        {STREAM: files.stream}, lambda table, batch: got.append(table), tmp_path / "checkpoint", batch="1s"
    ).await_termination()
    whole = pa.concat_tables(got)
    assert whole.schema.names == ["time", "op", "query", "p", "q", "name", "boolean"]
    assert whole.schema.field("time").type == pa.timestamp("ms", tz="UTC")
    assert whole.schema.field("boolean").type == pa.bool_()
    met = [row for row in whole.to_pylist() if row["query"] == "q1"]
    assert len(met) == expected(files).total()
    assert {row["boolean"] for row in whole.to_pylist() if row["query"] == "ask"} == {True, False}
    assert {row["name"] for row in met} == {f"Room {number}" for number in range(4)}


def test_a_folder_of_parquet_files(files: Files, tmp_path: Path) -> None:
    engine(files).register(MET).start({STREAM: files.stream}, tmp_path / "out", tmp_path / "checkpoint").await_termination()
    assert parquet.read_table(tmp_path / "out").num_rows == expected(files).total()


def test_the_newest_run_of_a_process_has_the_checkpoint(files: Files, tmp_path: Path) -> None:
    """The older one ends with its next batch, and writes nothing more: a cell of a notebook runs again."""
    query, begun, may_end = engine(files).register(MET), threading.Event(), threading.Event()
    got: list[tuple[str, int]] = []

    def slow(table: pa.Table, batch: int) -> None:
        got.append(("old", batch))
        begun.set()
        assert may_end.wait(60)

    old = query.start({STREAM: files.stream}, slow, tmp_path / "checkpoint", batch=20)
    assert begun.wait(60)
    threading.Timer(0.2, may_end.set).start()
    new = query.start({STREAM: files.stream}, lambda table, batch: got.append(("new", batch)), tmp_path / "checkpoint", batch=20)
    assert new.await_termination()
    with pytest.raises(CheckpointError, match="a newer run of this process works with the checkpoint"):
        old.await_termination()
    assert got == [("old", 0), ("new", 1), ("new", 2)]


def test_a_sink_can_stop_its_run(files: Files, tmp_path: Path) -> None:
    runs: queue.Queue[cq.local.LocalRun] = queue.Queue()
    got: list[int] = []

    def sink(table: pa.Table, batch: int) -> None:
        got.append(batch)
        run = runs.get(timeout=60)
        with pytest.raises(RunError, match="cannot wait for the end of its own run"):
            run.await_termination()
        run.stop()

    query = engine(files).register(MET)
    runs.put(run := query.start({STREAM: files.stream}, sink, tmp_path / "checkpoint", batch=20))
    assert run.await_termination()
    again = query.start({STREAM: files.stream}, lambda table, batch: got.append(batch), tmp_path / "checkpoint", batch=20)
    assert again.await_termination()
    assert got == [0, 1, 2]


def test_an_error_of_a_sink_is_the_users(files: Files, tmp_path: Path) -> None:
    def sink(table: pa.Table, batch: int) -> None:
        raise RuntimeError("upload: Permission denied")

    run = engine(files).register(MET).start({STREAM: files.stream}, sink, tmp_path / "checkpoint")
    with pytest.raises(RuntimeError, match="upload: Permission denied"):
        run.await_termination()


def test_queries_are_registered_by_several_threads(files: Files, tmp_path: Path) -> None:
    """Also where a folder has been deleted that the process has written to."""
    queries = engine(files)
    with disk.create(tmp_path / "file") as file:
        file.write(b"")
    (other := Path(tempfile.mkdtemp(dir=tmp_path))).rmdir()
    disk._written[-1] = other
    threads = [threading.Thread(target=queries.register, args=(MET.replace("5s", f"{seconds}s"),)) for seconds in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(query.id for query in queries.queries) == [f"q{number}" for number in range(1, 9)]


def test_a_file_has_answers_or_a_trace(files: Files, tmp_path: Path) -> None:
    query, file = engine(files).register(MET), tmp_path / "one.jsonl"
    with pytest.raises(InputError, match="the answers are in this file"):
        query.start({STREAM: files.stream}, file, tmp_path / "checkpoint", tmp_path / "." / "one.jsonl")
    assert not file.exists()


def test_queries_that_share_a_program_are_explained_by_their_names(files: Files, tmp_path: Path) -> None:
    queries = engine(files)
    for name in ("a", "b"):
        queries.register(MET, id=name)
    run = queries.start({STREAM: files.stream}, lambda table, batch: None, tmp_path / "checkpoint")
    assert run.await_termination()
    assert run.explain("a") == run.explain("b") == run.explain()
    with pytest.raises(InputError, match="there is no query 'c'"):
        run.explain("c")


def test_a_stream_is_given_once(files: Files, tmp_path: Path) -> None:
    query = engine(files).register(MET)
    with pytest.raises(InputError, match="is given twice, with and without brackets"):
        query.start({STREAM: files.stream, f"<{STREAM}>": files.stream}, tmp_path / "out.jsonl", tmp_path / "checkpoint")


def test_a_replay_with_other_options_names_them_as_the_user_writes_them(files: Files, tmp_path: Path) -> None:
    query, place = engine(files).register(MET), tmp_path / "checkpoint"
    query.start({STREAM: files.stream}, tmp_path / "o.jsonl", place, batch=20).await_termination()
    with pytest.raises(CheckpointError, match=r"was made with lateness=0ms, not 1000ms; give what .* or another checkpoint$"):
        query.start({STREAM: files.stream}, tmp_path / "o.jsonl", place, batch=20, lateness="1s")
    with for_the_command_line(), pytest.raises(CheckpointError, match="was made with --lateness 0ms, not 1000ms"):
        query.start({STREAM: files.stream}, tmp_path / "o.jsonl", place, batch=20, lateness="1s")


def test_it_resumes(files: Files, tmp_path: Path) -> None:
    """A sink that fails ends the run; the next start repeats the batch under its id, and none before it."""
    got: list[int] = []

    def fails(table: pa.Table, batch: int) -> None:
        got.append(batch)
        if got == [0, 1, 2, 3]:
            raise ValueError("the sink is full")

    with pytest.raises(ValueError, match="the sink is full"):
        engine(files).register(MET).start({STREAM: files.stream}, fails, tmp_path / "c", batch=10).await_termination()
    engine(files).register(MET).start({STREAM: files.stream}, fails, tmp_path / "c", batch=10).await_termination()
    assert got == [0, 1, 2, 3, 3, 4, 5]


@pytest.mark.parametrize("sink", ["out.jsonl", "out", "function"])
def test_only_a_replay_into_a_file_of_lines_has_batches_without_a_commit_record(
    sink: str, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder would lose batches that readers have seen until they run again, and a function would get them twice."""
    written = commit_records(monkeypatch)
    to = (lambda table, batch: None) if sink == "function" else tmp_path / sink
    engine(files).register(MET).start({STREAM: files.stream}, to, tmp_path / "c", batch=10).await_termination()
    assert written == ([0, 5] if sink == "out.jsonl" else [0, 1, 2, 3, 4, 5])


def test_live_folders_and_queries_that_come_and_go(files: Files, tmp_path: Path) -> None:
    """Files are read in order of their times; a late element and an unreadable line are counted and do not end the run."""
    folder, got, batches = tmp_path / "live", Counter[str](), queue.Queue[TraceRecord]()
    folder.mkdir()
    written = rows(60)
    write_rows(folder / "a.ndjson", written[:20])
    with (folder / "a.ndjson").open("a", encoding="utf-8") as file:
        file.write('{"s": "nobody"}\n' + json.dumps(dict(zip("spot", written[0]))) + "\n")

    def count(table: pa.Table, batch: int) -> None:
        got.update(table.column("query").to_pylist())

    def bring(name: str, some: Sequence[tuple[str, str, str, int]]) -> None:
        write_rows(tmp_path / name, some)
        (tmp_path / name).rename(folder / name)

    queries = engine(files)
    queries.register(MET)
    run = queries.start({STREAM: folder}, count, tmp_path / "c", listener=batches.put)
    first = batches.get(timeout=60)
    assert (first.elements, first.late, first.rejected) == (20, 1, 1)
    (folder / "_hidden.ndjson").write_text("no stream")
    with pytest.raises(InputError, match=r"later: it reads the stream <http://ex.org/T>, which this run does not"):
        run.add(MET.replace(":S ", ":T "), id="later")
    assert run.add(MET, id="later") == ("later",)
    bring("b.ndjson", written[20:40])
    assert {batches.get(timeout=60).batch} == {1}
    assert got["later"] and got["q1"] > got["later"]
    run.remove("later")
    before = got["later"]
    bring("c.ndjson", written[40:])
    while batches.get(timeout=60).batch < 2:  # the two queries of batch 1 share a plan or have a record each
        continue
    run.stop()
    assert got["later"] == before and run.driver.state.totals["elements"] == 60


def test_a_file_whose_name_is_not_utf8_does_not_end_a_run(files: Files, tmp_path: Path) -> None:
    folder, batches = tmp_path / "live", queue.Queue[TraceRecord]()
    folder.mkdir()
    write_rows(folder / "a.ndjson", rows(20))
    write_rows(wrong := folder / os.fsdecode(b"caf\xe9.ndjson"), rows(60)[20:])
    run = engine(files).register(MET).start({STREAM: folder}, lambda *_: None, tmp_path / "c", listener=batches.put)
    first = batches.get(timeout=60)
    assert (first.elements, first.notices) == (20, (rf"{folder}: b'caf\xe9.ndjson': the name is not UTF-8: rename it",))
    wrong.rename(folder / "b.ndjson")
    second = batches.get(timeout=60)
    assert (second.elements, second.notices) == (40, ())
    run.stop()


def test_a_run_that_follows_is_stopped(files: Files, tmp_path: Path) -> None:
    folder = tmp_path / "live"
    folder.mkdir()
    write_rows(folder / "a.ndjson", rows(30))
    run = engine(files).register(MET).start({STREAM: folder}, tmp_path / "out.jsonl", tmp_path / "c")
    assert not run.await_termination(0)
    run.stop()
    assert run.await_termination() and not run.is_active


def test_a_trace_stays_where_it_began(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    run = (
        engine(files)
        .register(MET)
        .start({STREAM: files.stream}, lambda *_: monkeypatch.chdir(tmp_path / "elsewhere"), tmp_path / "c", "t.jsonl")
    )
    assert run.await_termination()
    assert list(read_trace(tmp_path / "t.jsonl")) and not list((tmp_path / "elsewhere").iterdir())


def test_empty_input(files: Files, tmp_path: Path) -> None:
    files.stream.write_text("")
    (tmp_path / "live").mkdir()
    for number, stream in enumerate((files.stream, tmp_path / "live")):
        options = {} if stream.is_file() else {"to_the_end": True}
        out = tmp_path / f"{number}.jsonl"
        run = engine(files).register(MET).start({STREAM: stream}, out, tmp_path / f"c{number}", **options)
        assert run.await_termination()
        assert out.read_text() == ""


def test_a_query_without_streams_is_answered_once(files: Files, tmp_path: Path) -> None:
    query = "PREFIX : <http://ex.org/> SELECT ?n WHERE { GRAPH :map { ?l :name ?n } }"
    for _ in range(2):
        engine(files).register(query).start({}, tmp_path / "out.jsonl", tmp_path / "c").await_termination()
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("stream", "options", "message"),
    [
        (object(), {}, f"streams: <{STREAM}> is object: the local engine reads files and folders"),
        ("missing.ndjson", {}, "missing.ndjson: no such file or folder"),
        ("stream.ndjson", {"batch": 0}, "batch=0: a micro-batch has at least 1 element"),
        ("stream.ndjson", {"max_ahead": "1s"}, "max_ahead= is for live folders, and the streams are a replay of files"),
        ("live", {"drain": True}, "drain= is for a replay of files, and the streams are live folders"),
        (["live", "stream.ndjson"], {}, "a run follows folders or replays files, not both at once"),
        ("stream.ndjson", {"lateness": "soon"}, "lateness"),
    ],
)
def test_bad_input(
    stream: object, options: dict[str, object], message: str, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files.stream.parent)
    Path("live").mkdir()
    query = engine(files).register(MET)
    with pytest.raises(cq.InputError, match=message.replace("(", r"\(")):
        query.start({STREAM: stream}, Path("out.jsonl"), Path("c"), **options)  # type: ignore[arg-type]


WRONG: list[tuple[Callable[[cq.local.Engine, Path], object], str]] = [
    (lambda one, _: one.register(5), "a query is a text, not int"),
    (lambda one, _: one.register("late.rq"), "'late.rq' looks like the name of a file: give its text"),
    (lambda *_: cq.local.Engine(static=5), "static: 5 is no path"),
    (lambda *_: cq.local.Engine(graphs="map.ttl"), "graphs='map.ttl': give files by the IRI of their graph"),
    (lambda *_: cq.Limits(rows="many"), "limits: rows='many' is no number"),
    (
        lambda one, file: one.register(MET).start({}, file, file.parent / "c"),
        f"the query reads stream <{STREAM}>, but given is no stream: add",
    ),
    (
        lambda one, file: one.register(MET).start("s.ndjson", file, file.parent / "c"),
        "streams='s.ndjson': give the streams by their IRIs",
    ),
    (lambda one, file: one.register(MET).start({STREAM: file}, 5, file.parent / "c"), "sink=5: give a function"),
    (lambda one, file: one.register(MET).start({STREAM: file}, file.parent / "o.jsonl", 5), "checkpoint: 5 is no path"),
    (
        lambda one, file: one.register(MET).start({STREAM: file}, file.parent / "o.jsonl", file),
        "it is a file; a folder is expected",
    ),
    (
        lambda one, file: one.register(MET).start({STREAM: file}, file.parent / "o.jsonl", file.parent / "c", 5),
        "trace: 5 is no path",
    ),
    (
        lambda one, file: one.register(MET).start({STREAM: file}, file.parent / "o.jsonl", file.parent / "c", plan="adptive"),
        "plan='adptive': choose from adaptive",
    ),
    (
        lambda one, file: one.register(MET).start({STREAM: file}, file.parent / "o.jsonl", file.parent / "c", plan="spark"),
        "plan='spark': choose from adaptive",
    ),
    (lambda one, file: one.register(MET).start({STREAM: file}, file, file.parent / "c"), "no run of cqels-opt has written it"),
    (
        lambda one, file: one.register(MET).start({STREAM: file}, file / "o.jsonl", file.parent / "c"),
        "it is a file; a folder is expected",
    ),
    (
        lambda one, file: one.register(MET).start({STREAM: file}, file / "o", file.parent / "c"),
        "it is a file; a folder is expected",
    ),
    (
        lambda one, file: one.register(MET).start({STREAM: file}, file.parent / "o.jsonl", file.parent / "c", processes="x"),  # type: ignore[arg-type]
        "processes='x': a run has at least 1 process",
    ),
    (lambda *_: cq.local.Engine(static=""), "static: the name is empty"),
    (lambda one, _: one.register(MET, id=""), "'' is not a valid name of a query"),
    (lambda one, _: one.register(MET, dialect=None), "unknown dialect None; there are auto, cqels"),  # type: ignore[arg-type]
    (lambda one, _: one.register(MET, profile=3), "unknown profile 3; there are cqels"),  # type: ignore[arg-type]
    (lambda one, _: one.register(MET).to_text(None), "unknown dialect None; there are cqels"),  # type: ignore[arg-type]
    (
        lambda one, file: one.register(MET).start({STREAM: file}, file.parent / "o.jsonl", file.parent / "c", limits=5),
        "limits=5: give Limits",
    ),
]


@pytest.mark.parametrize(("use", "message"), WRONG, ids=[message[:30] for _, message in WRONG])
def test_wrong_types(use: Callable[[cq.local.Engine, Path], object], message: str, files: Files) -> None:
    with pytest.raises(cq.InputError, match=re.escape(message)):
        use(engine(files), files.stream)


def test_other_static_data_under_a_checkpoint(files: Files, tmp_path: Path) -> None:
    engine(files).register(MET).start({STREAM: files.stream}, tmp_path / "o.jsonl", tmp_path / "c").await_termination()
    with files.static.open("a", encoding="utf-8") as file:
        file.write("<http://ex.org/new> <http://ex.org/knows> <http://ex.org/new> .\n")
    with pytest.raises(cq.CqelsOptError, match="its static data differs"):
        engine(files).register(MET).start({STREAM: files.stream}, tmp_path / "o.jsonl", tmp_path / "c")


ALONE = """
import sys

started, starts = [], ("subprocess.Popen", "os.fork", "os.posix_spawn")
sys.addaudithook(lambda event, _: started.append(event) if event in starts else None)
import cqels_opt as cq

engine = cq.local.Engine(static=sys.argv[1], graphs={sys.argv[2]: sys.argv[3]})
engine.register(sys.argv[4]).start({sys.argv[5]: sys.argv[6]}, sys.argv[7], sys.argv[8]).await_termination()
print(len(started), "pyspark" in sys.modules, "py4j" in sys.modules)
"""


@pytest.mark.long
def test_no_java_and_no_pyspark(files: Files, tmp_path: Path) -> None:
    """In a process of its own, which records each process that it starts."""
    words = [files.static, MAP, files.places, MET, STREAM, files.stream, tmp_path / "out.jsonl", tmp_path / "c"]
    done = subprocess.run([sys.executable, "-c", ALONE, *map(str, words)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "False", "False"]
    assert read_answers(tmp_path / "out.jsonl") == expected(files)
