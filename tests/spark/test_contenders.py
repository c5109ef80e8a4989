"""Contenders with their own JVM in the whole harness: they agree with one in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from cqels_opt.bench.comparing import compare
from cqels_opt.bench.declared import read

SCENARIO = """
contenders = ["adaptive", "spark-adaptive", "spark-tuned"]
[data]
generator = "social"
authors = 60
coauthor_pairs = 300
places = 6
[queries]
Q2 = "report:q2.rq"
[stream]
rates = [20]
window = 30
seconds = 4
warm_up = 1
"""


@pytest.mark.long
def test_spark_agrees(tmp_path: Path) -> None:
    path = tmp_path / "spark.toml"
    path.write_text(SCENARIO, encoding="utf-8")
    report = compare(read(path))
    assert report["failed"] == []
    found = {result["contender"]: result for result in report["results"]}
    assert list(found) == ["adaptive", "spark-adaptive", "spark-tuned"]
    assert found["adaptive"]["answers"] == found["spark-adaptive"]["answers"] == found["spark-tuned"]["answers"] > 0
    assert found["spark-adaptive"]["phases"]["optimize"] > 0
    assert {result["milliseconds"]["batches"] for result in found.values()} == {4}
