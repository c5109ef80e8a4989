"""The excess cost of a plan over the cheapest retained one: against every plan of the memo, priced with the observed rows one by one."""

from __future__ import annotations

import random

import pytest

from cqels_opt.plans import Optimizer
from cqels_opt.plans.plan import operators

from .graphs import random_graph, random_statistics


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


def test_without_feedback_there_is_no_hindsight() -> None:
    rng = random.Random(3)
    graph = random_graph(rng, 4)
    source = graph.relations[0].name
    optimizer = Optimizer(graph, [source])
    choice = optimizer.choose({source: random_statistics(rng, graph)})[source]
    optimizer.observe(source, choice.estimated)
    assert optimizer.hindsight() == {}
