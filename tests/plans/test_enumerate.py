from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.plans import QueryGraph
from cqels_opt.plans.enumerate import component_pairs, connected_pairs, join_pairs
from cqels_opt.plans.relation_set import members, subsets

from .graphs import SHAPES, random_graph, relation

# The number of csg-cmp pairs, each counted once (Moerkotte & Neumann 2006, §2.2: its #ccp counts both orientations).
PAIRS = {
    "chain": lambda n: (n**3 - n) // 6,
    "cycle": lambda n: (n**3 - 2 * n**2 + n) // 2,
    "star": lambda n: (n - 1) * 2 ** (n - 2),
    "clique": lambda n: (3**n - 2 ** (n + 1) + 1) // 2,
}


@pytest.mark.parametrize("n", range(3, 9))
@pytest.mark.parametrize("shape", SHAPES)
def test_pair_counts_of_the_paper(shape: str, n: int) -> None:
    pairs = connected_pairs(SHAPES[shape](n))
    assert pairs is not None
    assert len(pairs) == PAIRS[shape](n)


def test_a_star_of_twelve_has_11264_pairs() -> None:
    pairs = connected_pairs(SHAPES["star"](12))
    assert pairs is not None and len(pairs) == 11_264


def is_connected(graph: QueryGraph, relations: int) -> bool:
    reached = relations & -relations
    while more := graph.neighbourhood(reached) & relations:
        reached |= more
    return reached == relations


@given(st.randoms(use_true_random=False), st.booleans())
def test_every_pair_once_and_none_else(rng: random.Random, connected: bool) -> None:
    graph = random_graph(rng, connected=connected)
    expected = {
        frozenset((left, right))
        for left in subsets(graph.everything)
        for right in subsets(graph.everything & ~left)
        if is_connected(graph, left) and is_connected(graph, right) and graph.neighbourhood(left) & right
    }
    pairs = connected_pairs(graph)
    assert pairs is not None
    found = [frozenset(pair) for pair in pairs]
    assert len(found) == len(set(found))
    assert set(found) == expected


def test_a_budget_that_is_exceeded_gives_no_pairs() -> None:
    assert join_pairs(SHAPES["clique"](6), budget=300) is None
    assert join_pairs(SHAPES["clique"](6), budget=301) is not None
    assert PAIRS["clique"](6) == 301


def test_components_are_multiplied_one_at_a_time() -> None:
    graph = QueryGraph([relation("a", "x"), relation("b", "x"), relation("c", "y"), relation("d", "z")])
    assert graph.components == (0b0011, 0b0100, 0b1000)
    assert set(component_pairs(graph.components)) == {
        (0b0011, 0b0100),
        (0b0011, 0b1000),
        (0b0100, 0b0011),
        (0b0100, 0b1000),
        (0b1000, 0b0011),
        (0b1000, 0b0100),
        (0b0111, 0b1000),
        (0b1011, 0b0100),
        (0b1100, 0b0011),
    }


def test_subsets_come_once_in_increasing_order() -> None:
    assert list(subsets(0b1011)) == [0b1, 0b10, 0b11, 0b1000, 0b1001, 0b1010, 0b1011]
    assert list(subsets(0)) == []
    assert list(members(0b1011)) == [0, 1, 3]
