"""Spark's constants: the experiments, and that they distinguish the constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import pytest
from pyspark.sql import SparkSession

from cqels_opt.planner.calibration import Experiment
from cqels_opt.planner.calibration_store import SPARK_NAMES
from cqels_opt.plans import Constants
from cqels_opt.spark import calibrate


def test_the_experiments_tell_sparks_constants_apart(spark: SparkSession) -> None:
    true = {**asdict(Constants()), "made": 3e-7, "joined": 0.05}

    def timer(tried: Sequence[Experiment]) -> list[float]:
        return [sum(true[name] * units for name, units in experiment.work.items()) for experiment in tried]

    before = spark.conf.get("spark.sql.adaptive.enabled")
    found = calibrate.measure(spark, timer)
    assert found == pytest.approx({name: true[name] for name in SPARK_NAMES}, rel=1e-3)
    assert spark.conf.get("spark.sql.adaptive.enabled") == before
    assert spark.conf.get("spark.sql.autoBroadcastJoinThreshold") != "-1"


def test_an_experiment_is_the_work_that_it_says(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "ROWS", (1000, 3000))
    tried = [*calibrate.experiments(spark)]
    assert {name for experiment in tried for name in experiment.work} == {
        "job",
        "stage",
        "made",
        "shuffle",
        "joined",
        "broadcast",
    }
    for experiment in tried:
        rows = experiment.run()
        assert isinstance(rows, list)
        if "made" in experiment.work:
            assert sum(row["n"] for row in rows) == experiment.work["made"]
        elif "broadcast" in experiment.work:
            assert sum(row["n"] for row in rows) == 100
        else:
            assert len(rows) == (2 if "stage" in experiment.work else 1)
