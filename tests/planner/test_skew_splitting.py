"""Splitting a delta by fan-out: the same answers, and fewer rows where one plan is not best for all rows."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from local_runs import Cut, Registered, World, register

from cqels_opt.planner import block_planner, skew_splitting
from cqels_opt.planner.explain import explained_now
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.planner.skew_splitting import Splitter, cuts
from cqels_opt.plans import Optimizer, PlanChoice, Split, parse_plans
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.trace.records import Delta, TraceRecord
from cqels_opt.verify import Element

EX = "http://ex.org/"
TEXT = f"""PREFIX : <{EX}>
SELECT ?u ?v ?p FROM NAMED :S [NOW] AS ?n FROM NAMED :T [RANGE 4 s] AS ?w
WHERE {{ GRAPH ?n {{ ?u :online ?d }} ?u :knows ?v . ?u :bought ?p . GRAPH ?w {{ ?v :views ?p }} }}"""

BINARY = PlannerOptions(multiway=False)
"""Without multiway joins, which choose a side for each row and leave nothing to split."""


def _iri(kind: str, number: int) -> str:
    return f"<{EX}{kind}{number}>"


def crowd(seed: int, most_known: int = 60, most_bought: int = 30, seconds: int = 6) -> World:
    """Some know many and bought little, others bought much and know few: who is online decides which side to begin with."""
    rng = random.Random(seed)
    people, products, famous = 120, 150, 12
    facts = []
    for u in range(people):
        known, bought = (most_known, 1) if u < famous else (1, most_bought)
        facts += [(_iri("u", u), f"<{EX}knows>", _iri("u", v)) for v in rng.sample(range(people), known)]
        facts += [(_iri("u", u), f"<{EX}bought>", _iri("p", p)) for p in rng.sample(range(products), bought)]
    online = [
        Element(1000 * (i // 60), ((_iri("u", rng.randrange(people)), f"<{EX}online>", _iri("d", 0)),))
        for i in range(60 * seconds)
    ]
    views = [
        Element(1000 * (i // 60), ((_iri("u", rng.randrange(people)), f"<{EX}views>", _iri("p", rng.randrange(products))),))
        for i in range(60 * seconds)
    ]
    return World({f"{EX}S": [online], f"{EX}T": [views]}, facts)


def rows_made(records: list[TraceRecord]) -> int:
    return sum(o.observed or 0 for r in records for d in r.deltas for o in d.operators)


def run(query: Registered, mode: PlannerOptions) -> tuple[list[str], list[TraceRecord]]:
    driver, sink = query.driver(Cut("120"), sink=(sink := LocalSink())), sink
    driver.planners = {p.id: QueryPlanner(p, mode) for p in driver.programs}
    records = [record for number, rows in enumerate(query.chunks(Cut("120"))) for record in driver.batch(number, rows)]
    return sorted(sink.lines), records


def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for a split, and a second plan, take no time."""
    monkeypatch.setattr(skew_splitting, "SEARCH_SECONDS", 0.0)
    monkeypatch.setattr(skew_splitting, "SECOND_PLAN_SECONDS", 0.0)


def test_a_skewed_delta_is_split_where_that_pays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch)
    query = register(TEXT, crowd(1), tmp_path)
    answers, whole = run(query, PlannerOptions(split=False, multiway=False))
    again, parted = run(query, BINARY)
    assert answers == again and answers
    split = [d for r in parted for d in r.deltas if " | " in d.plan]
    assert split and {d.source for d in split} == {"n"}
    assert rows_made(parted) < 0.7 * rows_made(whole)
    (first, *_) = [d for d in split if d.switched]
    assert first.reason[0].statistic.startswith("rows(n, ") and first.runner_up is not None
    assert first.cost is not None and first.runner_up.cost is not None and first.cost < 0.9 * first.runner_up.cost


