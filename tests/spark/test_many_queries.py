"""Queries that differ in constants only, as one plan on Spark; queries added and removed; and one text with a file of constants."""

from __future__ import annotations

import os
import threading
from collections import Counter
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as pa_dataset
import pytest

import cqels_opt as cq
from cqels_opt.cli.commands import in_session
from cqels_opt.cli.options import RunOptions
from cqels_opt.cli.verification import judged
from cqels_opt.errors import InputError
from cqels_opt.query.parser import parse
from cqels_opt.trace.records import read_trace
from cqels_opt.verify import Options, evaluate
from cqels_opt.windows.batch_size import BatchSize

from .small_world import EX, MAP, STREAM, Files, rows, write_rows, write_world

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WHERE = """PREFIX : <http://ex.org/>
SELECT ?name FROM NAMED :S [RANGE 5s] AS ?w WHERE { GRAPH ?w { :$who$ :at ?l } GRAPH :map { ?l :name ?name } }"""


ALL = f"PREFIX : <{EX}> SELECT ?p FROM NAMED :S [NOW] AS ?w WHERE {{ GRAPH ?w {{ ?p :at ?l }} }}"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_world(tmp_path_factory.mktemp("world"), 80)


def where(who: str) -> str:
    return WHERE.replace("$who$", who)


def put(folder: Path, number: int, arrived: list[tuple[str, str, str, int]]) -> None:
    """The next file of a stream, whose modification time determines its position."""
    path = folder / f".{number}"
    write_rows(path, arrived[20 * number : 20 * number + 20])
    os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
    path.rename(folder / f"{number}.json")


def test_one_text_with_a_file_of_constants(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    (tmp_path / "where.rq").write_text(WHERE, encoding="utf-8")
    (tmp_path / "who.csv").write_text("id,who\n" + "".join(f"of-{i},p{i}\n" for i in range(1, 4)), encoding="utf-8")
    options = RunOptions(
        tmp_path / "where.rq",
        streams=((STREAM, files.stream),),
        static=(files.static,),
        graphs=((MAP, files.places),),
        batch=BatchSize(count=25),
        out=tmp_path / "out.jsonl",
        trace=tmp_path / "t.jsonl",
        instances=tmp_path / "who.csv",
    )
    in_session(spark, options, tmp_path / "state")
    verdicts, *_ = judged(options, files.inputs(), tmp_path / "out.jsonl")
    assert len(verdicts) == 3 and all(verdict.equal and verdict.rows for verdict in verdicts), [v.text() for v in verdicts]
    records = list(read_trace(tmp_path / "t.jsonl"))
    assert {(record.query, record.instances) for record in records} == {("like-of-1", 3)}
    assert all(record.jobs <= 2 for record in records)


class Changing:
    """A sink that adds and removes queries during a batch, with effect from the next one."""

    def __init__(self) -> None:
        self.batches: dict[int, list[dict[str, Any]]] = {}
        self.begun = threading.Event()
        self.run: Any = None

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self.begun.wait()
        self.batches[batch] = [row.asDict() for row in frame.collect()]
        if batch == 0:
            assert self.run.add(where("p3"), id="three") == ("three",)
        elif batch == 1:
            self.run.remove("one")


@pytest.mark.long
def test_queries_come_and_go(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    arrived = rows(80)
    (tmp_path / "in").mkdir()
    for number in range(3):
        put(tmp_path / "in", number, arrived)

    def started(sink: Changing) -> Any:
        engine = cq.Engine(spark, static=files.static, graphs={MAP: files.places})
        for name, who in (("one", "p1"), ("two", "p2")):
            engine.register(where(who), id=name)
        engine.register(ALL, id="all")  # has answers with every batch, so that the sink is called
        stream = spark.readStream.schema("s string, p string, o string, t long").option("maxFilesPerTrigger", 1)
        frame = stream.json(str(tmp_path / "in"))
        sink.run = engine.start({STREAM: frame}, sink, tmp_path / "state", to_the_end=True)
        sink.begun.set()
        return sink.run

    sink = Changing()
    run = started(sink)
    run.await_termination()
    assert run.queries == ("two", "three", "all")
    with pytest.raises(InputError, match="there is no query 'one'"):
        run.remove("one")
    with pytest.raises(InputError, match=r"it reads the stream <http://ex.org/T>, which this run does not"):
        run.add(where("p1").replace(":S", ":T"), id="other")
    with pytest.raises(InputError, match="the run has ended: start the queries in another one"):
        run.add(where("p1"), id="other again")
    put(tmp_path / "in", 3, arrived)
    again = started(sink)
    again.await_termination()
    assert again.queries == ("two", "three", "all") and set(again.plans()) == {"like-one", "all"}

    found: dict[str, Counter[int]] = {"one": Counter(), "two": Counter(), "three": Counter()}
    for batch in sink.batches.values():
        for row in batch:
            found.setdefault(row["query"], Counter())[round(row["time"].replace(tzinfo=UTC).timestamp() * 1000)] += 1
    inputs, last = files.inputs(), arrived[-1][3]
    ends = [_frontier(arrived[: 20 * number]) for number in (1, 2)]
    spans = {"one": (0, ends[1]), "two": (0, last), "three": (ends[0], last)}
    for name, (first, upto) in spans.items():
        alone = evaluate(parse(where(f"p{1 + list(spans).index(name)}")), inputs, Options())
        want: Counter[int] = Counter()
        for (time, _, _), count in alone.items():
            if first < time < upto:
                want[time] += count
        mine = Counter({time: count for time, count in found[name].items() if time < last})
        assert mine == want, name
    assert found["three"] and found["two"]


def _frontier(arrived: list[tuple[str, str, str, int]]) -> int:
    """The time up to which answers are final after these elements."""
    return max(t for *_, t in arrived) - 1


def test_a_folder_of_answers_names_instances(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_rows(tmp_path / "in" / "0.json", rows(80))
    engine = cq.Engine(spark, static=files.static, graphs={MAP: files.places})
    for number in (1, 2):
        engine.register(where(f"p{number}"), id=f"q{number}")
    engine.register(ALL, id="all")
    frame = spark.readStream.schema("s string, p string, o string, t long").json(str(tmp_path / "in"))
    engine.start({STREAM: frame}, tmp_path / "out", tmp_path / "state", to_the_end=True).await_termination()
    assert sorted(path.name for path in (tmp_path / "out").glob("query=*")) == ["query=all", "query=like-q1"]
    table = pa_dataset.dataset(tmp_path / "out" / "query=like-q1").to_table()
    assert set(table.column("instance").to_pylist()) == {"q1", "q2"}
