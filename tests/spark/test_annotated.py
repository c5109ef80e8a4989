"""Annotated statements through Spark, the way that the command line goes; the rest is without it (tests/conformance/test_rdf_star.py)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from cqels_opt.asked import judged
from cqels_opt.commands import in_session
from cqels_opt.options import Batch, RunOptions
from cqels_opt.verify import Verdict, read_inputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "rdf-star.md").read_text(encoding="utf-8")


def verified(spark: SparkSession, asked: RunOptions, folder: Path) -> Verdict:
    """As `cqels-opt verify` does it: what the independent evaluation says of a run."""
    in_session(spark, asked, folder / "state")
    assert asked.out is not None
    (verdict,), _ = judged(asked, read_inputs(list(asked.streams), list(asked.static)).inputs, asked.out)
    return verdict


def test_a_stream_of_rdf_star(spark: SparkSession, tmp_path: Path) -> None:
    """What stands on the page, with triple terms of the stream and annotations of static data."""
    for name, kind in (("heart.trigs", "trig"), ("people.ttl", "turtle"), ("sure.rq", "sparql")):
        (tmp_path / name).write_text(re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)[0], encoding="utf-8")
    asked = RunOptions(
        tmp_path / "sure.rq",
        streams=(("http://ex.org/heart", tmp_path / "heart.trigs"),),
        static=(tmp_path / "people.ttl",),
        batch=Batch(elements=1),
        out=tmp_path / "out.jsonl",
    )
    verdict = verified(spark, asked, tmp_path)
    assert verdict.equal, verdict.text()
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines() == re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[
        0
    ].splitlines()
