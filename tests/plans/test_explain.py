"""EXPLAIN against goldens. ``UPDATE_GOLDENS=1 make test TESTS=tests/plans`` writes them anew."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cqels_opt.bench.shapes import clique, relation
from cqels_opt.plans import FilterNode, KnownStatistics, Optimizer, QueryGraph, deltas, dot, q_error, text

from .graphs import q2
from .test_optimizer import both, figure_3, figure_3_graph, q2_statistics

GOLDENS = Path(__file__).parent / "goldens"


def switched() -> str:
    optimizer = Optimizer(figure_3_graph(), ["lsnow"], cost_model="paper")
    optimizer.choose({"lsnow": figure_3(0.0)})
    choices = optimizer.choose({"lsnow": figure_3(400.0)})
    return text(deltas(choices, {"lsnow": [1.0, 40.0, 3.0]}), optimizer.model, epoch=2)


def every_plan() -> str:
    optimizer = Optimizer(q2(), ["lsnow", "ls30"])
    choices = optimizer.choose(both(q2_statistics(10)))
    return text(deltas(choices, alternatives={source: optimizer.alternatives(source, 4) for source in choices}), optimizer.model)


def assumptions_and_filters() -> str:
    graph = QueryGraph(
        [relation("w", "dep tail", True), relation("planes", "tail model"), relation("limits", "kind limit")],
        [FilterNode("?dep > 0", frozenset({"dep"})), FilterNode("?model != ?kind", frozenset({"model", "kind"}), 0.9)],
    )
    optimizer = Optimizer(graph, ["w"])
    return text(deltas(optimizer.choose({"w": KnownStatistics({"planes": 3322.0})})), optimizer.model)


def greedy() -> str:
    optimizer = Optimizer(clique(5), ["r0"], pair_budget=10)
    return text(deltas(optimizer.choose({"r0": KnownStatistics()})), optimizer.model)


def as_json() -> str:
    optimizer = Optimizer(figure_3_graph(), ["lsnow"], cost_model="paper")
    choices = optimizer.choose({"lsnow": figure_3(400.0)})
    described = deltas(choices, alternatives={"lsnow": optimizer.alternatives("lsnow", 2)})
    return json.dumps(described, indent=1, ensure_ascii=False) + "\n"


def as_dot() -> str:
    optimizer = Optimizer(figure_3_graph(), ["lsnow", "ls30"])
    return dot(optimizer.choose({"lsnow": figure_3(400.0), "ls30": figure_3(400.0)}))


@pytest.mark.parametrize(
    ("golden", "render"),
    [
        ("switched.txt", switched),
        ("every_plan.txt", every_plan),
        ("assumptions_and_filters.txt", assumptions_and_filters),
        ("greedy.txt", greedy),
        ("figure_3.json", as_json),
        ("figure_3.dot", as_dot),
    ],
)
def test_goldens(golden: str, render: object) -> None:
    assert callable(render)
    file, found = GOLDENS / golden, render()
    if os.environ.get("UPDATE_GOLDENS"):
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")


def test_the_shape_of_a_delta_is_that_of_the_interface() -> None:
    optimizer = Optimizer(figure_3_graph(), ["lsnow"])
    (delta,) = deltas(optimizer.choose({"lsnow": figure_3(0.0)}))
    assert {"source", "plan", "cost", "runner_up", "switched", "reason", "operators"} <= set(delta)
    assert set(delta["runner_up"]) == {"plan", "cost"}
    assert {"op", "relation", "on", "estimated", "observed"} <= set(delta["operators"][0])
    assert [step["observed"] for step in delta["operators"]] == [None, None, None]


def test_q_error_is_symmetric_and_at_least_one() -> None:
    assert q_error(10, 5) == q_error(5, 10) == 2.0
    assert q_error(0.0, 0.0) == q_error(0.2, 1.0) == 1.0
    assert q_error(0.0, 7.0) == 7.0
