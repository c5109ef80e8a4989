"""A small paced run: every element is processed, all answers are equal, and latencies count from the elements' intended times."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
def test_all_contenders_finish_a_paced_stream(spark: SparkSession, tmp_path: Path) -> None:
    from cqels_opt.bench import paced
    from cqels_opt.bench.report import REPORT

    scenario = replace(REPORT, authors=300, coauthor_pairs=1_000, places=40, rate=50, window=10)
    found = paced.paced(spark, tmp_path, scenario, ("Q2",), paced.Length(warm=0, counted=1))
    assert [run.contender for run in found] == list(paced.CONTENDERS)
    for run in found:
        assert run.behind == 0
        assert list(run.latencies) == list(paced.PERCENTILES)
        assert all(isfinite(ms) and ms > 0 for ms in run.latencies.values())
    ours, rows, rival, nothing = found
    assert (ours.answers, ours.digest) == (rows.answers, rows.digest) == (rival.answers, rival.digest)
    assert ours.answers
    assert [run.verified for run in found] == [True, True, True, False]
    assert nothing.digest is None