def test_many_new_rows_make_planning_rarer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A delta whose rows take longer to sort than its plan takes is not searched for a split; sampling and reading take longer too."""
    free(monkeypatch)
    query, choose, noted = register(TEXT, crowd(1), tmp_path), Optimizer.choose, list[tuple[float, float]]()

    def note(self: Optimizer, *given: Any, sampling_seconds: float = 0.0, reading_seconds: float = 0.0, **others: Any) -> Any:
        noted.append((sampling_seconds, reading_seconds))
        return choose(self, *given, sampling_seconds=sampling_seconds, reading_seconds=reading_seconds, **others)

    monkeypatch.setattr(Optimizer, "choose", note)
    _, few = run(query, BINARY)
    usual = map(max, zip(*noted))
    noted.clear()
    monkeypatch.setattr(block_planner, "NEW_ROWS", 1)
    _, many = run(query, BINARY)
    assert [any(" | " in d.plan for r in records for d in r.deltas) for records in (few, many)] == [True, False]
    assert all(now > 10 * before for now, before in zip(map(max, zip(*noted)), usual))


def test_small_deltas_are_not_worth_it(tmp_path: Path) -> None:
    _, records = run(register(TEXT, crowd(1), tmp_path), BINARY)
    plans = {d.plan for r in records for d in r.deltas}
    assert plans and not any(" | " in plan for plan in plans)


def test_the_estimates_of_both_parts_are_for_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch)
    _, records = run(register(TEXT, crowd(1), tmp_path), PlannerOptions(sampling_seconds=0.0, multiway=False))
    errors = [o.q_error for r in records for d in r.deltas if " | " in d.plan for o in d.operators if o.observed is not None]
    assert errors and np.max([e for e in errors if e is not None]) == pytest.approx(1)


def test_a_split_can_be_given(tmp_path: Path) -> None:
    query = register(TEXT, crowd(2), tmp_path)
    text = (
        "n: n » knows[?u] » w[?v] » bought[?p ?u] | knows[?u] >= 8: n » bought[?u] » w[?p] » knows[?u ?v]; "
        "w: w » knows[?v] » n[?u] » bought[?p ?u]"
    )
    given = parse_plans(text)
    assert isinstance(given["n"], Split)
    answers, records = run(query, PlannerOptions("fixed", given))
    assert answers == run(query, PlannerOptions("first"))[0]
    plans = {d.plan for r in records for d in r.deltas if d.source == "n"}
    assert plans == {str(given["n"])}
    busy = next(d for r in records for d in r.deltas if d.source == "n" and d.operators[0].observed)
    scans = [o.observed for o in busy.operators if o.op == "scan"]
    assert len(scans) == 2 and all(scans)


def test_explain_shows_both_parts_with_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch)
    query = register(TEXT, crowd(1, 110, 90), tmp_path)
    driver = query.driver(Cut("120"))
    for number, rows in enumerate(query.chunks(Cut("120"))[:3]):
        driver.batch(number, rows)
    found = json.loads(explained_now(list(driver.planners.values()), PlannerOptions(), "json", 0))["deltas"]
    few, many = (d for d in found if d["source"] == "n")
    assert few["part"] == f"not {many['part']}" and "[?u] >= " in many["part"]
    assert all(o["observed"] == pytest.approx(o["estimated"]) for part in (few, many) for o in part["operators"])
    assert f"delta n where {many['part']}: " in explained_now(list(driver.planners.values()), PlannerOptions(), "text", 0)


def unpriced(delta: Delta) -> Delta:
    """The samples of a process stay there until the next sample, in the costs of plans that are not chosen."""
    operators = tuple(replace(operator, ms=None) for operator in delta.operators)
    return replace(delta, former=tuple(replace(former, cost=None) for former in delta.former), operators=operators)


def test_a_restart_goes_on_with_the_cuts_that_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch)
    query = register(TEXT, crowd(1), tmp_path)
    told: list[list[tuple[Delta, ...]]] = []
    for again in (False, True):
        folder = tmp_path / f"state-again-{again}"
        driver, found = query.driver(Cut("60"), folder), []
        for number, rows in enumerate(query.chunks(Cut("60"))):
            driver = query.driver(Cut("60"), folder, sink=driver.sink) if again else driver
            found += [tuple(map(unpriced, record.deltas)) for record in driver.batch(number, rows)]
        told.append(found)
    assert told[0] == told[1]
    assert sum(" | " in d.plan for deltas in told[0] for d in deltas) > 2


def test_a_split_of_steady_batches_stays_also_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts are planned in some batches only, by a run that restarts before each batch as by one that does not."""
    monkeypatch.setattr(skew_splitting, "SECOND_PLAN_SECONDS", 0.0)
    monkeypatch.setattr(skew_splitting, "SEARCH_SECONDS", 2e-4)
    mode = PlannerOptions(multiway=False, reading_seconds=1.0, sampling_seconds=1.0, view_selection=False)
    query, how = register(TEXT, crowd(1, 110, 90, seconds=12), tmp_path), Cut("1000ms")
    planned: list[int] = []
    of_part = Splitter._part
    monkeypatch.setattr(Splitter, "_part", lambda self, *given: planned.append(given[0]) or of_part(self, *given))
    told: list[list[tuple[Delta, ...]]] = []
    for again in (False, True):
        folder, sink, found = tmp_path / f"state-{len(told)}", LocalSink(), []
        for number, rows in enumerate(query.chunks(how)):
            if again or not number:
                driver = query.driver(how, folder, sink=sink)
                driver.options = replace(driver.options, plan=mode)
                driver.restore(None)
            found += [tuple(map(unpriced, record.deltas)) for record in driver.batch(number, rows)]
        told.append(found)
    assert told[0] == told[1]
    split = [d for deltas in told[0] for d in deltas if " | " in d.plan]
    assert len(split) > 4 and len(planned) <= 2 * len(split), "two runs have planned two parts: in half of the batches at most"


