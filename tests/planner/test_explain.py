"""EXPLAIN of a registered query: which constants its costs are made of, and where they come from."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from local_runs import Cut, World, register

from cqels_opt.operators.compiled_query import CompiledProgram
from cqels_opt.planner.calibration_store import Calibration, keep
from cqels_opt.planner.explain import explained, explained_now
from cqels_opt.planner.plan_modes import plan_mode
from cqels_opt.plans import Constants
from cqels_opt.verify import Element

QUERY = """PREFIX : <http://ex.org/>
SELECT * FROM NAMED :S [RANGE 5s] AS ?w WHERE { GRAPH ?w { ?a :at ?x } ?x :near ?y }"""
EXPENSIVE = replace(Constants(), probe=1.0)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CompiledProgram:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    near = [(f"<http://ex.org/x{i}>", "<http://ex.org/near>", "<http://ex.org/x0>") for i in range(9)]
    return register(QUERY, World({"http://ex.org/S": [[]]}, near), tmp_path).program


def test_defaults_until_the_machine_was_measured(program: CompiledProgram) -> None:
    text = explained([program], plan_mode("adaptive"), "text", 0)
    assert (
        "\n\nconstants: committed defaults; `cqels-opt calibrate` measures this machine's\n  operator 20 µs, scan 10 ns" in text
    )
    assert "shuffle 1 µs" in text


def test_measured_constants_are_used_and_printed(program: CompiledProgram) -> None:
    before = json.loads(explained([program], plan_mode("adaptive"), "json", 0))
    keep(asdict(EXPENSIVE), "2013-02-07T12:00:00Z")
    after = json.loads(explained([program], plan_mode("adaptive"), "json", 0))
    assert before["constants"]["measured"] is None
    assert after["constants"] == {
        "origin": "measured on this machine, 2013-02-07T12:00:00Z",
        "measured": "2013-02-07T12:00:00Z",
        "seconds": asdict(EXPENSIVE),
    }
    assert after["deltas"][0]["cost"] > 1.0 > before["deltas"][0]["cost"]
    assert "probe 1 s" in explained([program], plan_mode("adaptive"), "text", 0)


def test_the_defaults_can_be_asked_for(program: CompiledProgram) -> None:
    keep(asdict(EXPENSIVE), "2013-02-07T12:00:00Z")
    mode = plan_mode("adaptive", constants="default")
    assert mode.calibration == Calibration()
    assert "\n\nconstants: committed defaults\n" in explained([program], mode, "text", 0)


def test_the_papers_cost_functions_have_no_constants(program: CompiledProgram) -> None:
    mode = plan_mode("adaptive", cost_model="paper")
    assert "constants" not in explained([program], mode, "text", 0)
    assert json.loads(explained([program], mode, "json", 0))["constants"] is None


def test_plans_of_several_queries_name_their_query(program: CompiledProgram) -> None:
    (alone,) = json.loads(explained([program], plan_mode("adaptive"), "json", 0))["deltas"]
    assert "query" not in alone
    both = json.loads(explained([program, replace(program, id="other")], plan_mode("adaptive"), "json", 0))
    assert both["deltas"] == [{"query": program.id, **alone}, {"query": "other", **alone}]
    text = explained([program, replace(program, id="other")], plan_mode("adaptive"), "text", 0)
    assert text.startswith("shared: 2 queries, 2 plans; 1 kind of binding slots for 2 patterns; ")


def test_a_drawing_is_a_drawing_alone(program: CompiledProgram) -> None:
    assert explained([program], plan_mode("adaptive"), "dot", 0).startswith("digraph")


def test_a_run_is_explained_with_the_rows_it_gave(program: CompiledProgram, tmp_path: Path) -> None:
    """As of the last micro-batch: estimated beside observed, and their q-error."""
    near = [(f"<http://ex.org/x{i}>", "<http://ex.org/near>", f"<http://ex.org/x{j}>") for i in range(3) for j in range(3)]
    at = [Element(1000 * i, ((f"<http://ex.org/p{i}>", "<http://ex.org/at>", f"<http://ex.org/x{i % 3}>"),)) for i in range(6)]
    query = register(QUERY, World({"http://ex.org/S": [at]}, near), tmp_path / "run")
    driver = query.driver(Cut("3"))
    for number, rows in enumerate(query.chunks(Cut("3"))):
        driver.batch(number, rows)
    planners, mode = list(driver.planners.values()), driver.options.plan
    (delta,) = json.loads(explained_now(planners, mode, "json", 0))["deltas"]
    assert [(o["op"], o["estimated"], o["observed"]) for o in delta["operators"]] == [("scan", 4, 4), ("probe", 12, 12)]
    line = next(line for line in explained_now(planners, mode, "text", 0).splitlines() if "probe " in line and "near" in line)
    assert line.split() == ["probe", "near", "?x", "12", "12", "12", "1.00"]  # estimated, at most, observed
