"""The Python of Spark's workers: the driver's on one machine; elsewhere one sentence that names both."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cqels_opt.errors import InputError, RunError
from cqels_opt.spark.worker_python import explained, reason, use_this_python


class Session(SimpleNamespace):
    """A session whose workers run a Python, or cannot run a function."""

    def __init__(self, master: str, python: str | None = None) -> None:
        class Job:
            def map(self, _: object) -> Any:
                return SimpleNamespace(collect=self.collect)

            def collect(self) -> list[str]:
                if python is None:
                    raise type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})
                return [python]

        context = SimpleNamespace(master=master, pythonExec="python3", parallelize=lambda *_: Job())
        super().__init__(sparkContext=context)


@pytest.mark.parametrize(
    ("master", "variable", "python"),
    [
        ("local[2]", None, sys.executable),
        ("local", None, sys.executable),
        ("local-cluster[2,1,1024]", None, sys.executable),
        ("local[2]", "/opt/python", "python3"),
        ("spark://host:7077", None, "python3"),
        ("yarn", None, "python3"),
    ],
)
def test_workers_of_this_machine(master: str, variable: str | None, python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if variable is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", variable)
    session: Any = Session(master)
    use_this_python(session)
    assert session.sparkContext.pythonExec == python


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        ("File x\nModuleNotFoundError: No module named 'cqels_opt'\n", "has no module cqels_opt"),
        ("ModuleNotFoundError: No module named 'numpy.core'", "has no module numpy"),
        ("/usr/bin/python3: No module named pyspark", "has no module pyspark"),
        ("Python in worker has different version: 3.9 than that in driver: 3.11, PySpark cannot run", "is Python 3.9 and not 3."),
        ("ModuleNotFoundError: No module named 'of_the_user'", None),
        ("ZeroDivisionError", None),
    ],
)
def test_reasons(failure: str, sentence: str | None) -> None:
    found = reason(failure)
    assert (found is None) if sentence is None else found is not None and found.startswith(sentence)


@pytest.mark.parametrize("theirs", ["/usr/bin/python3.9", None])
def test_one_sentence_names_both(theirs: str | None) -> None:
    session: Any = Session("spark://host:7077", theirs)
    with pytest.raises(RunError) as caught, explained(session):
        raise ValueError("ModuleNotFoundError: No module named 'cqels_opt'\nand 400 more lines")
    assert str(caught.value) == (
        f"Spark's workers run {theirs or 'python3'}, which has no module cqels_opt; the driver runs {sys.executable}. "
        "Set PYSPARK_PYTHON to a Python that has cqels-opt on every machine, before the session is created"
    )


@pytest.mark.parametrize("error", [ZeroDivisionError("mine"), InputError("No module named 'numpy'")])
def test_other_failures_stay_what_they_are(error: Exception) -> None:
    session: Any = Session("spark://host:7077")
    with pytest.raises(type(error)) as caught, explained(session):
        raise error
    assert caught.value is error


# ------------------------------------------------------------------ a job of a virtual environment that is not activated
JOB = """
import sys
from pyspark.sql import SparkSession
import cqels_opt as cq

folder = sys.argv[1]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF").getOrCreate()
rows = [("<http://a>", "<http://p>", '"1"', 1000), ("<http://b>", "<http://p>", '"2"', 3000)]
spark.createDataFrame(rows, "s string, p string, o string, t long").write.json(f"{folder}/in")
query = "SELECT ?s FROM NAMED <http://s> [RANGE 1s] AS ?w WHERE { GRAPH ?w { ?s <http://p> ?o } }"
adaptive = cq.Engine(spark).adaptive(query, lambda df, id: print([row.s for row in df.collect()]))
frame = spark.readStream.schema("s string, p string, o string, t long").json(f"{folder}/in")
try:
    frame.writeStream.foreachBatch(adaptive).trigger(availableNow=True).start().awaitTermination()
except Exception as error:
    print([line for line in str(error).splitlines() if "workers run" in line])
"""


def run_job(folder: Path, **variables: str) -> str:
    kept = {name: os.environ[name] for name in ("HOME", "JAVA_HOME", "SPARK_SUBMIT_OPTS") if name in os.environ}
    (folder / "job.py").write_text(JOB)
    words = [sys.executable, str(folder / "job.py"), str(folder)]
    package = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        words,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": package, **kept, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_a_job_without_an_activated_environment(tmp_path: Path) -> None:
    assert run_job(tmp_path) == "['<http://a>']\n"


@pytest.mark.long
def test_workers_of_another_python(tmp_path: Path) -> None:
    """A virtual environment without packages."""
    venv.create(tmp_path / "other", symlinks=True)
    other = tmp_path / "other/bin/python"
    printed = run_job(tmp_path, PYSPARK_PYTHON=str(other))
    assert f"Spark's workers run {other}" in printed
    assert f"the driver runs {sys.executable}. Set PYSPARK_PYTHON" in printed