def test_cuts_are_where_fan_outs_part() -> None:
    few, many = np.full(90, 2), np.full(10, 500)
    (cut,) = cuts({("knows", "u"): np.concatenate([few, many]), ("bought", "u"): np.full(100, 30)})
    assert (cut.relation, cut.variable) == ("knows", "u") and 2 < cut.at_least <= 500
    assert not cuts({("knows", "u"): np.empty(0, np.int64)})


def test_a_cut_in_use_stays_while_it_pays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cuts are found in one batch only; the delta is split in later ones too."""
    free(monkeypatch)
    calls: list[int] = []

    def once(fans: skew_splitting.Fans) -> list[skew_splitting.Cut]:
        found = [] if any(calls) else cuts(fans)
        calls.append(len(found))
        return found

    monkeypatch.setattr(skew_splitting, "cuts", once)
    _, records = run(register(TEXT, crowd(1, 110, 90), tmp_path), BINARY)
    assert sum(" | " in d.plan for r in records for d in r.deltas) > 1


def test_a_cut_in_use_is_sampled_before_it_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates of the parts are a million times too high unless they are sampled."""
    free(monkeypatch)
    query, split = register(TEXT, crowd(1, 110, 90), tmp_path), " | "
    part, begun, asked = Splitter._part, set[tuple[str, int]](), list[bool]()

    def false(self: Splitter, number: int, source: str, *given: Any) -> PlanChoice:
        choice, at_once = part(self, number, source, *given), given[-1]
        first = (source, number) not in begun  # plans of a new part are sampled
        begun.add((source, number))
        asked.append(at_once)
        return choice if first or at_once else replace(choice, cost=1e6 * choice.cost)

    monkeypatch.setattr(Splitter, "_part", false)
    _, records = run(query, BINARY)
    assert any(asked) and not all(asked)
    assert sum(split in d.plan for r in records for d in r.deltas) > 1
