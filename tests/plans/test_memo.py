from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cqels_opt.bench.shapes import chain, star
from cqels_opt.plans import KnownStatistics, Optimizer, QueryGraph, StatisticKey, plan_extraction
from cqels_opt.plans.base_estimates import BaseEstimates
from cqels_opt.plans.cardinality import Estimator
from cqels_opt.plans.cost import CostModel
from cqels_opt.plans.cost_models.paper import PaperCost
from cqels_opt.plans.cost_models.seconds import SecondsCost
from cqels_opt.plans.dpccp import join_pairs
from cqels_opt.plans.memo import Memo
from cqels_opt.plans.plan_pricing import cost_of

from . import brute_force
from .graphs import RowsEstimator, random_graph, random_statistics

MODELS: list[CostModel] = [SecondsCost(), PaperCost()]


def updated(memo: Memo, statistics: dict[str, KnownStatistics], changed: list[StatisticKey] | None = None) -> int:
    """Reads statistics into a memo; how many alternatives were priced again."""
    return memo.refresh(memo.base.read(statistics, changed))


def memo_of(graph: QueryGraph, sources: list[str], model: CostModel, statistics: dict[str, KnownStatistics]) -> Memo:
    base = BaseEstimates(graph, sources)
    base.read(statistics)
    pairs = join_pairs(graph)
    assert pairs is not None
    return Memo(Estimator(base), pairs, model)


def any_source(rng: random.Random, graph: QueryGraph) -> str:
    return rng.choice([r.name for r in graph.relations if r.kind == "inner"])


def sizes_of(memo: Memo, source: str) -> brute_force.Sizes:
    estimator = RowsEstimator(memo.base)
    number = memo.shape.sources.index(source)
    graph = memo.graph

    def sizes(names: frozenset[str], filters: frozenset[str]) -> float:
        relations = sum(1 << graph.index[name] for name in names)
        return estimator.rows(number, relations, sum(1 << i for i, f in enumerate(graph.filters) if f.name in filters))

    return sizes


def of_report(graph: QueryGraph) -> QueryGraph:
    """The graph as the report's cost model has it: no filters are operators, and each relation has one index."""
    return QueryGraph([replace(r, indexes=1.0) for r in graph.relations if r.kind != "filter"], graph.filters)


@pytest.mark.long
@settings(max_examples=140, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(["default", "paper"]))
def test_the_memo_finds_the_optimum_of_all_trees(rng: random.Random, model: str) -> None:
    units = 0 if rng.random() < 0.5 else 2
    graph = random_graph(rng, most=4 if units else 5, units=units)
    if model == "paper":
        graph = of_report(graph)
    source = any_source(rng, graph)
    memo = memo_of(graph, [source], PaperCost() if model == "paper" else SecondsCost(), {source: random_statistics(rng, graph)})
    oracle = brute_force.Oracle(graph, source, sizes_of(memo, source), model)
    best = plan_extraction.cheapest(memo, source)
    assert best.cost == pytest.approx(brute_force.cheapest(oracle), rel=1e-9)
    assert cost_of(memo, source, best.plan) == pytest.approx(best.cost, rel=1e-9)
    worst = plan_extraction.most_expensive(memo, source)
    assert worst.cost == pytest.approx(brute_force.dearest(oracle), rel=1e-9)
    assert cost_of(memo, source, worst.plan) == pytest.approx(worst.cost, rel=1e-9)


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_ranking_lists_every_tree_in_order(rng: random.Random) -> None:
    units = 0 if rng.random() < 0.5 else 2
    graph = random_graph(rng, most=3 if units else 5, units=units)
    source = any_source(rng, graph)
    memo = memo_of(graph, [source], SecondsCost(), {source: random_statistics(rng, graph)})
    oracle = brute_force.Oracle(graph, source, sizes_of(memo, source), "default")
    everything = frozenset(r.name for r in graph.relations)
    expected = sorted(oracle.cost(tree) for tree in brute_force.trees(graph, everything, source))
    found = list(plan_extraction.ranked(memo, source))
    assert [plan.cost for plan in found] == pytest.approx(expected, rel=1e-9)
    assert len({plan.plan for plan in found}) == len(found)
    second = plan_extraction.runner_up(memo, source)
    assert (second is None) == (len(found) == 1)
    if second is not None:
        assert second.cost == pytest.approx(found[1].cost, rel=1e-9)
        assert second.plan != plan_extraction.cheapest(memo, source).plan


