"""Deltas that are planned again in mid-batch: the same answers under any statistics, and a trace that says what was stopped and why."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import local_runs
import numpy as np
import pytest
from by_definition import difference
from different_query_cases import EX, DifferentRun, different
from local_runs import Cut, Outcome, Registered, World, register
from random_cases import SIX_RELATIONS, make, seeds_with_answers

from cqels_opt.bench.false_statistics import FALSIFIED, FalseStatistics, falsified
from cqels_opt.bench.local import rows_produced
from cqels_opt.operators import row_limit
from cqels_opt.operators.reducing_probe import ReducingProbe
from cqels_opt.planner import row_limits
from cqels_opt.planner.block_planner import BlockPlanner
from cqels_opt.planner.explain import explained_now
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.plans import StatisticKey, Statistics
from cqels_opt.runtime.interfaces import StageReports
from cqels_opt.runtime.limits import NO_LIMITS
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.runtime.mid_batch_planning import evaluate_in_attempts
from cqels_opt.trace.history import histories
from cqels_opt.trace.records import Delta, StoppedPlan, TraceRecord, parse_line
from cqels_opt.verify import Element


@pytest.fixture(autouse=True)
def _no_samples_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are chosen from the false statistics; joins are sampled after a delta has stopped."""
    monkeypatch.setattr(local_runs, "_mode", lambda plan: PlannerOptions(plan, sampling_seconds=1.0))


@pytest.fixture
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small worlds exceed the limits too."""
    monkeypatch.setattr(row_limits, "FEWEST", 1.0)
    monkeypatch.setattr(row_limits, "TIMES", 1.5)
    monkeypatch.setattr(row_limit, "PILOT", 2)


def stopped(records: Sequence[TraceRecord]) -> list[tuple[Delta, StoppedPlan]]:
    """The plans that an operator has stopped."""
    deltas = [delta for record in records for delta in record.deltas]
    return [(delta, plan) for delta in deltas for plan in delta.stopped if plan.at is not None]


def run_falsely(query: Registered, seed: int) -> Outcome:
    rng = random.Random(seed)
    kind = rng.choice([*FALSIFIED])
    with falsified(FALSIFIED[kind], seed):
        return query.run(Cut(rng.choice(["2", "3", "7", "500ms"]), split=rng.choice([1, 1, 2]), parts=rng.choice([1, 1, None])))


@pytest.mark.usefixtures("low_limits")
@pytest.mark.parametrize("seed", seeds_with_answers(6))
def test_six_relations_have_their_answers_under_false_statistics(seed: int, tmp_path: Path) -> None:
    query = register(SIX_RELATIONS, make(seed).world, tmp_path)
    outcomes = [run_falsely(query, lot) for lot in range(4)]
    assert all(query.judged(outcome.answers).equal for outcome in outcomes)
    if sum(len(outcome.records) for outcome in outcomes) > 20:
        assert any(stopped(outcome.records) for outcome in outcomes)


@pytest.mark.long
@pytest.mark.usefixtures("low_limits")
@pytest.mark.parametrize("block", range(4))
def test_random_queries_have_their_answers_under_false_statistics(block: int, tmp_path: Path) -> None:
    stops = 0
    for seed in range(20 * block, 20 * block + 20):
        case = make(9_000 + seed)
        query = register(case.query(), case.world, tmp_path / str(seed), case.settings)
        outcome = run_falsely(query, seed)
        assert difference(query, outcome.answers) is None, seed
        stops += len(stopped(outcome.records))
    assert stops


FAN_OUT = """PREFIX : <http://ex.org/>
SELECT ?a ?y ?z FROM NAMED :S [RANGE 3 s] AS ?w WHERE { GRAPH ?w { ?a :at ?x } ?x :near ?y . ?a :rare ?z }"""


def swapped(rng: np.random.Generator, view: Statistics, keys: list[StatisticKey]) -> FalseStatistics:
    """``near``, which has many rows for each place, and ``rare``, which has one for some people, are taken for each other."""
    near, rare = (StatisticKey("cardinality", (name,)) for name in ("near", "rare"))
    joins = [key for key in keys if key.kind == "join_size"]
    assert len(joins) == 2
    return FalseStatistics(view, {near: rare, rare: near, joins[0]: joins[1], joins[1]: joins[0]}, {})


@pytest.fixture
def fan_out(tmp_path: Path) -> Registered:
    """Sixty places near each place; one of thirty people is rare."""
    ex = "<http://ex.org/{}>".format
    near = [(ex(f"x{i}"), ex("near"), ex(f"y{j}")) for i in range(3) for j in range(60)]
    at = [Element(100 * i, ((ex(f"p{i % 30}"), ex("at"), ex(f"x{i % 3}")),)) for i in range(150)]
    return register(FAN_OUT, World({"http://ex.org/S": [at]}, [*near, (ex("p7"), ex("rare"), ex("z"))]), tmp_path)


def test_the_delta_is_joined_in_another_order(fan_out: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without semi-join reduction, which spares these rows."""
    monkeypatch.setattr(ReducingProbe, "REDUCES", False)
    monkeypatch.setattr(row_limits, "FEWEST", 200.0)
    monkeypatch.setattr(row_limit, "PILOT", 120)
    rows, plans = {}, {}
    for replan in (True, False):
        if not replan:
            monkeypatch.setattr(BlockPlanner, "row_limits", lambda _: {})
        with falsified(swapped, 0):
            outcome = fan_out.run(Cut("50"))
        assert fan_out.judged(outcome.answers).equal
        rows[replan] = rows_produced(outcome.records)
        plans[replan] = [(len(delta.stopped), delta.plan) for record in outcome.records for delta in record.deltas]
    (stops, first), *others = plans[True]
    assert stops == 1 and first.startswith("w » rare"), plans
    assert not any(again for again, _ in others), "what was seen is remembered"
    assert plans[False][0][1].startswith("w » near")
    assert rows[True] * 5 < rows[False]


