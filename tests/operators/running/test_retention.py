"""What is kept of the streams: all that may still be named, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_run import Cut, Settings, World, register

from cqels_opt.verify import Element

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
