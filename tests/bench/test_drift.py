"""Hindsight of the drift study: every left-deep order by brute force, and rows per set of relations that any plan confirms."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from cqels_opt.bench import drift
from cqels_opt.bench.local import Prepared, load, prepare, rows_produced
from cqels_opt.bench.scenarios import QUERIES
from cqels_opt.bench.social import DRIFT, PLACES_GRAPH, STREAM, social
from cqels_opt.operators.delta_join import DeltaJoin
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.planner.query_planner import QueryPlanner
from cqels_opt.plans import Plan, QueryGraph, RelationNode, Scan
from cqels_opt.plans.plan import join_plans, relation_set
from cqels_opt.plans.relation_set import RelationSet
from cqels_opt.rdf.static import StaticSource
from cqels_opt.windows.batch_size import BatchSize

SHAPES = {
    "chain": ["ab", "bc", "cd", "de", "ef"],
    "star": ["abcd", "a", "b", "c", "d"],
    "cycle": ["ab", "bc", "cd", "de", "ea"],
    "clique": ["ab", "ac", "ad", "ae", "a"],
}
"""The variables of each relation."""


def left_deep(graph: QueryGraph, source: str) -> list[drift.Order]:
    found = []
    for rest in permutations(i for i in range(len(graph.relations)) if i != graph.index[source]):
        order: list[RelationSet] = [1 << graph.index[source]]
        for i in rest:
            if not graph.neighbourhood(order[-1]) >> i & 1:
                break
            order.append(order[-1] | 1 << i)
        if order[-1] == graph.everything:
            found.append(tuple(order))
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_orders_pass_through_every_set_and_the_cheapest_is_the_least_of_all(shape: str) -> None:
    graph = QueryGraph([RelationNode(f"r{i}", frozenset(variables), i < 2) for i, variables in enumerate(SHAPES[shape])])
    every = left_deep(graph, "r1")
    sets = drift.connected_sets(graph, "r1")
    assert set(sets) == {relations for order in every for relations in order}
    covering = drift.covering_orders(graph, "r1")
    assert set(covering) <= set(every)
    assert {relations for order in covering for relations in order} == set(sets)
    rng = np.random.default_rng(5)
    for _ in range(10):
        rows = dict(zip(sets, rng.integers(0, 1000, len(sets)).astype(float)))
        least, order = drift.cheapest(rows)
        assert least == min(sum(rows[s] for s in one[1:]) for one in every) == sum(rows[s] for s in order[1:])
        plan: Plan = drift.plan_of(order, graph)
        assert relation_set(plan, graph) == graph.everything


def test_slices_are_the_batches_of_the_phases() -> None:
    assert drift.Drifting(DRIFT, 1000, 100).slices() == [slice(0, 5), slice(5, 10)]


@pytest.fixture(scope="module")
def q2(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder: Path = tmp_path_factory.mktemp("drift")
    world = social(folder, authors=120, coauthor_pairs=900, places=40, elements=800, rate=20, phases=DRIFT)
    store = load(folder / "store", [StaticSource(world.static), StaticSource(world.places, PLACES_GRAPH)])
    text = (QUERIES / "q2.rq").read_text(encoding="utf-8")
    return prepare("q2", text, store, {STREAM: world.stream}, folder / "q2", BatchSize(count=100))


@pytest.mark.long
def test_rows_of_sets_say_what_any_plan_produces(q2: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans outside the study, left-deep and bushy. Rows are counted: of merged rows they are derived from an average."""
    monkeypatch.setattr(DeltaJoin, "merges_equal", False)
    graph = QueryPlanner(q2.program, PlannerOptions()).blocks[q2.program.blocks[0].name].optimizer.graph
    statics = [r.name for r in graph.relations if not r.dynamic]
    build = next(
        join_plans(Scan("ls30"), Scan(name), graph.shared(1 << graph.index["ls30"], 1 << graph.index[name]))
        for name in statics
        if graph.shared(1 << graph.index["ls30"], 1 << graph.index[name])
    )
    bushy: Plan = join_plans(Scan("lsnow"), build, ("loc",))
    while waiting := [i for i in range(len(graph.relations)) if not relation_set(bushy, graph) >> i & 1]:
        done = relation_set(bushy, graph)
        added = next(i for i in waiting if graph.shared(done, 1 << i))
        bushy = join_plans(bushy, Scan(graph.relations[added].name), graph.shared(done, 1 << added))
    measured = drift.measure(q2, {"lsnow": [str(bushy)], "ls30": []})
    other = {source: drift.plan_of(left_deep(graph, source)[-1], graph) for source, graph in measured.graphs.items()}
    for plans in (other, {**other, "lsnow": bushy}):
        run = q2.run("other", PlannerOptions("fixed", plans))
        for batches in (slice(0, 4), slice(4, 8)):
            assert measured.given({s: str(p) for s, p in plans.items()}, batches) == rows_produced(run.records[batches])


@pytest.mark.long
def test_hindsight_is_no_dearer_than_any_contender(q2: Prepared) -> None:
    found = drift.compared(q2, drift.Drifting(DRIFT, 800, 100))
    assert found["answers"] > 0
    for contender in ("adaptive", "static", "worst", "best throughout"):
        assert len(found["rows by phase"][contender]) == 2
    for phase, least in enumerate(found["rows by phase"]["best by phase"]):
        assert least <= found["rows by phase"]["static"][phase]
        assert least <= found["rows by phase"]["best throughout"][phase]
    assert found["ratios"]["worst / adaptive"] > 1
