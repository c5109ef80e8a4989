"""The costs of Spark's own joins: which is cheapest where, that the optimizer's enumeration reads them, and what does each operator."""

from __future__ import annotations

import numpy as np
import pytest

from cqels_opt.plans import KnownStatistics, Optimizer, QueryGraph, RelationNode, operators
from cqels_opt.plans.cost import JoinOperator
from cqels_opt.plans.cost_models.spark import BROADCAST_ROWS, SPARK_METHODS, SparkCost
from cqels_opt.plans.join_methods import BROADCAST, LOOP, SORT_MERGE, JoinMethod
from cqels_opt.plans.physical import spark_methods


@pytest.mark.parametrize(
    ("left", "right", "partitions", "way"),
    [
        (1_000, 1_000_000, 2, BROADCAST),
        (1_000_000, 1_000, 2, BROADCAST),
        (800_000, 900_000, 2, SORT_MERGE),
        (30_000_000, 30_000_000, 200, SORT_MERGE),
    ],
)
def test_the_cheapest_way(left: float, right: float, partitions: int, way: JoinMethod) -> None:
    assert SparkCost(slots=2, partitions=partitions).method(left, right) == way


def test_what_is_too_large_is_not_broadcast() -> None:
    model = SparkCost(slots=1)
    assert model.method(BROADCAST_ROWS, 1e12) == BROADCAST
    assert model.method(BROADCAST_ROWS + 1, 1e12) != BROADCAST
    assert SparkCost(broadcast_rows=-1).method(10, 1e6) != BROADCAST


def test_a_join_costs_its_cheapest_way_and_what_it_puts_out() -> None:
    model = SparkCost(slots=4, partitions=8)
    left, right = np.array([10.0, 1e6, 1e8]), np.array([1e6, 1e6, 1e8])
    produced, filtered = np.array([10.0, 1e7, 0.0]), np.zeros(3)
    found = model.join(JoinOperator.HASH, left, right, produced, filtered)
    least = [min(float(way[i]) for way in model.method_costs(left, right)) for i in range(3)]
    assert found == pytest.approx(np.array(least) + produced * model.constants.produce / 4)
    assert (np.diff([float(model.join(JoinOperator.LOOP, n, n, n * n, n)) for n in np.array([1.0, 10.0, 1e4])]) > 0).all()


def choice_of(sizes: dict[str, float], joins: dict[tuple[str, str, str], float], model: SparkCost) -> Optimizer:
    graph = QueryGraph(
        [
            RelationNode("s", frozenset("xy"), True),
            RelationNode("a", frozenset("x"), False),
            RelationNode("b", frozenset("y"), False),
        ]
    )
    optimizer = Optimizer(graph, ["s"], model)
    optimizer.choose({"s": KnownStatistics(sizes, joins)})
    return optimizer


def test_the_order_is_that_of_the_smaller_intermediate_result() -> None:
    sizes, model = {"s": 5_000.0, "a": 1e6, "b": 1e6}, SparkCost(slots=2, partitions=2)
    widens_a = {("s", "a", "x"): 1e6, ("s", "b", "y"): 50.0}
    widens_b = {("s", "a", "x"): 50.0, ("s", "b", "y"): 1e6}
    assert str(choice_of(sizes, widens_a, model).current["s"]) == "s » b[?y] » a[?x]"
    assert str(choice_of(sizes, widens_b, model).current["s"]) == "s » a[?x] » b[?y]"


def test_what_does_each_operator() -> None:
    model = SparkCost(slots=2, partitions=2)
    sizes = {"s": 5_000.0, "a": 1_000.0, "b": 2e6}
    optimizer = Optimizer(
        QueryGraph(
            [
                RelationNode("s", frozenset("xy"), True),
                RelationNode("a", frozenset("x"), False),
                RelationNode("b", frozenset("y"), False),
            ]
        ),
        ["s"],
        model,
        "first",
    )
    known = KnownStatistics(sizes, {("s", "a", "x"): 3e6, ("s", "b", "y"): 5_000.0})
    choice = optimizer.choose({"s": known})["s"]
    ways = spark_methods(choice, model, lambda name: sizes[name])
    assert [step.relation for step in operators(choice.plan)] == ["s", "a", "b"]
    assert [way.by for way in ways] == [None, BROADCAST, SORT_MERGE]
    assert [way.broadcasts_left for way in ways] == [False, False, False]
    swapped = spark_methods(choice, model, lambda name: 1e8)
    assert swapped[1].broadcasts_left
    assert set(SPARK_METHODS) >= {way.by for way in swapped if way.by}


def test_joined_rows_are_broadcast_only_if_that_saves_a_job() -> None:
    """They wait for the broadcasts of their own joins; those of relations run at the same time."""
    graph = QueryGraph([RelationNode("s", frozenset("xy"), True), *(RelationNode(n, frozenset(n), False) for n in "xy")])
    model, sizes = SparkCost(), {"s": 10.0, "x": 20.0, "y": 30.0}
    choice = Optimizer(graph, ["s"], model, "first").choose({"s": KnownStatistics(sizes)})["s"]
    assert [step.relation for step in operators(choice.plan)] == ["s", "x", "y"]
    for rows, broadcasts_left in (30.0, False), (60_000.0, False), (95_000.0, True), (1e6, True):
        ways = spark_methods(choice, model, {**sizes, "y": rows}.__getitem__)
        assert [way.broadcasts_left for way in ways] == [False, True, broadcasts_left]


def test_a_product_is_a_loop() -> None:
    graph = QueryGraph([RelationNode("s", frozenset("x"), True), RelationNode("a", frozenset("y"), False)])
    optimizer = Optimizer(graph, ["s"], SparkCost())
    choice = optimizer.choose({"s": KnownStatistics({"s": 10.0, "a": 10.0})})["s"]
    assert [way.by for way in spark_methods(choice, SparkCost(), lambda _: 10.0)] == [None, LOOP]
