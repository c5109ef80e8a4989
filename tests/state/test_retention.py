"""What is kept of the streams: all that may still be named, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_runs import Cut, Settings, World, register

from cqels_opt.state.retention import Retention
from cqels_opt.verify import Element
from cqels_opt.windows.binding_slots import SlotFile

EX = "http://ex.org/"


def element(t: int, s: str, p: str, o: str) -> Element:
    return Element(t, ((f"<{EX}{s}>", f"<{EX}{p}>", f"<{EX}{o}>"),))


MANY = [element(3000 + 1000 * i, f"sensor-{i}", "at", f"somewhere-{i}") for i in range(40)]


@pytest.mark.parametrize("operator", ["istream", "dstream", "rstream"])
@pytest.mark.parametrize("window", ["TRIPLES 1", "TRIPLES 3", "RANGE 2 s"])
@pytest.mark.parametrize("select", ["?a ?x", "?x (MAX(?a) AS ?m)"])
def test_what_left_a_window_since_the_last_report_can_still_be_named(
    select: str, window: str, operator: str, tmp_path: Path
) -> None:
    """The query is looked at every ten elements; a batch is one."""
    text = f"PREFIX : <{EX}> SELECT {select} FROM NAMED :S [{window}] AS ?w {{ GRAPH ?w {{ ?a :at ?x }} }}"
    text += " GROUP BY ?x" if "MAX" in select else ""
    query = register(text, World({f"{EX}S": [MANY]}), tmp_path, Settings(operator, {"": "p:10000"}))
    outcome = query.run(Cut("1"))
    assert query.judged(outcome.answers).equal
    assert outcome.answers


@pytest.mark.parametrize("window", ["TRIPLES 1", "ALL"])
def test_terms_of_a_stream_go_with_its_windows(window: str, tmp_path: Path) -> None:
    """Another stream, of which all is needed for good, does not keep them."""
    busy = [element(3000 + 1000 * i, f"sensor-{i}", "at", f"somewhere-{i}") for i in range(100)]
    text = f"""PREFIX : <{EX}> SELECT ?a ?x FROM NAMED :S [RANGE 2 s] AS ?w FROM NAMED :T [{window}] AS ?z
    {{ GRAPH ?w {{ ?a :at ?x }} GRAPH ?z {{ ?b :is ?x }} }}"""
    query = register(text, World({f"{EX}S": [busy], f"{EX}T": [[element(3000, "here", "is", "somewhere-1")]]}), tmp_path)
    outcome = query.run(Cut("4"))
    assert query.judged(outcome.answers).equal
    pages = [f for f in outcome.driver.state.files if f.kind == "terms"]
    assert sum(f.rows for f in pages) <= 30  # of two hundred
    assert len(pages) <= 4
    assert {f.stream for f in pages} == {f"<{EX}S>", f"<{EX}T>"}


def test_pages_of_all_streams_together_stay_as_long_as_any_stream_needs_them(tmp_path: Path) -> None:
    """As earlier versions wrote them."""
    text = f"""PREFIX : <{EX}> SELECT ?a ?x FROM NAMED :S [RANGE 2 s] AS ?w FROM NAMED :T [TRIPLES 1] AS ?z
    {{ GRAPH ?w {{ ?a :at ?x }} GRAPH ?z {{ ?b :is ?x }} }}"""
    query = register(text, World({f"{EX}S": [MANY], f"{EX}T": [[element(3000, "here", "is", "somewhere-1")]]}), tmp_path)
    driver = query.driver(Cut("4"))
    kept = Retention(driver.folder, driver.programs, driver.tables, driver.all_streams)
    old = [SlotFile("terms", "old", "", least=3000, greatest=3000), SlotFile("terms", "new", driver.streams[0], greatest=3000)]
    found = kept.after(old, {"q": 40_000}, driver.state, 40_000)
    assert [f.path for f in found.files] == ["old"]
