"""The comparison with DuckDB: its parts compared with brute force over the same relations."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from cqels_opt.bench.join_orders import Database, Tables, compared, random_tables, statistics, study
from cqels_opt.plans import QueryGraph, RelationNode
from cqels_opt.plans.relation_set import RelationSet, members


def brute_force(tables: Tables, relations: RelationSet) -> int:
    rows = [[dict(zip(tables[i], values)) for values in zip(*tables[i].values())] for i in members(relations)]
    found = 0
    for chosen in product(*rows):
        merged: dict[str, int] = {}
        found += all(merged.setdefault(variable, value) == value for row in chosen for variable, value in row.items())
    return found


@pytest.mark.parametrize("seed", range(12))
def test_rows_are_those_of_brute_force(seed: int) -> None:
    tables = [{v: c[:25] for v, c in columns.items()} for columns in random_tables(np.random.default_rng(seed), 3)]
    graph = QueryGraph([RelationNode(f"r{i}", frozenset(columns), i == 0) for i, columns in enumerate(tables)])
    database, known = Database(tables), statistics(tables, graph)
    for relations in range(1, 1 << len(tables)):
        assert database.rows(relations) == brute_force(tables, relations)
    for edge in graph.edges:
        if len(graph.shared(1 << edge.left, 1 << edge.right)) == 1:
            assert known.join_size(f"r{edge.left}", f"r{edge.right}", edge.variable) == database.rows(
                1 << edge.left | 1 << edge.right
            )


@pytest.mark.parametrize("seed", range(20))
def test_no_order_is_better_than_the_optimum(seed: int) -> None:
    one = compared(seed, most=5)
    assert one.optimum <= one.ours
    assert one.optimum <= one.duckdb


def test_a_study_counts_what_it_says() -> None:
    found = study(True, 5)
    assert found["graphs"] == 5
    for summary in found["over the optimum"].values():
        assert 1 <= summary["median"] <= summary["95th percentile"] <= summary["worst"]
        assert 0 <= summary["optimal"] <= 1