def test_no_delta_stops_for_fewer_rows_than_those_before_it_gave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop evaluates these again. The last delta may give one row by its first probe, and gives one for each element."""
    text = f"PREFIX : <{EX}> SELECT * FROM NAMED :S [RANGE 10 s] AS ?a FROM NAMED :S [NOW] AS ?b WHERE "
    text += "{ GRAPH ?a { ?x :at ?p } GRAPH ?b { ?y :at ?p } ?p :in ?town }"
    town = [(f"<{EX}p{i}>", f"<{EX}in>", f"<{EX}t{i % 2}>") for i in range(4)]
    at = [Element(100 * i, ((f"<{EX}x{i}>", f"<{EX}at>", f"<{EX}p{i % 4}>"),)) for i in range(120)]
    query = register(text, World({f"{EX}S": [at]}, town), tmp_path)
    monkeypatch.setattr(BlockPlanner, "row_limits", lambda planner: {planner.rule.order[-1]: (inf, 1.0, inf)})
    outcome = query.run(Cut("30"))
    assert query.judged(outcome.answers).equal
    scan, probe, *_ = (operator.observed for operator in outcome.records[-1].deltas[-1].operators)
    assert scan == probe == 31
    assert not any(delta.stopped for record in outcome.records for delta in record.deltas)


def test_a_batch_of_several_tasks_has_no_limits(fan_out: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_limits, "FEWEST", 200.0)
    with falsified(swapped, 0):
        outcome = fan_out.run(Cut("50", parts=3))
    assert not stopped(outcome.records)
    assert outcome.records[0].deltas[0].plan.startswith("w » near")


@pytest.mark.usefixtures("low_limits")
@pytest.mark.parametrize("seed", range(6))
def test_several_queries_in_one_run_have_the_answers_that_they_have_alone(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them is evaluated again, while the answers of the others are written."""
    again: list[str] = []
    replan = QueryPlanner.replan

    def noted(planner: QueryPlanner, *given: Any) -> Any:
        again.append(planner.compiled.id)
        return replan(planner, *given)

    monkeypatch.setattr(QueryPlanner, "replan", noted)
    rng = random.Random(seed)
    joins = [
        f"""PREFIX : <{EX}> SELECT ?p ?q ?r FROM NAMED :S [RANGE {size}s] AS ?w FROM NAMED :S [RANGE 4s] AS ?u
        WHERE {{ GRAPH ?w {{ ?p :at ?x . ?r :val ?k }} GRAPH ?u {{ ?q :at ?x . ?p :val ?k }} }}"""
        for size in (2, 3)
    ]
    texts = [joins[0], *different(rng, 2), joins[1]]
    with falsified(FALSIFIED["statistics scaled by 10^±3"], seed):
        run = DifferentRun(texts, len(texts), Cut(rng.choice(["5", "9"])), tmp_path, 40)
        for number, rows in enumerate(run.chunks):
            run.driver.batch(number, rows)
    assert set(again) and set(again) <= {"d0", "d3"}
    for number, text in enumerate(texts):
        alone = register(text, run.world, tmp_path / f"alone{number}")
        assert alone.judged(alone.answers([*run.lines_of(number).elements()])).equal, number


