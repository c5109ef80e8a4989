"""The micro-batch's driver: what it refuses and counts, several queries at once, streams without end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from local_runs import Cut, Registered, Settings, World, register

from cqels_opt.errors import DataError, RunError
from cqels_opt.planner.calibration_store import Calibration
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.plans import Constants
from cqels_opt.runtime.driver import Driver, check_ended
from cqels_opt.runtime.evaluate_task import EvaluateTask
from cqels_opt.runtime.interfaces import StageReports
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.verify import Element
from cqels_opt.windows.element_rows import ELEMENT_ROWS
from cqels_opt.windows.frontier import Frontier

EX = "http://ex.org/"
S = f"{EX}S"
AT = "PREFIX : <http://ex.org/> SELECT ?a ?x FROM NAMED :S [RANGE 2 s] AS ?w WHERE { GRAPH ?w { ?a :at ?x } }"
COUNT = "PREFIX : <http://ex.org/> SELECT (COUNT(*) AS ?k) FROM NAMED :S [RANGE 2 s] AS ?w WHERE { GRAPH ?w { ?a :at ?x } }"


def at(t: int, person: str, place: str) -> Element:
    return Element(t, ((f"<{EX}{person}>", f"<{EX}at>", f"<{EX}{place}>"),))


def table(*rows: tuple[int, str, str, int]) -> pa.Table:
    """Rows (time, subject, object, offset) of stream S."""
    made = [
        {
            "stream": 0,
            "partition": 0,
            "offset": offset,
            "s": s,
            "p": f"<{EX}at>",
            "o": o,
            "g": None,
            "t": t,
            "late": False,
            "line": offset + 1,
        }
        for t, s, o, offset in rows
    ]
    return pa.Table.from_pylist(made, schema=ELEMENT_ROWS)


def live(tmp_path: Path, text: str = AT, **options: Any) -> Driver:
    """A driver over a stream that has no end."""
    query = register(text, World({S: [[]]}), tmp_path / "q")
    frontier = Frontier(query.program.streams, options.pop("lateness", 0), options.pop("eager", False))
    return Driver(tmp_path / "state", [query.program], LocalRunner(), LocalSink(), frontier, DriverOptions(**options))


def lines(driver: Driver) -> list[tuple[int, str]]:
    """(time, term of ?a without its namespace) of the answers; within an instant their order says nothing."""
    sink = driver.sink
    assert isinstance(sink, LocalSink)
    return sorted(((r := json.loads(line))["time"], r["bindings"]["a"]["value"].removeprefix(EX)) for line in sink.lines)


A, B, X = f"<{EX}a>", f"<{EX}b>", f"<{EX}x>"


def test_a_bad_term_stops_a_run_and_nothing_of_its_batch_is_put_out(tmp_path: Path) -> None:
    driver = live(tmp_path, sources={0: "s.csv"})
    driver.batch(0, table((1000, A, X, 0), (2000, A, X, 1)))
    before = driver.sink.lines[:]  # type: ignore[attr-defined]
    with pytest.raises(DataError, match=r"^s\.csv:4: the subject is not an N-Triples term"):
        driver.batch(1, table((3000, A, X, 2), (4000, "a", X, 3), (5000, "b", X, 4)))
    assert driver.sink.lines == before  # type: ignore[attr-defined]
    assert driver.log.last().batch == 0  # type: ignore[union-attr]


def test_or_it_is_skipped_and_counted(tmp_path: Path) -> None:
    driver = live(tmp_path, skip_bad=True, rejects=tmp_path / "rejected.ndjson", sources={0: "s.csv"})
    (record,) = driver.batch(0, table((1000, A, X, 0), (2000, "a", X, 1), (3000, B, X, 2)))
    assert (record.elements, record.rejected) == (2, 1)
    assert driver.state.totals["rejected"] == 1
    (line,) = (tmp_path / "rejected.ndjson").read_text().splitlines()
    assert json.loads(line)["line"] == 2


def test_a_batch_full_of_bad_lines_leaves_no_file_behind(tmp_path: Path) -> None:
    kept = tmp_path / "rejected.ndjson"
    driver = live(tmp_path, skip_bad=True, rejects=kept, sources={0: "s.csv"})
    (record,) = driver.batch(0, table(*((1000 + n, "a", X, n) for n in range(2000)), (9000, B, X, 2000)))
    assert (record.elements, record.rejected, driver.state.totals["rejected"]) == (1, 2000, 2000)
    assert [json.loads(line)["line"] for line in kept.read_text().splitlines()] == list(range(1, 2001))
    for number in range(1, 4):
        driver.batch(number, table((9000 + number, B, X, 2000 + number)))
    assert not list((driver.folder / "slots").glob("rejects*"))


def test_a_stream_without_end_is_reported_up_to_its_frontier(tmp_path: Path) -> None:
    driver = live(tmp_path)
    driver.batch(0, table((1000, A, X, 0)))
    assert lines(driver) == []  # 1000 may get company
    driver.batch(1, table((1000, B, X, 1), (1500, A, X, 2)))
    assert lines(driver) == [(1000, "a"), (1000, "b")]
    driver.batch(2, table())
    driver.batch(3, table((9000, A, X, 3)))
    assert lines(driver)[2:] == [(1500, "a")]


def test_eager_reports_the_greatest_time_at_once(tmp_path: Path) -> None:
    driver = live(tmp_path, eager=True)
    driver.batch(0, table((1000, A, X, 0)))
    assert lines(driver) == [(1000, "a")]
    (record,) = driver.batch(1, table((1000, B, X, 1), (1200, B, X, 2)))
    assert (record.elements, record.late) == (1, 1)


def test_late_elements_are_counted(tmp_path: Path) -> None:
    driver = live(tmp_path, lateness=500)
    driver.batch(0, table((5000, A, X, 0)))
    (record,) = driver.batch(1, table((4499, B, X, 1), (4500, B, X, 2), (6000, A, X, 3)))
    assert (record.elements, record.late, record.frontier) == (2, 1, 5499)
    assert driver.state.totals["late"] == 1
    assert lines(driver) == [(4500, "b"), (5000, "a")]


def two(tmp_path: Path) -> tuple[Registered, Registered, Driver]:
    """Two queries over one stream, and a driver for both."""
    elements = [at(250 * i, "ab"[i % 2], "xy"[i % 3 % 2]) for i in range(30)]
    world = World({S: [elements]})
    one = register(AT, world, tmp_path / "q")
    other = register(COUNT, world, tmp_path / "q", Settings("dstream"))
    programs = [replace(one.program, id="one"), replace(other.program, id="other")]
    frontier = one.driver(Cut("4")).frontier
    return one, other, Driver(tmp_path / "both", programs, LocalRunner(), LocalSink(), frontier)


def test_queries_share_slots_and_answer_as_alone(tmp_path: Path) -> None:
    one, other, driver = two(tmp_path)
    put: dict[str, list[str]] = {"one": [], "other": []}
    for number, rows in enumerate(one.chunks(Cut("4"))):
        records = driver.batch(number, rows)
        assert [r.query for r in records] == ["one", "other"]
        assert len([f for f in driver.state.files if f.kind == "slot"]) == len(
            {(f.path) for f in driver.state.files if f.kind == "slot"}
        )
    for line in driver.sink.lines:  # type: ignore[attr-defined]
        put["one" if '"a"' in line else "other"].append(line)
    assert put["one"] == one.run(Cut("4")).lines
    assert put["other"] == other.run(Cut("4")).lines
    assert len(driver.shapes) == 1


def test_a_query_of_no_elements(tmp_path: Path) -> None:
    query = register(AT, World({S: [[]]}), tmp_path)
    outcome = query.run()
    assert (outcome.lines, outcome.records) == ([], [])
    assert outcome.driver.frontier.ended


def test_static_answers_are_there_from_the_first_element_on(tmp_path: Path) -> None:
    world = World({S: [[at(500, "b", "x"), at(900, "b", "x")]]}, [(A, f"<{EX}p>", X)])
    text = "PREFIX : <http://ex.org/> SELECT ?a FROM NAMED :S [NOW] AS ?w WHERE { ?a :p ?x }"
    query = register(text, world, tmp_path)
    assert [json.loads(line)["time"] for line in query.run().lines] == [500]
    assert query.judged(query.run().answers).equal


@pytest.mark.parametrize(("stage", "shares"), [(1e-12, 3), (1e6, 1)])
def test_joins_that_take_long_enough_are_shared_between_tasks(stage: float, shares: int, tmp_path: Path) -> None:
    near = [(X, f"<{EX}near>", X)]
    query = register(AT.replace("?x } }", "?x } ?x :near ?y }"), World({S: [[]]}, near), tmp_path / "q")
    seen: list[int] = []

    class Runner(LocalRunner):
        def evaluate(self, tasks: Sequence[EvaluateTask], parts: int) -> StageReports:
            seen.append(parts)
            return super().evaluate(tasks, parts)

    mode = PlannerOptions(calibration=Calibration(Constants(stage=stage)))
    frontier = Frontier(query.program.streams, 0, True)
    options = DriverOptions(plan=mode)
    driver = Driver(tmp_path / "state", [query.program], Runner(3), LocalSink(), frontier, options)
    driver.batch(0, table((1000, A, X, 0), (1000, B, X, 1)))
    assert seen == [shares]
    assert lines(driver) == [(1000, "a"), (1000, "b")]


def test_the_end_of_a_replay_is_looked_for(tmp_path: Path) -> None:
    query = register(AT, World({S: [[at(500, "b", "x"), at(900, "b", "x")]]}), tmp_path)
    driver = query.driver(Cut("1"))
    chunks = query.chunks(Cut("1"))
    driver.batch(0, chunks[0])
    with pytest.raises(RunError, match="ended before its last element"):
        check_ended(driver)
    driver.batch(1, chunks[1])
    check_ended(driver)


def test_trace_records_count_what_came(tmp_path: Path) -> None:
    query = register(AT, World({S: [[at(1000 * i, "a", "x") for i in range(6)]]}), tmp_path)
    records = query.run(Cut("2")).records
    assert [(r.batch, r.elements, r.time_range, r.frontier) for r in records] == [
        (0, 2, (0, 1000), 999),
        (1, 2, (2000, 3000), 2999),
        (2, 2, (4000, 5000), 5000),
    ]
    assert [d.plan for r in records for d in r.deltas] == ["w"] * 3
    # what had expired before a batch is no longer counted in it
    assert [r.windows for r in records] == [{"w": 1}, {"w": 3}, {"w": 5}]
