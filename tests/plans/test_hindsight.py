"""The excess cost of a plan over the cheapest retained one: against every plan of the memo, priced with the observed rows one by one."""

from __future__ import annotations

import random

import pytest

from cqels_opt.plans import Optimizer
from cqels_opt.plans.plan import operators
from cqels_opt.plans.relation_set import contains, size

from .graphs import random_graph, random_statistics
from .test_optimizer import figure_3, figure_3_graph


@pytest.mark.parametrize("seed", range(60))
def test_no_retained_plan_is_cheaper_than_the_least_cost(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_graph(rng, 5)
    source = graph.relations[0].name
    known = {source: random_statistics(rng, graph)}
    optimizer = Optimizer(graph, [source], feedback=True)
    choice = optimizer.choose(known)[source]
    assert optimizer.hindsight() == {}, "nothing was observed"
    seen = [rows * 10 ** rng.uniform(-2, 4) + 1 for rows in choice.estimated]
    optimizer.observe(source, seen)
    found = optimizer.hindsight()[source]
    assert 0 <= found.least <= found.cost
    # the same with an optimizer whose first observation is exact: feedback takes it as it is
    fresh = Optimizer(graph, [source], feedback=True)
    fresh.choose(known)
    fresh.observe(source, seen)
    cost, rows = fresh.observed_price_of(source, choice.plan) or (None, [])
    assert found.cost == pytest.approx(cost)
    assert len(rows) == len(operators(choice.plan))
    ranked = fresh.alternatives(source, 10_000)
    assert found.least == pytest.approx(min(found.cost, ranked[0].cost))


def test_hindsight_leaves_later_choices_as_they_are() -> None:
    rng = random.Random(7)
    graph = random_graph(rng, 5)
    source = graph.relations[0].name
    batches = [{source: random_statistics(rng, graph)} for _ in range(8)]
    told = []
    for compares in (False, True):
        lots, optimizer, found = random.Random(1), Optimizer(graph, [source], feedback=True), []
        for statistics in batches:
            choice = optimizer.choose(statistics)[source]
            found.append((str(choice.plan), choice.cost, choice.estimated))
            optimizer.observe(source, [rows * lots.uniform(0, 50) for rows in choice.estimated])
            if compares:
                optimizer.hindsight()
        told.append(found)
    assert told[0] == told[1]


def test_a_switch_that_seemed_to_save_has_not_in_hindsight() -> None:
    optimizer = Optimizer(figure_3_graph(), ["lsnow"], cost_model="paper", feedback=True)
    optimizer.observe("lsnow", optimizer.choose({"lsnow": figure_3(0.0)})["lsnow"].estimated)
    assert optimizer.hindsight()["lsnow"].before is None, "there is no plan before"
    full = optimizer.choose({"lsnow": figure_3(400.0)})["lsnow"]
    assert full.switched and full.cost < full.former[0].cost
    scan, near, authors = full.estimated
    optimizer.observe("lsnow", [scan, 100 * near, 100 * authors])
    found = optimizer.hindsight()["lsnow"]
    assert found.before is not None and found.cost > found.before, "it joined 4,000 people, and not 40 as was estimated"
    assert found.first == found.before


def test_other_plans_are_priced_with_the_rows_of_the_batch() -> None:
    """Feedback on patterns with a join that was observed does not count: an optimizer without earlier batches has the same costs."""
    compared = 0
    for seed in range(100):
        rng = random.Random(seed)
        graph = random_graph(rng, 5)
        source = graph.relations[0].name
        optimizer, first = Optimizer(graph, [source], feedback=True), None
        for _ in range(4):
            known = {source: random_statistics(rng, graph)}
            choice = optimizer.choose(known)[source]
            first = choice.plan if choice.first else first
            seen = [rows * 10 ** rng.uniform(-2, 3) + 1 for rows in choice.estimated]
            optimizer.observe(source, seen)
            found = optimizer.hindsight()[source]
            fresh = Optimizer(graph, [source], feedback=True, mode={source: choice.plan})
            fresh.choose(known)
            fresh.observe(source, seen)
            now, before = (
                {graph.set_of(names) for names in one.observed_cardinalities(source, sampled=False)} for one in (fresh, optimizer)
            )
            counts = [s for s in before - now if not any(size(join) > 1 and contains(s, join) for join in now)]
            former = choice.former[0].plan if choice.former else None
            for other, cost in ((first, found.first), (former, found.before)):
                assert (other is None) == (cost is None)
                if other is not None and not any(
                    contains(graph.set_of(o.covers), s) for o in operators(other, graph) for s in counts
                ):
                    fresh_cost, _ = fresh.observed_price_of(source, other) or (None, [])
                    assert cost == pytest.approx(fresh_cost)
                    compared += other != choice.plan
    assert compared > 20


def test_without_feedback_there_is_no_hindsight() -> None:
    rng = random.Random(3)
    graph = random_graph(rng, 4)
    source = graph.relations[0].name
    optimizer = Optimizer(graph, [source])
    choice = optimizer.choose({source: random_statistics(rng, graph)})[source]
    optimizer.observe(source, choice.estimated)
    assert optimizer.hindsight() == {}
