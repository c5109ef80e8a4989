"""EXPLAIN ANALYZE of a run: structure, rows and q-errors. Measured times are masked, and compared with the batch's only as sums."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from local_runs import Cut, World, register

from cqels_opt.planner.explain import explained_now
from cqels_opt.runtime.driver import Driver
from cqels_opt.trace.records import TraceRecord
from cqels_opt.verify import Element

QUERY = """PREFIX : <http://ex.org/>
SELECT ?y (COUNT(*) AS ?n) FROM NAMED :S [RANGE 5s] AS ?w WHERE { GRAPH ?w { ?a :at ?x } ?x :near ?y } GROUP BY ?y"""
NEAR = [(f"<http://ex.org/x{i}>", "<http://ex.org/near>", f"<http://ex.org/y{j}>") for i in range(3) for j in range(40)]
AT = [Element(1000 * i, ((f"<http://ex.org/p{i}>", "<http://ex.org/at>", f"<http://ex.org/x{i % 3}>"),)) for i in range(12)]
SIX = Cut("6")


def ran(folder: Path, how: Cut = SIX) -> tuple[Driver, list[TraceRecord]]:
    query = register(QUERY, World({"http://ex.org/S": [AT]}, NEAR), folder)
    driver = query.driver(how)
    records: list[TraceRecord] = []
    for number, rows in enumerate(query.chunks(how)):
        records = driver.batch(number, rows)
    return driver, records


def analyzed(driver: Driver, records: list[TraceRecord]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(explained_now(list(driver.planners.values()), driver.options.plan, "json", 0, records))
    return found


def test_operators_have_their_own_time_and_their_bytes(tmp_path: Path) -> None:
    driver, records = ran(tmp_path)
    found = analyzed(driver, records)
    (delta,), (batch,) = found["deltas"], found["batches"]
    assert [step["op"] for step in delta["operators"]] == ["scan", "probe"]
    assert all(step["observed"] is not None and step["bytes"] > 0 for step in delta["operators"])
    assert all("tasks" not in step for step in delta["operators"])  # there was one
    assert [step["op"] for step in batch["operators"]] == ["store", "block", "GROUP BY", "BIND", "project", "answers"]
    measured = [step["ms"] for step in (*delta["operators"], *batch["operators"])]
    assert all(ms >= 0 for ms in measured)
    assert 0 < sum(measured) <= batch["ms"]["execute"]


def test_rows_by_task_give_the_skew(tmp_path: Path) -> None:
    driver, records = ran(tmp_path, Cut("6", split=3, parts=3))
    (delta,) = analyzed(driver, records)["deltas"]
    scan, probe = delta["operators"]
    assert scan["tasks"] == probe["tasks"] == 3
    assert scan["skew"] == pytest.approx(3 * -(-scan["observed"] // 3) / scan["observed"], abs=0.001)
    assert 1 <= probe["skew"] <= 3


def test_text_is_a_table_with_sentences(tmp_path: Path) -> None:
    driver, records = ran(tmp_path)
    text = explained_now(list(driver.planners.values()), driver.options.plan, "text", 0, records)
    masked = re.sub(r"\d+\.\d{3}(?!\d)", "T", re.sub(r" +", " ", text))
    lines = [line.strip() for line in masked.splitlines()]
    assert lines[2].startswith("query q, batch 1: 6 elements from 1970-01-01 00:00:06 to 1970-01-01 00:00:11 UTC, ")
    assert lines[3].startswith("took T ms (ingest T, statistics T, optimize T, execute T, ")
    assert "operator relation on estimated at most observed q-error ms bytes" in lines
    (scan,) = [line for line in lines if line.startswith("scan ")]
    assert re.fullmatch(r"scan w (\d+) \1 \1 1\.00 T \d+ B", scan)
    assert any(re.fullmatch(r"GROUP BY \?y \d+ T \S+ k?B", line) for line in lines)
    assert not re.search(r"\de-\d| -$", text)  # no exponents, and no column of absent values


def test_before_a_batch_nothing_is_measured(tmp_path: Path) -> None:
    query = register(QUERY, World({"http://ex.org/S": [AT]}, NEAR), tmp_path)
    driver = query.driver()
    for planner in driver.planners.values():
        planner.choose()
    text = explained_now(list(driver.planners.values()), driver.options.plan, "text", 0, [])
    assert "query q: no micro-batch has run yet, so nothing is measured" in text
    assert "no rows of the streams observed yet" in text
    assert "observed  q-error" not in text
