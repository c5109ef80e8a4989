"""A row that probes a window counts as several look-ups, where the model has look-ups in indexes where they lie (decision 086)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from local_runs import World, register

from cqels_opt.planner.block_graph import graph_of
from cqels_opt.planner.planner_options import WINDOW_INDEXES, PlannerOptions
from cqels_opt.plans import Constants, KnownStatistics, Optimizer, QueryGraph, RelationNode
from cqels_opt.verify import Element

EX = "http://ex.org/"
TEXT = f"""PREFIX : <{EX}>
SELECT ?s FROM NAMED :S [NOW] AS ?now FROM NAMED :S [RANGE 3 s] AS ?range FROM NAMED :S [TRIPLES 4] AS ?last
WHERE {{ GRAPH ?now {{ ?s :p ?o }} GRAPH ?range {{ ?s :p ?a }} GRAPH ?last {{ ?s :p ?b }} ?s :q ?c }}"""


def test_windows_with_time_slices_have_several_indexes(tmp_path: Path) -> None:
    """Windows of an instant, of the last n elements, and static relations have one."""
    elements = [Element(1000 * i, ((f"<{EX}s{i}>", f"<{EX}p>", f"<{EX}o>"),)) for i in range(3)]
    (block,) = register(TEXT, World({f"{EX}S": [elements]}, [(f"<{EX}s1>", f"<{EX}q>", f"<{EX}c>")]), tmp_path).program.blocks
    found = {relation.name: relation.indexes for relation in graph_of(block, window_indexes=2.5).relations}
    assert found == {"now": 1.0, "range": 2.5, "last": 1.0, "q": 1.0}
    assert {relation.indexes for relation in graph_of(block).relations} == {1.0}


@pytest.mark.parametrize("more", [{"shuffled": "left"}, {"shuffled": "both"}, {"cost_model": "paper"}])
def test_other_models_and_shuffled_joins_have_one_index_per_relation(more: dict[str, str]) -> None:
    assert PlannerOptions().window_indexes == WINDOW_INDEXES
    assert replace(PlannerOptions(), **more).window_indexes == 1.0  # type: ignore[arg-type]


def cost(indexes: float) -> float:
    """That of a window's delta of 1,000 rows which probes a window of 4,096 rows, in a memo of its own source alone."""
    relations = [RelationNode("d", frozenset("x"), True), RelationNode("w", frozenset("xy"), True, indexes=indexes)]
    optimizer = Optimizer(QueryGraph(relations), ["d", "w"])
    statistics = KnownStatistics({"d": 1_000.0, "w": 4_096.0}, {("d", "w", "x"): 500.0})
    choices = optimizer.choose({"d": statistics, "w": statistics})
    of_source = optimizer.memo.of_source("d")
    assert float(of_source.psi[of_source.root("d")]) == pytest.approx(choices["d"].cost)
    return choices["d"].cost


def test_look_ups_are_multiplied_and_nothing_else() -> None:
    assert cost(2.5) - cost(1.0) == pytest.approx(1_000 * 1.5 * Constants().look_up(4_096.0))
