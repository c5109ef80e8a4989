"""The extension of Spark's optimizer: answers equal to Spark's own, orders that follow the data, few samples where they do not matter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cqels_opt.errors import InputError, RunError
from cqels_opt.spark import extension

SEEDS = 1


def test_a_jar_cannot_be_made_without_spark_or_from_other_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = tmp_path / "sources"
    wrong.mkdir()
    (wrong / "Wrong.scala").write_text("class Wrong extends Missing")
    monkeypatch.setattr(extension, "_SOURCES", wrong)
    with pytest.raises(RunError, match=r"cannot be compiled for the Spark in (?s:.*)Missing"):
        extension.build(tmp_path / "made" / "out.jar")
    assert [*(tmp_path / "made").iterdir()] == []
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(InputError, match="there is none: pip install pyspark"):
        extension.spark_extension()
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.9.jar").touch()
    with pytest.raises(InputError, match=r"needs Spark 4, and .* has Spark 3"):
        extension.spark_extension()


def test_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert extension.main([]) == extension.main(["--help"]) == 2
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert extension.main(["out.jar"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("the Spark extension is compiled for the Spark that is installed")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process of its own found, whose session has the extension from its start on."""
    words = [sys.executable, "-m", "tests.spark.extension_job", str(tmp_path_factory.mktemp("extension")), str(SEEDS)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4_000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.long
def test_answers_are_those_of_spark(job: dict[str, Any]) -> None:
    for seed, found in enumerate(job["compared"]):
        for query, (same, _, _) in found.items():
            assert same, f"seed {seed}: {query}"
    queries = job["compared"][0]
    rebuilt = {query for query in queries if any(found[query][1] for found in job["compared"])}
    nonempty = {query for query in queries if any(found[query][2] for found in job["compared"])}
    assert nonempty == {*queries}
    left_alone = {query for query in queries if any(part in query for part in (" IN (", "v two", "SEMI", "max(n)", "o9"))}
    assert rebuilt == {*queries} - left_alone


@pytest.mark.long
def test_the_order_follows_the_micro_batches(job: dict[str, Any]) -> None:
    found = job["drift"]
    assert found["first"] == ["offers", "follows"]
    assert found["answers"] == [1_000, 1_000]
    assert found["streamed"] == {"rows": 1_000, "first": "offers"}


@pytest.mark.long
def test_a_table_that_could_not_be_counted_is_counted_later(job: dict[str, Any]) -> None:
    """After 64 plans."""
    assert job["retried"] == [False] * 65 + [True]


@pytest.mark.long
def test_few_samples_where_the_order_does_not_matter(job: dict[str, Any]) -> None:
    """The interval grows to 8 and then to 64: of sixteen micro-batches, the first and the ninth are sampled."""
    assert job["pauses"] == 2
