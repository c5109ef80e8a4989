"""The trace's page in Spark's UI: links of jobs to it, what it answers, and when it goes. One process has a session with a UI."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import cqels_opt as cq
from cqels_opt.query.parser import parse
from cqels_opt.spark.job_descriptions import LONGEST, shortened, with_link, without_link
from cqels_opt.spark.trace_page import attached
from cqels_opt.trace.page import page_script
from cqels_opt.verify import Element, Inputs, Options, evaluate

from .small_world import MAP, MET, STREAM, Files, rows, write_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TESTS = Path(__file__).resolve().parents[1]
ESCAPED = "met &lt;1&gt; &amp; others"  # the name of the query in markup


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of the job in ``trace_page_job.py``, and what it found."""
    folder = tmp_path_factory.mktemp("job")
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    words = [sys.executable, "-m", "spark.trace_page_job", str(folder)]
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, json.loads((folder / "found.json").read_text(encoding="utf-8"))


def data_of(answer: list[Any]) -> dict[str, Any]:
    """The data of a page that the UI answers with."""
    status, page = answer
    assert status == 200
    (data,) = re.findall(r'id="data">(.*?)</script>', page)
    found = json.loads(data)
    assert isinstance(found, dict)
    return found


def is_first_page(page: str) -> bool:
    """Whether the UI has redirected a path that it does not know."""
    return "Spark Jobs" in page and 'id="data"' not in page


def links(found: dict[str, Any]) -> set[str]:
    """The texts of the links to the page in the UI's list of jobs."""
    return set(re.findall(rf'<a href="{found["path"]}">(.*?)</a>', found["jobs"]))


# ------------------------------------------------------------------ in the UI
@pytest.mark.long
def test_jobs_link_to_the_page_of_their_run(job: tuple[Path, dict[str, Any]]) -> None:
    """Its headline and the text of its query, as of each request; with a name that is markup."""
    found = job[1]["sparql"]
    assert re.fullmatch("/cqels-opt/[0-9a-f]{8}/", found["path"])
    assert links(found) == {f"{ESCAPED} batch 0"}
    data = data_of(found["page"])
    (query,) = data["queries"]
    assert (data["title"], query["query"], query["text"], query["batches"]) == ("sparql.jsonl", "met <1> & others", MET, 1)
    assert query["headline"][0].startswith("No plan changed")
    assert found["script"] == [200, page_script()]
    assert data_of(found["later"])["queries"][0]["batches"] == 2


@pytest.mark.long
def test_the_ui_serves_nothing_else(job: tuple[Path, dict[str, Any]]) -> None:
    found = job[1]["sparql"]
    assert all(status >= 400 or is_first_page(page) for status, page in found["others"])
    status, text = found["damaged"]
    assert status == 500 and "sparql.jsonl:3: " in text


@pytest.mark.long
def test_the_page_goes_when_the_run_is_stopped(job: tuple[Path, dict[str, Any]]) -> None:
    status, page = job[1]["sparql"]["stopped"]
    assert status == 404 or is_first_page(page)


@pytest.mark.long
def test_joins_of_dataframes(job: tuple[Path, dict[str, Any]]) -> None:
    """All of their jobs are of Spark SQL. EXPLAIN ANALYZE has their descriptions without the link; the page goes with the join."""
    found = job[1]["join"]
    assert {"join batch 0", "join"} <= links(found)
    assert data_of(found["page"])["queries"][0]["query"] == "join"
    assert "): join batch 0: " in found["explain"] and "<a" not in found["explain"]
    assert found["deleted"][0] == 404 or is_first_page(found["deleted"][1])
    assert found["answers"] == [2]


@pytest.mark.long
def test_a_query_that_is_planned_per_micro_batch(job: tuple[Path, dict[str, Any]]) -> None:
    found = job[1]["sql"]
    assert links(found) == {"query"}
    assert data_of(found["page"])["title"] == "sql.jsonl"


@pytest.mark.long
def test_without_the_servlet_there_is_a_warning_and_the_same_answers(job: tuple[Path, dict[str, Any]]) -> None:
    folder, found = job[0], job[1]["failure"]
    assert found["warnings"] == [
        f"descriptions in Spark's UI do not link to the page of {folder / 'failed.jsonl'}: "
        "this version of Spark has no servlet that forwards requests"
    ]
    assert (found["page"], found["servers"]) == (None, 0)
    files = Files(folder / "world/stream.ndjson", folder / "world/static.nt", folder / "world/places.nt")
    inputs, stream = files.inputs(), [Element(t, ((s, p, o),)) for s, p, o, t in rows(80)]
    wanted: Counter[tuple[str, ...]] = Counter()
    for (at, _, row), count in evaluate(parse(MET), Inputs({STREAM: stream}, inputs.default, inputs.graphs), Options()).items():
        if at <= found["until"]:
            values = dict(row)
            wanted[values["p"], values["q"], values["name"]] += count
    assert wanted and Counter(map(tuple, found["answers"])) == wanted


# ------------------------------------------------------------------ without a UI
def test_a_session_whose_ui_is_off(spark: SparkSession, tmp_path: Path) -> None:
    files = write_world(tmp_path, 1)
    adaptive = cq.Engine(spark, static=files.static, graphs={MAP: files.places}).adaptive(
        MET, lambda frame, number: None, trace=tmp_path / "t.jsonl", id="met"
    )
    adaptive(spark.createDataFrame(rows(10), "s string, p string, o string, t long"), 0)
    assert (tmp_path / "t.jsonl").exists() and adaptive.run.runner.page is None
    assert attached(spark, tmp_path / "t.jsonl", adaptive) is None


@pytest.mark.parametrize("session", [SimpleNamespace(), SimpleNamespace(sparkContext=SimpleNamespace())])
def test_a_session_without_a_jvm_in_reach(session: Any, tmp_path: Path) -> None:
    """Spark Connect."""
    assert attached(session, tmp_path / "t.jsonl", session) is None


# ------------------------------------------------------------------ descriptions
@pytest.mark.parametrize("text", ["q1 batch 12: join a » b[?x]", "no colon", '<a href="/x">y</a> & "z": a: b', ""])
def test_a_link_keeps_the_text(text: str) -> None:
    linked = with_link(text, "/cqels-opt/1/")
    assert linked.startswith('<a href="/cqels-opt/1/">') and linked.count("<") == 2
    assert without_link(linked) == text
    assert without_link("a < b") == "a < b"


def test_the_text_is_cut_before_it_is_escaped() -> None:
    linked = with_link(shortened("q: " + "&" * 1_000), "/p/")
    assert linked.endswith("&amp;…") and len(without_link(linked)) == LONGEST
