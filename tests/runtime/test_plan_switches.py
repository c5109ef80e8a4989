"""A plan switch moves no state (DESIGN §4.3): whatever plans run in whatever batch, the answers are the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from local_runs import Cut, World, force_plans, random_plan, register
from random_cases import SIX_RELATIONS, make, seeds_with_answers

from cqels_opt.plans import check
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.runtime.trace_builder import named_filters
from cqels_opt.trace.records import Delta, Moved


@pytest.mark.parametrize("seed", seeds_with_answers(8))
def test_switching_by_lot_gives_the_answers_of_one_plan(seed: int, tmp_path: Path) -> None:
    query = register(SIX_RELATIONS, make(seed).world, tmp_path)
    one = query.run(Cut("3", "first"))
    assert query.judged(one.answers).equal
    for lot in range(4):
        outcome = query.run(Cut("3", "random", seed=lot, parts=[None, 3][lot % 2]))
        assert outcome.answers == one.answers
        if len(outcome.records) > 5:
            assert len({d.plan for r in outcome.records for d in r.deltas if d.source == "n"}) > 1


def test_plans_by_lot_are_plans(tmp_path: Path) -> None:
    query = register(SIX_RELATIONS, make(3).world, tmp_path)
    driver = query.driver()
    (block,) = driver.planners["q"].blocks.values()
    rng = random.Random(1)
    drawn = {str(random_plan(rng, block.optimizer.graph, source)) for source in block.sources for _ in range(50)}
    assert len(drawn) > 60
    for source in block.sources:
        check(random_plan(rng, block.optimizer.graph, source), block.optimizer.graph, source)


def test_a_switch_leaves_the_files_as_they_are(tmp_path: Path) -> None:
    """State is a function of the elements: the slots and results that a record names do not hang on the plans."""
    query = register(SIX_RELATIONS, make(3).world, tmp_path)
    named = []
    for plan in ("first", "random"):
        driver = query.driver(Cut("3", plan), sink=LocalSink())
        files = []
        for number, rows in enumerate(query.chunks(Cut("3"))):
            if plan == "random":
                force_plans(driver, random.Random(number))
            driver.batch(number, rows)
            files.append(sorted((f.kind, f.stream, f.shape, f.rows, f.least, f.greatest) for f in driver.state.files))
        named.append(files)
    assert named[0] == named[1]


def test_fixed_plans_run_as_they_are_given(tmp_path: Path) -> None:
    query = register(SIX_RELATIONS, make(3).world, tmp_path)
    driver = query.driver()
    (block,) = driver.planners["q"].blocks.values()
    plans = {s: str(random_plan(random.Random(5), block.optimizer.graph, s)) for s in block.sources}
    outcome = query.run(Cut("3", "fixed:" + "; ".join(f"{s}: {p}" for s, p in plans.items())))
    assert {d.source: d.plan for r in outcome.records for d in r.deltas} == plans
    assert outcome.answers == query.run(Cut("100")).answers


def test_the_reason_of_a_switch_has_the_conditions_of_filters(tmp_path: Path) -> None:
    text = """PREFIX : <urn:> SELECT * FROM NAMED :s [NOW] AS ?now
        WHERE { GRAPH ?now { ?a :at ?x . ?a :heat ?v } ?x :near ?y FILTER(?v > 60) FILTER(?x != ?y) }"""
    driver = register(text, World({"urn:s": []}, [("<urn:x>", "<urn:near>", "<urn:y>")]), tmp_path).driver()
    (block,) = driver.planners["q"].blocks.values()
    moved = tuple(Moved(f"selectivity({f.name})", None, 0.5) for f in block.block.filters)
    named = named_filters(Delta("now", "now", reason=moved), block)
    assert [m.statistic for m in named.reason] == ["selectivity((?v > 60))", "selectivity((?x != ?y))"]
    assert named_filters(Delta("now", "now"), block).reason == ()