def changed_statistics(rng: random.Random, graph: QueryGraph, old: KnownStatistics) -> tuple[KnownStatistics, list[StatisticKey]]:
    """Some leaf statistics become others (or unknown), with the keys of those."""
    other = random_statistics(rng, graph)
    cardinalities, joins = dict(old.cardinalities), dict(old.join_sizes)
    distincts, kept = dict(old.distincts), dict(old.selectivities)
    keys: list[StatisticKey] = []
    for relation in rng.sample(graph.relations, rng.randint(0, 2)):
        cardinalities.pop(relation.name, None)
        if relation.name in other.cardinalities:
            cardinalities[relation.name] = other.cardinalities[relation.name]
        keys.append(StatisticKey("cardinality", (relation.name,)))
    for edge in rng.sample(graph.edges, rng.randint(0, min(2, len(graph.edges)))):
        names = (graph.relations[edge.left].name, graph.relations[edge.right].name, edge.variable)
        joins.pop(names, None)
        if names in other.join_sizes:
            joins[names] = other.join_sizes[names]
        keys.append(StatisticKey("join_size", names))
        if rng.random() < 0.5:
            for end in names[:2]:
                distincts[end, edge.variable] = float(rng.randint(1, 500))
                keys.append(StatisticKey("distinct", (end, edge.variable)))
    for condition in (*graph.filters, *(r for r in graph.relations if r.kind == "filter")):
        if rng.random() < 0.3:
            kept[condition.name] = rng.random()
            keys.append(StatisticKey("selectivity", (condition.name,)))
    return KnownStatistics(cardinalities, joins, distincts, kept), keys


@pytest.mark.long
@settings(max_examples=80, deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(MODELS), st.booleans())
def test_recosting_is_always_equal_to_a_full_enumeration(rng: random.Random, model: CostModel, name_keys: bool) -> None:
    graph = random_graph(rng, connected=rng.random() < 0.8, units=rng.choice([0, 0, 3]))
    if isinstance(model, PaperCost):
        graph = of_report(graph)
    sources = rng.sample([r.name for r in graph.relations if r.kind == "inner"], 2)
    statistics = {source: random_statistics(rng, graph) for source in sources}
    memo = memo_of(graph, sources, model, statistics)
    for _ in range(rng.randint(1, 6)):
        keys: set[StatisticKey] = set()
        for source in sources:
            statistics[source], moved = changed_statistics(rng, graph, statistics[source])
            keys |= set(moved)
        updated(memo, statistics, keys if name_keys else None)
        fresh = memo_of(graph, sources, model, statistics)
        assert np.array_equal(memo.table.rows, fresh.table.rows)
        assert np.array_equal(memo.phi, fresh.phi)
        assert np.array_equal(memo.total, fresh.total)
        assert np.array_equal(memo.psi, fresh.psi)
        for source in sources:
            assert plan_extraction.cheapest(memo, source) == plan_extraction.cheapest(fresh, source)


def chain_statistics(rows: float) -> KnownStatistics:
    names = [f"r{i}" for i in range(6)]
    joins = {(f"r{i}", f"r{i + 1}", f"x{i + 1}"): 50.0 for i in range(5)}
    return KnownStatistics(dict.fromkeys(names, 10.0) | {"r5": rows}, joins)


