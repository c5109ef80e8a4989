"""What the pages tell a new user to type, typed: each page from an empty folder, with nothing but the installed package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 600
"""Seconds after which a command that does not come to an end is a failure."""


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def typed(words: list[str], folder: Path, text: str | None = None) -> str:
    """What a command says; it must go well."""
    environment = {**os.environ, "CQELS_OPT_CACHE": str(folder / "cache"), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(words, cwd=folder, env=environment, input=text, capture_output=True, text=True, timeout=LONGEST)
    assert done.returncode == 0, f"{' '.join(words)}\n{text or ''}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def shell(text: str, folder: Path) -> str:
    return typed(["bash", "-euo", "pipefail"], folder, text)


def blocks(text: str, language: str) -> list[str]:
    """The blocks that a page says to run, in order."""
    return re.findall(rf"<!-- run -->\n```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder."""
    return tmp_path_factory.mktemp("flights")


def test_the_commands_of_the_readme(flights: Path) -> None:
    (commands,) = blocks(page("README.md"), "")
    said = shell(commands, flights)
    answers = (flights / "answers.jsonl").read_text().splitlines()
    assert len(answers) > 10
    assert (flights / "flights" / "fog" / "trace.html").exists()
    assert re.search(rf"{len(answers)} answers at \d+ instants compared: all are the same", said)
    assert "delta now: " in said and "plan switch" in said


def test_the_python_of_the_readme(flights: Path) -> None:
    """After the commands, whose data it reads. A DataFrame never says that it is over, so the last instant's answers are not final."""
    first, second = blocks(page("README.md"), "python")
    count = "print([spark.read.parquet(folder).count() for folder in ('answers', 'out')])"
    said = typed([sys.executable, "-"], flights, f"{first}\n{second}\n{count}\n")
    departures = (flights / "flights" / "data" / "departures.ndjson").read_text().splitlines()
    last = max(json.loads(line)["t"] for line in departures)
    final = sum(json.loads(line)["time"] < last for line in (flights / "answers.jsonl").read_text().splitlines())
    assert f"[{final}, {final}]" in said


def test_the_tutorial(tmp_path: Path) -> None:
    text = page("docs/tutorial.md")
    query, *_ = re.findall(r"```\n(PREFIX.*?)```", text, re.DOTALL)
    (tmp_path / "late.rq").write_text(query, encoding="utf-8")
    install, run, explain, trace, verify = (
        block for block in re.findall(r"```\n(.*?)```", text, re.DOTALL) if "cqels-opt " in block
    )
    inputs = run[run.index("--stream") :].rstrip()
    shell(install.split("\n", 1)[1], tmp_path)  # the package is installed
    found = shell(run, tmp_path)
    elements, answers = re.findall(r"([\d,]+) elements .* (\d+) answers", text)[0]
    assert re.search(rf"{elements} elements .* {answers} answers", found)
    lines = (tmp_path / "late.jsonl").read_text().splitlines()
    assert lines[0].startswith(re.findall(r'^{"time": \d+, "op": "\+"', text, re.MULTILINE)[0])
    same = "…the same inputs…"
    assert "validity range: " in shell(explain.replace(same, inputs), tmp_path)
    assert "plan switches" in shell(trace, tmp_path)
    claimed = re.findall(r"\d+ answers at \d+ instants compared: all are the same", text)[0]
    assert claimed in shell(verify.replace(same, inputs), tmp_path)


def test_the_jobs_of_the_folder_examples(tmp_path: Path) -> None:
    from cqels_opt.bench.adaptive_join import Size, make

    make(tmp_path / "data", Size(famous=3, fanout=20, ordinary=40, batches=1, views=30, matching=0.5))
    rows = []
    for name in ("plain_join", "adaptive_join"):
        typed([sys.executable, str(ROOT / "examples" / f"{name}.py"), "data", name], tmp_path)
        rows.append(typed([sys.executable, "-c", SORTED, f"{name}/rows"], tmp_path))
    assert rows[0] == rows[1]
    assert len(rows[0].splitlines()) > 10


SORTED = """
import sys
import pyarrow.parquet as parquet
for row in sorted(tuple(row.values()) for row in parquet.read_table(sys.argv[1], columns=["item", "follower", "offer"]).to_pylist()):
    print(row)
"""
