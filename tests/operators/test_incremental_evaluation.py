"""Operators above the joins, incrementally: what is read, that answers stay what they are, and that state outlives its worker."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from local_runs import Cut, Registered, Settings, World, register
from random_cases import Case, Maker, Part, make

from cqels_opt.operators.evaluation_step import EvaluationStep, StepFiles
from cqels_opt.planner.explain import explained
from cqels_opt.planner.maintenance_report import maintained
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.runtime.driver import Driver
from cqels_opt.runtime.evaluate_task import EvaluateTask, finish_parts
from cqels_opt.runtime.local_runner import LocalRunner, LocalSink
from cqels_opt.runtime.run_state import DriverOptions
from cqels_opt.state import result_store, window_state
from cqels_opt.windows.element_rows import ELEMENT_ROWS
from cqels_opt.windows.frontier import Frontier

EX = "http://ex.org/"
S = f"{EX}S"
LIVE, GROUPS, TOUCHED = 20_000, 1_000, 10
WINDOWS = "FROM NAMED :S [RANGE 100 s] AS ?w FROM NAMED :S [RANGE 100 s] AS ?r FROM NAMED :S [RANGE 100 s] AS ?t"


def rows(times: Sequence[int], people: Sequence[int], places: Sequence[int], predicate: str, offset: int) -> pa.Table:
    """Rows ``person predicate place`` of stream S."""
    size = len(times)
    made = {
        "stream": [0] * size,
        "partition": [0] * size,
        "offset": range(offset, offset + size),
        "s": [f"<{EX}p{i}>" for i in people],
        "p": [f"<{EX}{predicate}>"] * size,
        "o": [f"<{EX}x{i}>" for i in places],
        "g": [None] * size,
        "t": times,
        "late": [False] * size,
        "line": range(size),
    }
    return pa.table({name: pa.array(made[name], field.type) for name, field in zip(ELEMENT_ROWS.names, ELEMENT_ROWS)})


def streaming(select: str, body: str, folder: Path, operator: str = "istream") -> Driver:
    """A driver that has 20,000 live rows in 1,000 places, 20 a place, each of another person."""
    text = f"PREFIX : <{EX}> SELECT {select} {WINDOWS} WHERE {{ {body}"
    query = register(text, World({S: [[]]}), folder / "q", Settings(operator))
    driver = Driver(
        folder / "state", [query.program], LocalRunner(), LocalSink(), Frontier(query.program.streams), DriverOptions()
    )
    live = range(LIVE)
    driver.batch(0, rows([1000] * LIVE, live, [i % GROUPS for i in live], "at", 0))
    (first,) = driver.batch(1, rows([1500], [0], [0], "else", LIVE))
    assert first.recomputed is not None
    assert first.recomputed >= LIVE
    return driver


IN_A_PLACE = LIVE // GROUPS
AT = "GRAPH ?w { ?a :at ?x }"


@pytest.mark.parametrize(
    ("select", "body", "operator", "most"),
    [
        ("?x (MAX(?a) AS ?m)", f"{AT} }} GROUP BY ?x", "istream", TOUCHED * (IN_A_PLACE + 2)),
        ("?x (MAX(?a) AS ?m)", f"{AT} }} GROUP BY ?x", "rstream", TOUCHED * (IN_A_PLACE + 2)),
        ("?x (COUNT(?a) AS ?k)", f"{AT} }} GROUP BY ?x", "dstream", TOUCHED),
        ("(COUNT(?a) AS ?k)", f"{AT} }}", "istream", TOUCHED),
        ("?x ?k", f"{{ SELECT ?x (COUNT(?a) AS ?k) {{ {AT} }} GROUP BY ?x ORDER BY ?k LIMIT 3 }} }}", "istream", TOUCHED),
        ("DISTINCT ?x", f"{AT} }}", "istream", TOUCHED * (IN_A_PLACE + 2)),
        ("?a ?x ?y", f"{AT} OPTIONAL {{ GRAPH ?r {{ ?a :at ?y }} }} }}", "istream", 4 * TOUCHED),
        ("?a ?x", f"{AT} MINUS {{ GRAPH ?r {{ ?b :wet ?x }} }} }}", "istream", 2 * TOUCHED),
        ("?a ?x", f"{AT} FILTER NOT EXISTS {{ GRAPH ?r {{ ?b :wet ?x }} }} }}", "istream", 2 * TOUCHED),
        (
            "?x (MAX(?y) AS ?k)",
            f"{AT} OPTIONAL {{ GRAPH ?r {{ ?a :at ?y }} }} }} GROUP BY ?x",
            "istream",
            4 * TOUCHED + 2 * TOUCHED * (IN_A_PLACE + 1),
        ),
    ],
)
def test_a_batch_reads_what_it_touches(select: str, body: str, operator: str, most: int, tmp_path: Path) -> None:
    """20,000 rows live; a batch that touches ten places reads no more than the rows in these."""
    driver = streaming(select, body, tmp_path, operator)
    new = range(TOUCHED)
    driver.batch(2, rows([2000] * TOUCHED, [LIVE + i for i in new], new, "at", LIVE + 1))
    (record,) = driver.batch(3, rows([2500], [0], [0], "else", LIVE + 1 + TOUCHED))
    assert record.recomputed is not None
    assert TOUCHED <= record.recomputed <= most


def test_small_files_are_merged(tmp_path: Path) -> None:
    """So many batches, so few files; all rows are there, and are found by key."""
    text = f"PREFIX : <{EX}> SELECT ?x (MAX(?a) AS ?m) FROM NAMED :S [RANGE 900 s] AS ?w WHERE {{ {AT} }} GROUP BY ?x"
    query = register(text, World({S: [[]]}), tmp_path / "q")
    driver = Driver(
        tmp_path / "state", [query.program], LocalRunner(), LocalSink(), Frontier(query.program.streams), DriverOptions()
    )
    for number in range(70):
        driver.batch(number, rows([1000 * number] * 3, range(3 * number, 3 * number + 3), [0, 1, number], "at", 3 * number))
        assert len([f for f in driver.state.files if f.kind == "result"]) <= 9
    step = EvaluationStep(str(tmp_path / "state"), "r", 70, 0, 0, np.array([0]), StepFiles(driver.state.files), {})
    files = EvaluateTask(query.program, step, "jsonl").results("b0")
    assert files.indexed == (("x",),)
    runs = [run for _, run in files.runs(step)]
    whole = [run.after(0) for run in runs]
    assert sum(map(len, whole)) == 3 * 69  # the last batch waits for the frontier
    for run, all_rows in zip(runs, whole):
        asked = all_rows.columns["x"][:: max(1, len(all_rows) // 3)]
        keys = result_store.KeyFilter.of(all_rows.take(np.isin(all_rows.columns["x"], asked)), ("x",))
        assert sorted(run.of(keys, 0).columns["a"]) == sorted(keys.within(all_rows).columns["a"])


class Above(Maker):
    """Cases with much above the joins: windows in OPTIONAL, MINUS and EXISTS, groups over these."""

    def some(self) -> Part:
        return self.in_window() if self.rng.random() < 0.85 else self.static()

    def extra(self, depth: int) -> Part:
        found = super().extra(depth)
        return super().extra(depth) if isinstance(found, str) and self.rng.random() < 0.5 else found

    def aggregates(self) -> list[str]:
        if self.rng.random() < 0.5:
            return super().aggregates()
        self.fresh += 1
        sums = [
            "COUNT(*)",
            "COUNT(?b)",
            "SUM(?v)",
            "AVG(?v)",
            "SUM(?v + ?w)",
            "AVG(COALESCE(?v, 1.25))",
            "SUM(COALESCE(?w, ?v, 0))",
        ]
        return [f"({self.rng.choice(sums)} AS ?agg{self.fresh})"]

    def selection(self, body: Part | object) -> tuple[str, tuple[str, ...]]:
        for _ in range(3):
            select, modifiers = super().selection(body)  # type: ignore[arg-type]
            if "agg" in select:
                break
        return select, modifiers


def above(seed: int) -> Case:
    case = make(seed, Above)
    return case if seed % 3 else replace(case, settings=replace(case.settings, operator="rstream"))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_small_batches_answer_as_one_batch_does(seed: int, tmp_path: Path) -> None:
    """In one batch nothing is incremental; in many all is, in one task or several."""
    case, rng = above(8_000 + seed), random.Random(seed)
    query = register(case.query(), case.world, tmp_path, case.settings)
    whole = query.run(Cut("1000")).answers
    for how in (Cut("1"), Cut(rng.choice(["3", "7", "500ms"]), "random", parts=rng.choice([2, 3]), seed=seed)):
        assert query.run(how).answers == whole


def test_standing_answers_and_their_terms_outlive_the_worker(tmp_path: Path) -> None:
    """RSTREAM shows a made term of a group that no later step computes again, also in a worker that knows nothing."""
    text = f"""PREFIX : <{EX}> SELECT ?x (GROUP_CONCAT(STR(?a)) AS ?all) FROM NAMED :S [RANGE 9 s] AS ?w
    WHERE {{ {AT} }} GROUP BY ?x"""
    query = register(text, World({S: [[]]}), tmp_path / "q", Settings("rstream"))
    sink = LocalSink()

    def anew() -> Driver:
        window_state._CONTENTS.clear()
        result_store._HELD.clear()
        return Driver(tmp_path / "state", [query.program], LocalRunner(), sink, Frontier(query.program.streams), DriverOptions())

    read = []
    for number in range(5):
        (record,) = anew().batch(number, rows([1000 * number] * 2, [number, 77], [number, 77], "at", 2 * number))
        read.append(record.recomputed)
    assert sum(f'"{EX}p0"' in line for line in sink.lines) == 4  # at 0, 1, 2 and 3 s
    assert read == [0, 2, 5, 6, 7]  # two rows begin: of a new place, and of one that has one more each time


def test_groups_are_made_in_several_tasks(tmp_path: Path) -> None:
    def spread(select: str, body: str) -> int:
        return parts_of(registered(select, body, tmp_path), 3)

    assert spread("?x (MAX(?a) AS ?m)", f"{AT} }} GROUP BY ?x") == 3
    assert spread("?a ?x", f"{AT} OPTIONAL {{ GRAPH ?r {{ ?a :at ?y }} }} }}") == 3
    assert spread("(COUNT(*) AS ?k)", f"{AT} }}") == 1
    assert spread("(MAX(?a) AS ?m)", f"{AT} }} GROUP BY ?x") == 1  # equal answers of two groups may cancel out
    assert spread("?x", f"{AT} MINUS {{ GRAPH ?r {{ ?a :wet ?y }} }} }}") == 1  # they agree on ?a, which is no answer
    assert spread("?a ?x", f"{AT} }} ORDER BY ?a LIMIT 3") == 1


def registered(select: str, body: str, folder: Path) -> Registered:
    return register(f"PREFIX : <{EX}> SELECT {select} {WINDOWS} WHERE {{ {body}", World({S: [[]]}), folder)


def parts_of(query: Registered, parts: int) -> int:
    step = EvaluationStep("", "", 0, 0, 0, np.array([0]), StepFiles(), {})
    return finish_parts(EvaluateTask(query.program, step, "jsonl"), parts)


def test_explain_says_what_is_recomputed(tmp_path: Path) -> None:
    body = f"""{AT} OPTIONAL {{ GRAPH ?r {{ ?a :at ?y }} }} FILTER NOT EXISTS {{ GRAPH ?t {{ ?b :wet ?z }} }}
    FILTER(?x != ?y || NOW() = ?a) }} GROUP BY ?x"""
    query = registered("?x (COUNT(?a) AS ?k)", body, tmp_path)
    assert maintained(query.program) == {"by_key": ["OPTIONAL ?a"], "sums": ["GROUP BY ?x"], "whole": ["EXISTS", "FILTER"]}
    line = "above the joins: recomputed by key: OPTIONAL ?a; kept as sums: GROUP BY ?x; recomputed whole: EXISTS, FILTER"
    assert explained([query.program], PlannerOptions("adaptive"), "text", 0).rstrip().split("\n\n").count(line) == 1
    assert maintained(registered("?a", f"{AT} }}", tmp_path).program) == {}
