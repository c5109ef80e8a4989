"""Without PySpark the local engine works, and what needs Spark says so in one sentence. ``make test-wheel`` has the real thing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cqels_opt
from cqels_opt.spark.package import is_absent, missing

QUERY = "PREFIX : <http://ex.org/> SELECT ?a FROM NAMED :s [RANGE 5s] AS ?w WHERE { GRAPH ?w { ?a :p ?b } ?b :q ?c }"
STREAM = '{"s": "<http://ex.org/a>", "p": "<http://ex.org/p>", "o": "<http://ex.org/b>", "t": 1}\n'
STATIC = "<http://ex.org/b> <http://ex.org/q> <http://ex.org/c> .\n"
DATA = ["--stream", "http://ex.org/s", "s.ndjson", "--static", "a.nt"]
LOCAL = ["--engine", "local"]
WORKS = [
    ["check", "q.rq"],
    ["convert", "q.rq", "--to", "cqels"],
    ["explain", "q.rq", *DATA, *LOCAL],
    ["run", "q.rq", *DATA, *LOCAL, "--trace", "t.jsonl", "--out", "answers.jsonl"],
    ["verify", "q.rq", *DATA, *LOCAL],
    ["trace", "t.jsonl"],
    ["load", "a.nt", "--store", "store", *LOCAL],
    ["load", "--update", "store", "--add", "b.nt"],
    ["run", "q.rq", *DATA[:3], "--store", "store", *LOCAL],
    ["calibrate", "--show"],
    ["bench", "--list"],
]
REFUSED = {
    "run q.rq": "--engine local runs the query without Spark and Java",
    "explain q.rq --static a.nt": "--engine local runs the query without Spark and Java",
    "verify q.rq": "--engine local runs the query without Spark and Java",
    "load a.nt --store store": "--engine local loads the files without Spark and Java",
    "calibrate": "--no-spark measures everything else",
    "bench figure-5": "--no-spark leaves out what needs it",
    "demo --engine spark": "without --engine spark, the demo needs neither Spark nor Java",
}
ON_SPARK_ONLY = ["bench", "recovery", "--quick", "--no-spark"]
SENTENCE = "needs PySpark, which is not installed: pip install 'cqels-opt[spark]'"
LOCAL_NAMES = {"Limits", "Listener", "local", "metrics", "register_distribution", "register_function", "spark_extension"}
PROGRAM = """
import contextlib, io, json, sys
sys.modules.update(dict.fromkeys(("pyspark", "py4j")))  # as if they were not installed
import cqels_opt
from cqels_opt.cli.main import main
found = []
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    found.append((code, out.getvalue(), err.getvalue()))
errors = {}
for name in cqels_opt.__all__:
    try:
        getattr(cqels_opt, name)
    except ImportError as error:
        assert isinstance(error, cqels_opt.InputError)
        errors[name] = str(error)
print(json.dumps([found, errors]))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[tuple[int, str, str]], dict[str, str]]:
    """Exit code, standard output and standard error of each command, and the errors of the public names."""
    folder = tmp_path_factory.mktemp("without")
    for file, text in (("q.rq", QUERY), ("s.ndjson", STREAM), ("a.nt", STATIC), ("b.nt", STATIC.replace("ex.org/b", "ex.org/d"))):
        (folder / file).write_text(text, encoding="utf-8")
    words = json.dumps([*WORKS, *(line.split() for line in REFUSED), ["bench", "evalution"], ON_SPARK_ONLY])
    # with ``-c`` the path begins with the folder of the process, not with the checkout
    source = f"import sys\nsys.path.insert(0, {str(Path(cqels_opt.__file__).parents[1])!r})\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", source], cwd=folder, input=words, capture_output=True, text=True, check=True)
    commands, errors = json.loads(done.stdout)
    return [(code, out, err) for code, out, err in commands], errors


@pytest.mark.parametrize("number", range(len(WORKS)), ids=[" ".join(words[:2]) for words in WORKS])
def test_the_local_engine_works(number: int, found: tuple[list[tuple[int, str, str]], Any]) -> None:
    code, out, err = found[0][number]
    assert (code, "PySpark" in err) == (0, False), err
    assert out or err


def test_the_answer_is_there(found: tuple[list[tuple[int, str, str]], Any]) -> None:
    _, out, _ = found[0][8]
    assert json.loads(out)["bindings"] == {"a": {"type": "uri", "value": "http://ex.org/a"}}


@pytest.mark.parametrize("number", range(len(REFUSED)), ids=REFUSED)
def test_other_commands_say_what_to_install_and_what_to_do_instead(
    number: int, found: tuple[list[tuple[int, str, str]], Any]
) -> None:
    assert found[0][len(WORKS) + number] == (2, "", f"this command {SENTENCE}; {[*REFUSED.values()][number]}\n")


def test_a_study_that_runs_on_spark_only_is_refused_without_it(found: tuple[list[tuple[int, str, str]], Any]) -> None:
    code, _, err = found[0][-1]
    assert (code, err) == (2, "--no-spark: the study recovery runs on Spark\n")


def test_a_misspelt_scenario_is_named_before_what_to_install(found: tuple[list[tuple[int, str, str]], Any]) -> None:
    code, _, err = found[0][-2]
    assert code == 2 and err.startswith("there is no scenario 'evalution'; did you mean evaluation?")


def test_an_older_pyspark_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its modules are missed, as if there were none."""
    monkeypatch.setattr("pyspark.__version__", "3.5.9")
    assert is_absent(ModuleNotFoundError(name="pyspark.core"))
    assert str(missing("cqels_opt.Engine")) == (
        "cqels_opt.Engine needs PySpark 4, and PySpark 3.5.9 is installed: with this version, only joins of DataFrames work "
        "(AdaptiveJoin, adaptive, adaptive_sql)"
    )


def test_names_of_spark_say_what_to_install(found: tuple[Any, dict[str, str]]) -> None:
    errors = found[1]
    classes = {name for name in cqels_opt.__all__ if re.fullmatch(r"\w+Error", name)}
    assert set(errors) == set(cqels_opt.__all__) - LOCAL_NAMES - classes
    assert all(error == f"cqels_opt.{name} {SENTENCE}" for name, error in errors.items())
