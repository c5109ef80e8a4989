"""Sampled walks: exact while everything fits the sample, unbiased beyond it, and what makes the first plan of a delta a good one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from local_runs import Cut, Registered, World, force_plans, register
from random_cases import SIX_RELATIONS, make, seeds_with_answers

from cqels_opt.lod.relation import Relation
from cqels_opt.operators import rows as rows_module
from cqels_opt.operators.block_relations import BlockRelations
from cqels_opt.operators.evaluation_step import EvaluationStep
from cqels_opt.operators.interval_join import Indexed
from cqels_opt.operators.observed import Observed
from cqels_opt.operators.rows import Rows, concat
from cqels_opt.operators.term_table import TermTable
from cqels_opt.planner import join_sampling, query_planner
from cqels_opt.planner.block_planner import BlockPlanner
from cqels_opt.planner.join_sampling import JoinSampler, VerifyingSide
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.plans import DeltaRule, SampledCardinality, parse_plan, q_error
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.state import worker_cache
from cqels_opt.verify import Element

EX = "http://ex.org/"


def walked_beside(query: Registered, lot: int, sample: int) -> list[tuple[str, list[SampledCardinality | None], list[int]]]:
    """Random plans, each walked before it runs: (plan, walked, observed)."""
    cut = Cut("3", "random", seed=lot)
    driver = query.driver(cut, sink=LocalSink())
    rng = random.Random(lot)
    found: list[tuple[str, list[SampledCardinality | None], list[int]]] = []
    for number, rows in enumerate(query.chunks(cut)):
        force_plans(driver, rng)
        for block in driver.planners["q"].blocks.values():
            _walk_beside(block, sample, found)
        driver.batch(number, rows)
    return found


def _walk_beside(block: BlockPlanner, sample: int, found: list[tuple[str, list[SampledCardinality | None], list[int]]]) -> None:
    chosen_by_lot, walks = block.choose, dict[str, list[SampledCardinality | None]]()

    def choose(step: EvaluationStep | None, terms: TermTable | None) -> None:
        chosen_by_lot(step, terms)
        if step is not None and terms is not None:
            walker = JoinSampler(BlockRelations(block.block, block.store, step, terms, block.rule), sample)
            walks.update({source: walker(source, choice.plan) for source, choice in block.choices.items()})

    def observe(observed: Observed) -> None:
        for source, counts in observed.operators.items():
            if block.delta_plans[source].split is None:
                found.append((str(block.choices[source].plan), walks[source], counts))

    block.choose, block.observe = choose, observe  # type: ignore[method-assign]


@pytest.mark.parametrize("seed", seeds_with_answers(6))
def test_a_walk_over_the_whole_delta_is_what_the_plan_gives(seed: int, tmp_path: Path) -> None:
    query = register(SIX_RELATIONS, make(seed).world, tmp_path)
    compared = [w for lot in range(4) for w in walked_beside(query, lot, 10_000)]
    steps = 0
    for plan, walked, observed in compared:
        for estimate, rows in zip(walked, observed, strict=True):
            assert estimate is None or estimate == (rows, 1), plan
            steps += estimate is not None
    assert steps > 20


def skewed(hubs: int, people: int, seed: int) -> World:
    """A crowd in a few places, where people stand with those they know; a few of them know many."""
    who = np.random.default_rng(seed).integers(0, people, 400)
    where = who % 4
    at = [
        Element(1000 * (i // 100), ((f"<{EX}p{p}>", f"<{EX}at>", f"<{EX}x{x}>"),))
        for i, (p, x) in enumerate(zip(who.tolist(), where.tolist()))
    ]
    knows = [
        (f"<{EX}p{p}>", f"<{EX}knows>", f"<{EX}p{(p + 4 * k) % people}>")
        for p in range(people)
        for k in range(40 if p < hubs else 1)
    ]
    return World({f"{EX}S": [at]}, knows)


PAIRS = f"""PREFIX : <{EX}>
SELECT ?a ?b FROM NAMED :S [NOW] AS ?n FROM NAMED :S [RANGE 3 s] AS ?u
WHERE {{ GRAPH ?n {{ ?a :at ?x }} GRAPH ?u {{ ?b :at ?x }} ?a :knows ?b }}"""


@pytest.fixture
def walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int, int], list[float]]:
    """(plan of ``n``, sample, number for the sample's start) -> the rows that a walk says its operators give, in the third batch."""
    query = register(PAIRS, skewed(4, 60, 1), tmp_path)
    driver = query.driver(Cut("100"))
    steps: list[EvaluationStep] = []
    original = BlockPlanner.choose

    def choose(self: BlockPlanner, step: EvaluationStep | None, terms: TermTable | None) -> None:
        original(self, step, terms)
        steps.extend([step] if step is not None else [])

    monkeypatch.setattr(BlockPlanner, "choose", choose)
    for number, rows in enumerate(query.chunks(Cut("100"))):
        driver.batch(number, rows)
    (block,) = driver.planners["q"].blocks.values()

    def walk_along(plan: str, sample: int, start: int) -> list[float]:
        terms = worker_cache.term_table(block.store, driver.programs[0].scheme, steps[2])
        walks = JoinSampler(
            BlockRelations(block.block, block.store, replace(steps[2], batch=start), terms, DeltaRule(("u", "n"))), sample
        )
        return [operator.rows * operator.scale for operator in walks("n", parse_plan(plan)) if operator is not None]

    return walk_along


def test_the_estimates_of_a_sample_are_not_biased(walked: Callable[[str, int, int], list[float]]) -> None:
    """Over many starts of the sample the mean is what the plan gives."""
    plan = "n » u[?x] » knows[?a ?b]"
    exact = walked(plan, 1_000_000, 0)
    assert len(exact) == 3 and exact[-1] > 50
    estimates = np.array([walked(plan, 64, start) for start in range(300)])
    assert len(set(estimates[:, -1].tolist())) > 10  # the starts do differ
    assert estimates.mean(axis=0) == pytest.approx(np.array(exact), rel=0.1)


def test_a_bushy_part_is_walked_from_its_own_beginning(walked: Callable[[str, int, int], list[float]]) -> None:
    """What it gives to the rest is walked relation by relation, so every order ends in the same number of rows."""
    scan, *_, rows = walked("n » u[?x] » knows[?a ?b]", 1_000_000, 0)
    bushy = walked("n » (u » knows[?b])[?a ?x]", 1_000_000, 0)
    turned = walked("n » (knows » u[?b])[?a ?x]", 1_000_000, 0)
    assert (bushy[0], bushy[-1]) == (turned[0], turned[-1]) == (scan, rows)
    assert bushy[2] == turned[2] > 100  # the part alone, in either order
    assert bushy[1] > 100 and turned[1] == 4 * 15 + 56  # the window, and all whom anybody knows


def test_a_multiway_join_is_sampled_from_the_relation_with_the_fewest_matches(
    walked: Callable[[str, int, int], list[float]],
) -> None:
    """All whom a person knows fit into the sample, all who stand at the place do not. So the triangle is counted exactly."""
    *_, exact = walked("n » u[?x] » knows[?a ?b]", 1_000_000, 0)
    for start in range(10):
        assert walked("n » u[?x] & knows[?a]", 1000, start) == walked("n » knows[?a] & u[?x]", 1000, start) == [100, exact]
    assert len({walked("n » u[?x] » knows[?a ?b]", 1000, start)[-1] for start in range(10)}) > 5


def test_a_multiway_join_with_many_equal_rows_is_sampled_from_fewer_of_its_rows(
    walked: Callable[[str, int, int], list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a window that has the same triples many times."""
    *_, exact = walked("n » u[?x] & knows[?a]", 1_000_000, 0)
    monkeypatch.setattr(join_sampling, "MOST_CLOSED", int(exact) // 3)
    _, found = walked("n » u[?x] & knows[?a]", 1_000_000, 0)
    assert found != exact and found == pytest.approx(exact, rel=0.5)
    monkeypatch.setattr(join_sampling, "MOST_CLOSED", 0)
    assert len(walked("n » u[?x] & knows[?a]", 1_000_000, 0)) == 1  # the scan alone


@pytest.mark.parametrize("seed", range(20))
def test_candidates_need_no_index_on_several_variables(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a large relation are looked up by one variable and compared with the others: its rows are not sorted for a sample."""
    rng = np.random.default_rng(seed)
    relation = Relation.build({name: rng.integers(1, 30, 400) for name in "ab"})
    side = Indexed.of_static(relation, ["x", "y"])
    few = 20
    left = Rows({v: rng.integers(1, 30, few) for v in "xyz"}, np.zeros(few, np.int64), np.full(few, 9), rng.integers(1, 4, few))
    for name in relation.variables:
        relation.index((name,))
    monkeypatch.setattr(join_sampling, "SORTED_AT_ONCE", 400)
    monkeypatch.setattr(rows_module, "CHUNK", 50)
    found, fans = concat([*VerifyingSide(side).probe(left, ["x", "y"])]), VerifyingSide(side).fan_out(left, ["x", "y"])
    assert relation.indexes == (("a",), ("b",))
    assert fans.tolist() == side.fan_out(left, ["x", "y"]).tolist() and ("a", "b") in relation.indexes
    assert bag(found) == bag(concat([*side.probe(left, ["x", "y"])])) and len(found)


def bag(rows: Rows) -> Counter[tuple[int, ...]]:
    found = Counter[tuple[int, ...]]()
    for *row, n in zip(*(rows.columns[v].tolist() for v in "xyz"), rows.start.tolist(), rows.end.tolist(), rows.n.tolist()):
        found[tuple(row)] += n
    return found


def test_the_first_plan_knows_what_pairs_cannot_tell(tmp_path: Path) -> None:
    """Who stands where and who knows whom are exact in pairs, and the triangle of both is not: walks see it at the first delta."""
    worst = {}
    for estimates in ("pairwise", "sampling"):
        query = register(PAIRS, skewed(4, 60, 1), tmp_path / estimates)
        driver = query.driver(Cut("100"), sink=LocalSink())
        mode = PlannerOptions(estimates=estimates, sampling_seconds=0.0)  # type: ignore[arg-type]
        driver.planners = {p.id: query_planner.QueryPlanner(p, mode) for p in driver.programs}
        errors = []
        for number, rows in enumerate(query.chunks(Cut("100"))):
            for record in driver.batch(number, rows):
                errors += [q_error(o.estimated, o.observed) for d in record.deltas for o in d.operators if o.observed is not None]
        worst[estimates] = max(errors)
    assert (
        worst["sampling"] < 1.1
    )  # an operator continues with a sample of the rows before it, and so is estimated within some percent
    assert worst["pairwise"] > 2
