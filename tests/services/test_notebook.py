"""What a notebook shows: a query its plans, a run where it stands; as a reader sees it in a browser, light and dark, wide and narrow."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from playwright.sync_api import Browser
from spark.small_world import EX, MAP, MET, STREAM, write_world

CELLS = (
    """
import cqels_opt as cq
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
engine = cq.Engine(spark, static="world/static.nt", graphs={MAP: "world/places.nt"})
query = engine.register(MET)
query
""",
    """
elements = spark.readStream.schema("s string, p string, o string, t long").json("world/stream*.ndjson")
run = query.start({STREAM: elements}, sink="answers", checkpoint="state", to_the_end=True)
run.watch()
""",
    "run",
    """
people = spark.createDataFrame([("p1", "Ann")], "who string, name string")
join = cq.AdaptiveJoin(spark).relation("seen", window="5s").relation("people", people).on("seen.who = people.who")
join
""",
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The notebook, run from an empty folder, as nbconvert makes a page of it."""
    folder = tmp_path_factory.mktemp("notebook")
    write_world(folder / "world", elements=40)
    names = f"MET, MAP, STREAM = {MET!r}, {MAP!r}, {STREAM!r}"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text.strip()) for text in (names, *CELLS)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)  # else Spark's workers are the python3 of PATH
        NotebookClient(book, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    exporter = HTMLExporter(embed_images=True)
    html, _ = exporter.from_notebook_node(book)
    (folder / "book.html").write_text(html, encoding="utf-8")
    return folder / "book.html"


def test_a_query_shows_its_plans_and_a_run_where_it_stands(page: Path, browser: Browser) -> None:
    seen = browser.new_page()
    seen.goto(page.as_uri())
    plans, watched, run, join = seen.locator(".cqels-opt").all()
    assert "new rows of now" in plans.inner_text() and "alternatives retained" in plans.inner_text()
    assert "estimated" in plans.inner_text()
    for shown in (watched, run):
        assert "40 elements" in shown.inner_text()
        assert "answers are final up to" in shown.inner_text()
    assert "seen.who = people.who" in join.inner_text() and "explain()" in join.inner_text()
    assert EX not in plans.inner_text().split("where")[0]
    seen.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 420])
def test_nothing_is_cut_off(page: Path, browser: Browser, width: int, scheme: str) -> None:
    """What does not fit can be scrolled to inside its own box; no cell has text that nobody can read."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    seen = context.new_page()
    seen.goto(page.as_uri())
    over = seen.evaluate(
        """() => [...document.querySelectorAll(".cqels-opt td, .cqels-opt th, .cqels-opt code")]
             .filter(one => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0).map(one => one.textContent)"""
    )
    assert over == []
    context.close()
