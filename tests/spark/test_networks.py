"""Several queries of a command as one Spark job, one of which feeds another; and graphs and truth values as DataFrames."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as pa_dataset
import pytest

import cqels_opt as cq
from cqels_opt.cli.commands import in_session
from cqels_opt.cli.options import RunOptions
from cqels_opt.cli.verification import judged
from cqels_opt.errors import InputError
from cqels_opt.trace.records import read_trace
from cqels_opt.windows.batch_size import BatchSize

from .small_world import EX, MAP, STREAM, Files, rows, write_rows, write_world

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PAIRS = """PREFIX : <http://ex.org/>
REGISTER QUERY :pairs AS
CONSTRUCT { ?l :saw [ :one ?p ; :other ?q ] }
FROM NAMED :S [NOW] AS ?now
FROM NAMED :S [RANGE 5s] AS ?then
WHERE { GRAPH ?now { ?p :at ?l } GRAPH ?then { ?q :at ?l } ?p :knows ?q }
"""
COUNTS = """PREFIX : <http://ex.org/>
SELECT ?name (COUNT(?m) AS ?n)
FROM NAMED :pairs [RANGE 8s] AS ?met
WHERE { GRAPH ?met { ?l :saw ?m } GRAPH :map { ?l :name ?name } }
GROUP BY ?name
"""
ANY = """PREFIX : <http://ex.org/>
ASK FROM NAMED :pairs [RANGE 2s] AS ?met WHERE { GRAPH ?met { ?l :saw ?m . ?m :one :p0 } }
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_world(tmp_path_factory.mktemp("world"), 60)


def asked(files: Files, folder: Path, out: str, batch: int) -> RunOptions:
    paths = []
    for name, text in (("counts", COUNTS), ("pairs", PAIRS), ("any", ANY)):
        paths.append(folder / f"{name}.rq")
        paths[-1].write_text(text, encoding="utf-8")
    return RunOptions(
        paths[0],
        streams=((STREAM, files.stream),),
        static=(files.static,),
        graphs=((MAP, files.places),),
        batch=BatchSize(count=batch),
        out=folder / out.rstrip("/"),
        out_folder=out.endswith("/"),
        trace=folder / "t.jsonl",
        more=tuple(paths[1:]),
    )


def test_a_network_in_one_run(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    options = asked(files, tmp_path, "out.jsonl", 25)
    in_session(spark, options, tmp_path / "state")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {line["query"] for line in lines} == {"counts", "pairs", "any"}
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)
    verdicts, *_ = judged(options, files.inputs(), tmp_path / "out.jsonl")
    assert len(verdicts) == 3 and all(verdict.equal and verdict.rows for verdict in verdicts), [v.text() for v in verdicts]
    records = list(read_trace(tmp_path / "t.jsonl"))
    assert [record.query for record in records[:3]] == ["counts", "pairs", "any"]
    assert all(record.jobs <= 6 for record in records)  # a stage of queries has at most three

    folders = replace(asked(files, tmp_path, "out/", 60), trace=tmp_path / "other.jsonl")
    in_session(spark, folders, tmp_path / "other")
    for name in ("counts", "pairs", "any"):
        table = pa_dataset.dataset(tmp_path / "out" / f"query={name}").to_table()
        mine = [line for line in lines if line["query"] == name]
        assert table.num_rows == sum(len(line.get("triples", [0])) for line in mine)
        assert set(table.column_names) >= (
            {"s", "p", "o"} if name == "pairs" else {"boolean"} if name == "any" else {"name", "n"}
        )


@pytest.mark.long
@pytest.mark.parametrize(("plan", "joins"), [("adaptive", "spark"), ("spark", "auto")])
def test_a_network_with_joins_of_spark(plan: Any, joins: Any, spark: SparkSession, files: Files, tmp_path: Path) -> None:
    options = replace(asked(files, tmp_path, "out.jsonl", 40), plan=plan, joins=joins)
    in_session(spark, options, tmp_path / "state")
    verdicts, *_ = judged(options, files.inputs(), tmp_path / "out.jsonl")
    assert len(verdicts) == 3 and all(verdict.equal and verdict.rows for verdict in verdicts), [v.text() for v in verdicts]


class Collected:
    def __init__(self) -> None:
        self.types: list[tuple[str, str]] = []
        self.rows: list[dict[str, Any]] = []

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self.types = frame.dtypes
        self.rows += [row.asDict() for row in frame.collect()]


def test_from_python(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    engine = cq.Engine(spark, static=files.static, graphs={MAP: files.places})
    any_, pairs = engine.register(ANY, id="any"), engine.register(PAIRS, id="pairs")
    assert (any_.columns, pairs.columns) == ({"boolean": "boolean"}, {"s": "s", "p": "p", "o": "o"})
    assert "saw" not in pairs.explain("json") and "delta" in pairs.explain()
    (tmp_path / "in").mkdir()
    write_rows(tmp_path / "in" / "1.json", rows(60))
    frame = spark.readStream.schema("s string, p string, o string, t long").json(str(tmp_path / "in"))
    sink = Collected()
    engine.start({STREAM: frame}, sink, tmp_path / "state", to_the_end=True).await_termination()
    strings = [(name, "string") for name in ("op", "query", "s", "p", "o")]
    assert sorted(sink.types) == sorted([("time", "timestamp"), *strings, ("boolean", "boolean")])
    assert {row["p"] for row in sink.rows if row["query"] == "pairs"} == {f"<{EX}{p}>" for p in ("saw", "one", "other")}
    assert {row["boolean"] for row in sink.rows if row["query"] == "any"} == {True, False}
    with pytest.raises(InputError, match=r"the query reads stream <http://ex.org/pairs>, but given is <http://ex.org/S>"):
        any_.start({STREAM: frame}, sink, tmp_path / "alone")