def test_only_what_depends_on_a_changed_leaf_is_recosted() -> None:
    graph = chain(6)
    memo = memo_of(graph, ["r0"], SecondsCost(), {"r0": chain_statistics(10)})
    everything = len(memo.total)
    assert updated(memo, {"r0": chain_statistics(10)}) == 0
    recosted = updated(memo, {"r0": chain_statistics(20)}, [StatisticKey("cardinality", ("r5",))])
    r5 = 1 << 5
    depends = sum(bool(memo.shape.node_sets[int(node)] & r5) for node in memo.shape.alternatives.node)
    assert 0 < recosted <= depends < everything
    assert memo.recosted == recosted


def test_statistics_that_did_not_move_recost_nothing() -> None:
    graph = star(5)
    statistics = {"r0": random_statistics(random.Random(3), graph)}
    memo = memo_of(graph, ["r0"], SecondsCost(), statistics)
    assert updated(memo, {"r0": replace(statistics["r0"])}) == 0


def test_every_alternative_of_every_connected_subset_is_retained() -> None:
    memo = memo_of(star(5), ["r0"], SecondsCost(), {"r0": KnownStatistics()})
    # 4 · 2³ pairs, of which the delta (the hub, in every connected subset) lets only one orientation stand
    assert memo.retained("r0") == len(memo.total) == 32
    with_leaf = memo_of(star(5), ["r1"], SecondsCost(), {"r1": KnownStatistics()})
    # without the leaf r1 both orientations stand: the 3 · 2² pairs of the star of four twice, the other 20 once
    assert with_leaf.retained("r1") == 2 * 12 + 20


class AsPrinted:
    """Figure 4 of the report to the letter, for one delta source: Ψ(P) is replaced only by something smaller."""

    def __init__(self, memo: Memo) -> None:
        self.memo = memo
        self.psi = memo.psi.copy()

    def update(self) -> None:
        found = self.memo.shape.alternatives
        for alternative, node in enumerate(found.node):
            cost = self.memo.phi[alternative] + self.psi[found.left[alternative]] + self.psi[found.right[alternative]]
            if cost < self.psi[node]:
                self.psi[node] = cost


def test_figure_4_as_printed_keeps_a_stale_minimum_and_the_memo_does_not() -> None:
    graph = chain(3)  # r0 – r1 – r2, the delta in the middle

    def statistics(r0: float, r2: float) -> dict[str, KnownStatistics]:
        rows = {"r0": 100.0, "r1": 10.0, "r2": 100.0}
        return {"r1": KnownStatistics(rows, {("r0", "r1", "x1"): r0, ("r1", "r2", "x2"): r2})}

    memo = memo_of(graph, ["r1"], PaperCost(), statistics(1.0, 500.0))
    printed = AsPrinted(memo)
    before = plan_extraction.cheapest(memo, "r1")
    assert str(before.plan) == "r1 » r0[?x1] » r2[?x2]"
    updated(memo, statistics(2000.0, 500.0))  # the cheap first join becomes the expensive one
    printed.update()
    after = plan_extraction.cheapest(memo, "r1")
    assert str(after.plan) == "r1 » r2[?x2] » r0[?x1]"
    root = memo.root("r1")
    assert printed.psi[root] == before.cost < after.cost
    assert memo.psi[root] == after.cost == memo_of(graph, ["r1"], PaperCost(), statistics(2000.0, 500.0)).psi[root]


def test_a_fall_propagates_through_a_node_that_was_not_the_best() -> None:
    graph = chain(4)
    names = [r.name for r in graph.relations]

    def statistics(inner: float) -> dict[str, KnownStatistics]:
        joins = {("r0", "r1", "x1"): 1000.0, ("r1", "r2", "x2"): 1000.0, ("r2", "r3", "x3"): inner}
        return {"r0": KnownStatistics(dict.fromkeys(names, 1000.0), joins)}

    optimizer = Optimizer(graph, ["r0"])
    expensive = optimizer.choose(statistics(1e6))["r0"]
    cheap = optimizer.choose(statistics(0.0))["r0"]
    assert cheap.cost < expensive.cost
    assert cheap.cost == Optimizer(graph, ["r0"]).choose(statistics(0.0))["r0"].cost
