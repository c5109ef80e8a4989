"""When another plan is worth a switch: of large plans the answers, which all plans write, do not count."""

from __future__ import annotations

import pytest

from cqels_opt.bench.shapes import relation
from cqels_opt.plans import NEAR_TIE, KnownStatistics, Optimizer, QueryGraph
from cqels_opt.plans.cost_models.spark import SparkCost
from cqels_opt.plans.switching_rule import LARGE, compared_cost

GRAPH = QueryGraph([relation("s", "x", True), relation("a", "x u"), relation("b", "x v")])


def statistics(rows: float, with_a: float, with_b: float) -> KnownStatistics:
    """A delta with this number of rows, and the rows of its joins with the two relations."""
    return KnownStatistics({"s": rows, "a": 1e7, "b": 1e7}, {("s", "a", "x"): with_a, ("s", "b", "x"): with_b})


@pytest.mark.parametrize(("size", "switches"), [(1.0, False), (1e-4, False), (1e3, True)])
def test_a_plan_that_wastes_seconds_is_no_near_tie_because_many_answers_are_expected(size: float, switches: bool) -> None:
    """The current plan first joins with the relation that gives far more rows: 1 % of the answers that are expected."""
    optimizer = Optimizer(GRAPH, ["s"])
    first = optimizer.choose({"s": statistics(size, 10 * size, 1e3 * size)})["s"]
    assert str(first.plan) == "s » a[?x] » b[?x]"
    second = optimizer.choose({"s": statistics(size, 1e4 * size, 100 * size)})["s"]
    cheapest = optimizer.alternatives("s", 1)[0]
    assert str(cheapest.plan) == "s » b[?x] » a[?x]"
    if switches:
        assert (second.switched, second.plan) == (True, cheapest.plan)
    else:
        assert not second.switched and second.cost <= cheapest.cost * (1 + NEAR_TIE)


def test_what_savings_are_shares_of() -> None:
    """The whole cost of small plans; of large ones the part without the last join, but never less than the former."""
    optimizer = Optimizer(GRAPH, ["s"])
    found = {}
    for size in (1.0, 1e2, 1e5):
        (choice,) = optimizer.choose({"s": statistics(size, 30 * size, 40 * size)}).values()
        found[size] = compared_cost(optimizer.memo, "s") / optimizer.alternatives("s", 1)[0].cost
        assert choice.cost < LARGE or size == 1e5
    assert found[1.0] == found[1e2] == 1.0
    assert 0.02 < found[1e5] < 0.1


@pytest.mark.parametrize("model", ["paper", SparkCost()])
def test_costs_of_other_models_are_compared_as_a_whole(model: str | SparkCost) -> None:
    optimizer = Optimizer(GRAPH, ["s"], model)
    (choice,) = optimizer.choose({"s": statistics(1e5, 3e6, 4e6)}).values()
    assert compared_cost(optimizer.memo, "s") == choice.cost > LARGE
