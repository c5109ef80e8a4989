"""A delta that an operator has stopped on Spark: the task of the batch evaluates it again, in the same job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cqels_opt.bench.false_statistics import FALSIFIED, falsified
from cqels_opt.cli import commands, local_run
from cqels_opt.cli.options import RunOptions
from cqels_opt.planner import row_limits
from cqels_opt.plans.plan_sampling import PlanSampling
from cqels_opt.trace.records import read_trace
from cqels_opt.windows.batch_size import BatchSize

from .small_world import MAP, MET, STREAM, write_query, write_world


def test_it_is_planned_again_in_the_same_job(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = write_world(tmp_path, 150)
    given = RunOptions(
        query=write_query(tmp_path, MET), streams=((STREAM, files.stream),), static=(files.static,), graphs=((MAP, files.places),),
        batch=BatchSize(count=25),
    )  # fmt: skip
    calm, disturbed = (
        replace(given, out=tmp_path / f"{name}.jsonl", checkpoint=tmp_path / name, trace=tmp_path / f"{name}-trace.jsonl")
        for name in ("calm", "disturbed")
    )
    local_run.run(calm)
    monkeypatch.setattr(row_limits, "FEWEST", 1.0)
    monkeypatch.setattr(row_limits, "TIMES", 1.5)
    monkeypatch.setattr(PlanSampling, "sample", lambda *_: [])  # a sample would correct the false statistics before
    assert disturbed.checkpoint is not None
    with falsified(FALSIFIED["statistics scaled by 10^±3"], 0):
        commands.in_session(spark, disturbed, disturbed.checkpoint, None)
    calm_answers, answers = ((tmp_path / f"{name}.jsonl").read_text().splitlines() for name in ("calm", "disturbed"))
    assert sorted(answers) == sorted(calm_answers) != []
    records = [*read_trace(tmp_path / "disturbed-trace.jsonl")]
    assert [record.batch for record in records if any(delta.stopped for delta in record.deltas)]
    assert {record.jobs for record in records} == {1}
