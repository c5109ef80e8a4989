"""Upper bounds hold: no operator of an executed plan gives more rows than its bound, in any query, stream, cut and plan."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from local_runs import Cut, Registered, Settings, World, force_plans, register
from merged_source_cases import MergedMaker, SetMaker
from random_cases import SIX_RELATIONS, make, seeds_with_answers

from cqels_opt.operators.delta_join import DeltaJoin
from cqels_opt.planner.block_planner import BlockPlanner
from cqels_opt.plans import Split, operators
from cqels_opt.query.parser import parse
from cqels_opt.runtime.local_runner import LocalSink
from cqels_opt.stats import degree_view
from cqels_opt.stats.frequencies import ValueCounts
from cqels_opt.stats.window import WindowStatistics
from cqels_opt.verify import Element

Compared = list[tuple[str, int, float]]
"""A set of relations, the rows that an operator gave for it, and its bound."""

WITHIN_BUDGET = {36, 73, 126, 135, 138}
"""Worlds whose windows never have more values than counters, however few these are."""
EX = "http://ex.org/"
MOVED = parse(
    f"""PREFIX : <{EX}> REGISTER RSTREAM <q> AS SELECT ?a ?b FROM NAMED WINDOW :w ON :S [ELEMENTS 10 STEP 5]
    WHERE {{ WINDOW :w {{ ?a :at ?x . ?b :in ?x }} }}""",
    "rspql",
)
NOTHING_EXPIRES = {29, 36, 50}
"""Worlds in which no row expires whose count has been read."""


@pytest.fixture(autouse=True)
def _no_merging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that became equal stay apart, so that the rows of each operator are counted and not estimated from merged ones."""
    monkeypatch.setattr(DeltaJoin, "merges_equal", False)


def node(name: str) -> str:
    return f"<{EX}{name}>"


def compared(block: BlockPlanner) -> Compared:
    """The operators that ran in the last batch."""
    found: Compared = []
    for source, counts in block.observed_rows.items():
        bounds, graph = block.size_bounds(source), block.optimizer.graph
        assert bounds is not None
        plan = block.delta_plans[source].plan
        steps = [
            step for one in ((plan.few, plan.many) if isinstance(plan, Split) else (plan,)) for step in operators(one, graph)
        ]
        for step, seen in zip(steps, counts, strict=True):
            found.append((" ".join(sorted(step.covers)), seen, bounds.rows(graph.set_of(step.covers))))
    return found


def run(query: Registered, cut: Cut, rng: random.Random, budget: int | None = None) -> tuple[Compared, int]:
    """All batches under plans by lot, and how often a window had more values than counters; a ``budget`` limits the counters."""
    driver = query.driver(cut, sink=LocalSink())
    found: Compared = []
    bounded = 0
    for number, rows in enumerate(query.chunks(cut)):
        for planner in driver.planners.values():
            for block in planner.blocks.values() if budget else ():
                for window in block.statistics.windows.values():
                    window.budget = budget or window.budget
        force_plans(driver, rng)
        driver.batch(number, rows)
        for planner in driver.planners.values():
            for block in planner.blocks.values():
                found += compared(block)
                block.observed_rows = {}
                bounded += sum(window.is_bounded for window in block.statistics.windows.values())
    return found, bounded


def exceeded(found: Compared) -> Compared:
    return [one for one in found if one[1] > one[2]]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("merged", [False, True], ids=["windows", "merged"])
def test_no_operator_exceeds_its_bound(seed: int, merged: bool, tmp_path: Path) -> None:
    case = make(seed, MergedMaker if merged else None)
    rng = random.Random(seed)
    query = register(case.query(), case.world, tmp_path, case.settings)
    found, _ = run(query, Cut(rng.choice(["1", "3", "7", "100", "500ms"])), rng)
    assert not exceeded(found)


@pytest.mark.parametrize("seed", seeds_with_answers(20))
def test_nor_in_joins_of_six_relations(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    query = register(SIX_RELATIONS, make(seed).world, tmp_path)
    found, _ = run(query, Cut(rng.choice(["2", "5", "700ms"])), rng)
    assert found
    assert not exceeded(found)


@pytest.mark.parametrize("seed", range(16))
def test_nor_where_windows_move_by_several_elements(seed: int, tmp_path: Path) -> None:
    """A row of such a window begins in a later batch than it arrives in."""
    rng = random.Random(seed)
    case = make(seed, SetMaker)
    query = register(case.query(), case.world, tmp_path / "by lot", case.settings)
    found, _ = run(query, Cut(rng.choice(["1", "3", "7"])), rng)
    assert not exceeded(found)
    elements = [Element(1000 * i, ((node(f"p{i}"), node("at" if i % 2 else "in"), node("x")),)) for i in range(24)]
    query = register(MOVED, World({f"{EX}S": [elements]}), tmp_path / "moved", Settings("rstream", {"": "wc"}, duplicates="set"))
    found, _ = run(query, Cut("3"), rng)
    assert found
    assert not exceeded(found)


@pytest.mark.parametrize("seed", seeds_with_answers(4))
def test_nor_if_norms_of_slots_are_added_up(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(degree_view, "MOST_MERGED", 0)
    query = register(SIX_RELATIONS, make(seed).world, tmp_path)
    found, _ = run(query, Cut("5"), random.Random(seed))
    assert found
    assert not exceeded(found)


@pytest.mark.parametrize("seed", [seed for seed in seeds_with_answers(24) if seed not in WITHIN_BUDGET])
def test_nor_with_counters_in_bounded_memory(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    query = register(SIX_RELATIONS, make(seed).world, tmp_path)
    found, bounded = run(query, Cut("3"), rng, budget=2)
    assert bounded
    assert not exceeded(found)


def norms_are_recomputed(window: WindowStatistics) -> bool:
    """Whether the norms of the whole slots are those of a fresh count."""
    return all(counts.norms == type(counts)(ValueCounts(counts.tally())).norms for counts in window.whole.values())


@pytest.mark.parametrize("seed", [seed for seed in seeds_with_answers(15) if seed not in NOTHING_EXPIRES])
def test_norms_follow_what_expires(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With each batch the maintained norms equal those that are computed from the counters; and no longer if expiry is left out."""
    world, verdicts = make(seed).world, []
    for broken in (False, True):
        if broken:
            monkeypatch.setattr(ValueCounts, "_note_fallen", lambda *_: None)
        query = register(SIX_RELATIONS, world, tmp_path / str(broken))
        driver = query.driver(Cut("2"), sink=LocalSink())
        equal = []
        for number, rows in enumerate(query.chunks(Cut("2"))):
            driver.batch(number, rows)
            (block,) = driver.planners["q"].blocks.values()
            equal.append(all(map(norms_are_recomputed, block.statistics.windows.values())))
        verdicts.append(all(equal))
    assert verdicts == [True, False]