# ------------------------------------------------------------------ what the trace and EXPLAIN ANALYZE say
@pytest.fixture
def analyzed(tmp_path: Path, low_limits: None) -> tuple[list[TraceRecord], str]:
    """The records up to the first batch in which an operator has stopped a delta, and EXPLAIN ANALYZE of that batch."""
    for seed in seeds_with_answers(6):
        query = register(SIX_RELATIONS, make(seed).world, tmp_path / str(seed))
        with falsified(FALSIFIED["statistics scaled by 10^±3"], seed):
            driver, records = query.driver(Cut("3"), sink=LocalSink()), []
            for number, rows in enumerate(query.chunks(Cut("3"))):
                records += driver.batch(number, rows)
                if stopped(records):
                    text = explained_now([*driver.planners.values()], driver.options.plan, "text", 0, records[-1:])
                    return records, text
    raise AssertionError("no operator has stopped a delta")


def test_the_trace_has_the_stopped_plan_and_what_it_gave(analyzed: tuple[list[TraceRecord], str]) -> None:
    records, text = analyzed
    delta, plan = stopped(records)[0]
    assert plan.at is not None and plan.expected is not None
    at = plan.operators[plan.at]
    assert at.estimated is not None and plan.expected > max(row_limits.FEWEST, row_limits.TIMES * at.estimated)
    assert [parse_line(record.line().encode(), "t:1") for record in records] == records
    (told,) = histories(records)
    assert told.stopped.stops == len(stopped(records))
    every = [p for record in records for d in record.deltas for p in d.stopped]
    assert told.stopped.rows == sum(step.observed or 0 for p in every for step in p.operators)
    assert any("planned again in mid-batch" in sentence for sentence in told.headline)
    assert f"stopped: {plan.plan} (" in text
    assert f"{at.op} {at.relation} would have given" in text
    if delta.hindsight is not None:
        assert delta.hindsight.cost > delta.hindsight.least


def test_without_false_estimates_nothing_is_stopped(tmp_path: Path) -> None:
    query = register(SIX_RELATIONS, make(3).world, tmp_path)
    outcome = query.run(Cut("3"))
    assert not stopped(outcome.records)
    assert not any(told.stopped.sentence for told in histories(outcome.records))


@dataclass(frozen=True)
class Step:
    joins: dict[str, Any]
    limits: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    step: Step
    program: Any = field(default_factory=lambda: SimpleNamespace(id="q"))
    attempt: int = 0


def test_a_plan_that_shuffles_rows_has_no_limits_and_as_many_reports_as_tasks() -> None:
    """Also of a batch that is one share: Spark divides it where its join method does."""
    asked: list[Task] = []
    reports = [SimpleNamespace(stopped=None), SimpleNamespace(stopped=None)]

    def evaluate(tasks: list[Task], parts: int) -> StageReports:
        asked.extend(tasks)
        return StageReports(shares={"q": reports})  # type: ignore[dict-item]

    run: Any = SimpleNamespace(
        evaluate=evaluate,
        runner=SimpleNamespace(repeats=True),
        options=SimpleNamespace(limits=NO_LIMITS),
        planners={"q": SimpleNamespace(row_limits=lambda: {"block": {"w": (2048.0,)}})},
    )
    task: Any = Task(Step({"block": {"w": ("partitioned",)}}))
    assert evaluate_in_attempts(run, [task], 1).shares["q"] == reports
    assert [one.step.limits for one in asked] == [{}]
