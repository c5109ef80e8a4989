from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cqels_opt.bench.shapes import SHAPES, relation
from cqels_opt.plans import GraphError, QueryGraph, RelationNode
from cqels_opt.plans.dpccp import connected_pairs, join_pairs, spanning_pairs
from cqels_opt.plans.dphyp import HyperSearch
from cqels_opt.plans.relation_set import members, subsets

from .graphs import random_graph, unit

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


@pytest.mark.long
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
    assert set(spanning_pairs(graph)) == {
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


# ------------------------------------------------------------------ units
def plannable(graph: QueryGraph) -> dict[int, set[tuple[int, int]]]:
    """By brute force: the sets that can be built without cross products, each with the ordered pairs that build it."""
    found: dict[int, set[tuple[int, int]]] = {1 << i: set() for i in range(len(graph.relations))}
    for whole in sorted(subsets(graph.everything), key=int.bit_count):
        ways = set()
        for left in subsets(whole):
            right = whole ^ left
            if right and left in found and right in found and graph.fits(left, right):
                unit = right & graph.units == right
                if unit or graph.bound(left) & graph.bound(right):
                    ways.add((left, right))
        if ways:
            found[whole] = ways
    return found


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_units_have_every_place_where_what_they_require_is_bound(rng: random.Random) -> None:
    graph = random_graph(rng, most=4, units=3)
    expected = {pair for pairs in plannable(graph).values() for pair in pairs}
    found = join_pairs(graph)
    assert found is not None
    assert len(found) == len(set(found))
    assert set(found) == expected


def test_a_unit_on_what_two_relations_bind_together_is_a_hyperedge() -> None:
    graph = QueryGraph(
        [
            relation("s", "x y", True),
            relation("a", "x u"),
            relation("b", "y v"),
            unit("m", "anti", "u v"),
            unit("o", "optional", "x", "w"),
        ]
    )
    assert (0b0110, 0b1000) in graph.hyperedges
    found = join_pairs(graph)
    assert found is not None
    with_m = [(left, right) for left, right in found if right == 0b1000]
    assert {left for left, _ in with_m} == {0b00111, 0b10111}
    assert (0b00111, 0b10000) in found and (0b00001, 0b10000) in found and (0b10000, 0b00001) not in found


def test_a_unit_that_needs_two_components_comes_after_their_product() -> None:
    graph = QueryGraph([relation("a", "x"), relation("b", "y"), unit("m", "semi", "x y"), relation("c", "z")])
    assert graph.spanning == 0b0100
    found = join_pairs(graph)
    assert found is not None
    assert {left for left, right in found if right == 0b0100} == {0b0011, 0b1011}


@given(st.randoms(use_true_random=False))
def test_both_enumerations_find_the_same_pairs_where_all_edges_are_simple(rng: random.Random) -> None:
    graph = random_graph(rng, most=6)
    simple = connected_pairs(graph)
    assert simple is not None
    hyper = HyperSearch(graph.hyperedges, 10_000).run(graph.everything)
    assert len(hyper) == len(simple)
    assert set(map(frozenset, hyper)) == set(map(frozenset, simple))


def test_the_budget_holds_for_units_too() -> None:
    relations = [relation("r0", "s x", True), *(relation(f"r{i}", f"s y{i}") for i in range(1, 5))]
    for more in ([unit("o", "optional", "s", "z")], [unit("m", "anti", "y1 y2")]):
        graph = QueryGraph([*relations, *more])
        found = join_pairs(graph)
        assert found is not None
        assert join_pairs(graph, budget=20) is None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (unit("u", "anti", "q"), r"anti 'u' requires \?q, which no relation binds"),
        (unit("u", "optional", "x", "y"), r"optional 'u' adds \?y, which another relation binds"),
        (
            RelationNode("u", frozenset("z"), False, "semi", frozenset("x")),
            "semi 'u' shares no variable with what it is joined to",
        ),
    ],
)
def test_units_that_cannot_be_placed_are_refused(more: RelationNode, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        QueryGraph([relation("a", "x y"), more])


def test_a_unit_on_what_may_be_unbound_is_refused() -> None:
    with pytest.raises(GraphError, match="anti 'm' requires what may be unbound"):
        QueryGraph([relation("a", "x"), unit("o", "optional", "x", "z"), unit("m", "anti", "z")])
