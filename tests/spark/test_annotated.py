"""Annotated statements and filters on probabilities through Spark and the command line.

Tests without Spark show that all plans, batches and filter places have equal answers (tests/conformance/test_rdf_star.py,
tests/planner/test_uncertain_filters.py); these show that RDF-star files and costs reach executors and that counts return.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cqels_opt.bench.tunnel_data import Tunnel, queries
from cqels_opt.cli.commands import in_session
from cqels_opt.cli.options import RunOptions
from cqels_opt.cli.verification import judged
from cqels_opt.trace.records import TraceRecord
from cqels_opt.verify import Verdict, read_inputs
from cqels_opt.windows.batch_size import BatchSize

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "rdf-star.md").read_text(encoding="utf-8")


def verified(spark: SparkSession, asked: RunOptions, folder: Path) -> tuple[Verdict, list[TraceRecord]]:
    """As `cqels-opt verify`: the independent evaluation of a run, and the records of the run."""
    records: list[TraceRecord] = []
    in_session(spark, asked, folder / "state", records.extend)
    assert asked.out is not None
    (verdict,), *_ = judged(asked, read_inputs(list(asked.streams), list(asked.static)).inputs, asked.out)
    return verdict, records


@pytest.mark.long
@pytest.mark.parametrize("filters", ["cost", "H3", "H4"])
def test_filters_on_probabilities(filters: str, spark: SparkSession, tmp_path: Path) -> None:
    static, streams = Tunnel(sectors=6, seconds=13, beyond=0.2).write(tmp_path)
    (tmp_path / "q.rq").write_text(queries(0.3)["Q3a"], encoding="utf-8")
    asked = RunOptions(
        tmp_path / "q.rq",
        streams=tuple((iri, path) for iri, path in streams.items() if "temperature2" not in iri),
        static=(static,),
        filters=filters,  # type: ignore[arg-type]
        batch=BatchSize(duration=4_000),
        out=tmp_path / "out.jsonl",
    )
    verdict, records = verified(spark, asked, tmp_path)
    assert verdict.equal, verdict.text()
    assert verdict.rows > 0
    assert all(record.jobs <= 2 for record in records)
    plans = {delta.plan for record in records for delta in record.deltas}
    assert any("filter" in operator.op for record in records for delta in record.deltas for operator in delta.operators) == (
        filters != "H3"
    ), plans
    assert sum(call.rows for record in records for call in record.calls) > 0  # executors have reported their counts


def test_a_stream_of_rdf_star(spark: SparkSession, tmp_path: Path) -> None:
    """The example of the page, with triple terms of the stream and annotations of static data."""
    for name, kind in (("heart.trigs", "trig"), ("people.ttl", "turtle"), ("sure.rq", "sparql")):
        (tmp_path / name).write_text(re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)[0], encoding="utf-8")
    asked = RunOptions(
        tmp_path / "sure.rq",
        streams=(("http://ex.org/heart", tmp_path / "heart.trigs"),),
        static=(tmp_path / "people.ttl",),
        batch=BatchSize(count=1),
        out=tmp_path / "out.jsonl",
    )
    verdict, _ = verified(spark, asked, tmp_path)
    assert verdict.equal, verdict.text()
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines() == re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[
        0
    ].splitlines()
