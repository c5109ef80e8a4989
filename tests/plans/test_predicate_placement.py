"""Where filters stand: by cost among the joins, as soon as they can be, or after all joins; and weights that are measured."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from cqels_opt.bench.shapes import relation
from cqels_opt.plans import NEAR_TIE, WORTH, FilterNode, KnownStatistics, Optimizer, PlanError, QueryGraph, parse_plan
from cqels_opt.plans.plan import relations
from cqels_opt.plans.plan_extraction import ranked
from cqels_opt.plans.predicate_placement import LIFTED, Placing, operators_among

from .graphs import random_graph, random_statistics


def world(weight: float = 50.0, uncertain: bool = True) -> QueryGraph:
    """A stream ``s`` with a filter on its ?y, and ``a`` that it is joined with on ?x."""
    condition = FilterNode("f", frozenset("y"), None, weight, uncertain)
    return QueryGraph([relation("s", "x y", True), relation("a", "x z")], [condition, FilterNode("plain", frozenset("z"))])


def known(joined: float, kept: float) -> dict[str, KnownStatistics]:
    """10,000 new rows, each joined with so many, under a filter that keeps such a share."""
    found = KnownStatistics({"s": 10_000.0, "a": 1_000.0}, {("s", "a", "x"): 10_000.0 * joined}, {}, {"f": kept, "plain": 1.0})
    return {"s": found}


BATCHES = math.ceil(WORTH / NEAR_TIE) + 1
"""After so many batches a small saving has added up to one that is worth a switch."""
EARLY, LATE = "s » f[?y] » a[?x]", "s » a[?x] » f[?y]"


@pytest.mark.parametrize("joined", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("kept", [0.01, 0.5, 0.99])
def test_by_cost_is_the_cheaper_of_both_places(joined: float, kept: float) -> None:
    optimizer = Optimizer(world(), ["s"])
    chosen = optimizer.choose(known(joined, kept))["s"]
    costs = {str(plan.plan): plan.cost for plan in ranked(optimizer.memo, "s")}
    assert set(costs) == {EARLY, LATE}
    assert chosen.cost == pytest.approx(min(costs.values()), rel=0.011)  # near ties keep the plan
    if joined <= 0.1:
        assert str(chosen.plan) == LATE  # most rows find no partner, whatever the filter keeps
    if joined >= 1.0:
        assert str(chosen.plan) == EARLY  # each partner is one more row to look at


def test_equal_arguments_are_evaluated_once_wherever_the_filter_stands() -> None:
    """After a join that multiplies rows their arguments are those of before: only looking at the rows costs more."""
    optimizer = Optimizer(world(1_000.0), ["s"])
    optimizer.choose(known(10.0, 1.0))
    costs = {str(plan.plan): plan.cost for plan in ranked(optimizer.memo, "s")}
    assert costs[LATE] < 1.1 * costs[EARLY]


def test_early_and_late_place_a_filter_whatever_it_costs() -> None:
    for joined, kept in ((0.01, 0.99), (10.0, 0.01)):
        early = Optimizer(world(), ["s"], placing="early").choose(known(joined, kept))["s"]
        assert (str(early.plan), early.filters) == ("s » a[?x]", (("f",), ("plain",)))
        late = Optimizer(world(), ["s"], placing="late").choose(known(joined, kept))["s"]
        assert (str(late.plan), late.filters) == (LATE, ((), ("plain",), ()))
        last = Optimizer(world(), ["s"], placing="last").choose(known(joined, kept))["s"]
        assert relations(last.plan)[:2] == ["s", "a"]
        assert set(relations(last.plan)[2:]) == {"f", "plain"}


@pytest.mark.parametrize("placing", ["late", "last"])
def test_more_filters_than_are_ordered_by_cost_come_after_all_joins_too(placing: Placing) -> None:
    filters = [FilterNode(f"f{i}", frozenset("x"), None, 1.0 + i, uncertain=True) for i in range(LIFTED + 3)]
    graph = QueryGraph([relation("s", "x", True), relation("a", "x y"), relation("b", "y z")], filters)
    plan = Optimizer(graph, ["s"], placing=placing).choose({"s": KnownStatistics()})["s"].plan
    assert set(relations(plan)[:3]) == {"s", "a", "b"}
    assert set(relations(plan)[3:-3]) == {f"f{i}" for i in range(LIFTED)}
    assert relations(plan)[-3:] == [f"f{i}" for i in range(LIFTED, LIFTED + 3)]


def test_a_plan_that_names_a_filter_needs_a_cost_model_that_has_filters_as_operators() -> None:
    with pytest.raises(PlanError, match="a plan names a filter as an operator, f, and the cost model has no such operators"):
        Optimizer(world(), ["s"], "paper", {"s": parse_plan(EARLY)})


def test_a_filter_that_many_sets_of_relations_bind_is_evaluated_as_soon_as_possible() -> None:
    """Each set would be a hyperedge."""
    names = [f"{variable}{i}" for variable in "xyz" for i in range(5)]
    graph = QueryGraph(
        [relation(name, f"k {name[0]} {name}", name == "x0") for name in names], [FilterNode("f", frozenset("xyz"), None, 50.0)]
    )
    lifted, _ = operators_among(graph, Optimizer(world(), ["s"]).model, "adaptive", "cost", 1_000)
    assert [condition.name for condition in lifted.filters] == ["f"]


def test_late_is_about_probabilities_alone() -> None:
    late = Optimizer(world(uncertain=False), ["s"], placing="late").choose(known(0.01, 0.5))["s"]
    assert str(late.plan) == "s » a[?x]"


def test_a_light_filter_is_no_operator() -> None:
    assert str(Optimizer(world(2.0), ["s"]).choose(known(0.01, 0.5))["s"].plan) == "s » a[?x]"


def test_a_measured_weight_moves_the_filter() -> None:
    optimizer = Optimizer(world(50.0), ["s"])
    statistics = known(0.9, 0.1)
    optimizer.set_filter_weights({"f": 10.0})
    assert str(optimizer.choose(statistics)["s"].plan) == EARLY
    optimizer.set_filter_weights({"f": 20_000.0})
    assert LATE in [str(optimizer.choose(statistics)["s"].plan) for _ in range(BATCHES)]
    assert optimizer.filter_order == ("plain",)
    optimizer.set_filter_weights({})
    assert str(optimizer.choose(statistics)["s"].plan) == LATE  # a weight stays until it is measured again
    optimizer.set_filter_weights({"f": 1.0})
    assert EARLY in [str(optimizer.choose(statistics)["s"].plan) for _ in range(BATCHES)]


@pytest.mark.parametrize("seed", range(20))
def test_a_memo_with_other_weights_is_one_that_was_built_with_them(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_graph(rng, units=2)
    source = graph.relations[graph.inner.bit_length() - 1].name
    statistics = {source: random_statistics(rng, graph)}
    weights = {name: rng.choice([0.5, 40.0, 900.0]) for name in graph.weights}
    one = Optimizer(graph, [source])
    one.choose(statistics)
    one.set_filter_weights(weights)
    one.choose(statistics)
    heavier = QueryGraph(
        [replace(r, weight=weights[r.name]) if r.kind == "filter" else r for r in graph.relations],
        [replace(f, weight=weights[f.name]) for f in graph.filters],
    )
    assert {f.name for f in one.graph.filters} == {f.name for f in graph.filters}, "none of these is heavy as declared"
    other = Optimizer(heavier, [source], placing="early")
    other.choose(statistics)
    assert one.memo.psi.tolist() == pytest.approx(other.memo.psi.tolist())


def test_so_many_heavy_filters_as_the_budget_allows_are_operators() -> None:
    filters = [FilterNode(f"f{i}", frozenset({f"y{i % 3}"}), None, 10.0 + i) for i in range(LIFTED + 2)]
    graph = QueryGraph([relation("s", "x y0", True), relation("a", "x y1"), relation("b", "x y2")], filters)
    model = Optimizer(graph, ["s"]).model
    lifted, pairs = operators_among(graph, model, "adaptive", "cost", 100_000)
    assert pairs is not None
    assert [f.name for f in lifted.filters] == ["f0", "f1"]  # the lightest are evaluated at once
    fewer, pairs = operators_among(graph, model, "adaptive", "cost", 12)
    assert pairs is not None and len(pairs) <= 2 * 12
    assert len(fewer.filters) > 2


def test_the_order_of_heuristics_is_that_of_ranks() -> None:
    places = {"s": ("x y", 5), "a": ("x", 3), "b": ("y", 1), "c": ("z y", 0)}
    graph = QueryGraph(
        [replace(relation(name, variables, name == "s"), rank=(rank,)) for name, (variables, rank) in places.items()],
        [FilterNode("f", frozenset("y"), None, 50.0, True)],
    )
    statistics = {"s": KnownStatistics()}
    early = Optimizer(graph, ["s"], mode="heuristic", placing="early").choose(statistics)["s"]
    assert str(early.plan) == "s » c[?y] » b[?y] » a[?x]"
    assert early.filters[0] == ("f",)
    late = Optimizer(graph, ["s"], mode="heuristic", placing="late").choose(statistics)["s"]
    assert str(late.plan) == "s » c[?y] » b[?y] » a[?x] » f[?y]"
