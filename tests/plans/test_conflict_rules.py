from __future__ import annotations

import random
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cqels_opt.plans.conflict_rules import Leaf, Node, OperatorTree, legal, operators, relations
from cqels_opt.plans.dpccp import hyper_pairs
from cqels_opt.plans.query_graph import JoinKind
from cqels_opt.plans.relation_set import RelationSet

from .operator_trees import (
    Plan,
    compared,
    evaluated,
    every_plan,
    every_split,
    hyperedges,
    is_well_designed,
    leaves,
    plans,
    random_bags,
    random_tree,
    run,
)


def leaf(index: int, variables: str) -> Leaf:
    return Leaf(index, frozenset(variables.split()), frozenset(variables.split()))


def pairs_of(tree: OperatorTree) -> list[tuple[RelationSet, RelationSet]]:
    found = operators(tree)
    return hyper_pairs(hyperedges(found), found, relations(tree))


def by_brute_force(tree: OperatorTree) -> list[tuple[RelationSet, RelationSet]]:
    """Every split of every set, filtered by the rules: what the enumeration must find."""
    return legal(operators(tree), [pair for pair in every_split(relations(tree)) if pair[0] < pair[1]])


@pytest.mark.long
@settings(max_examples=120, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(2, 5))
def test_every_plan_gives_the_answers_of_the_tree_as_written(rng: random.Random, count: int) -> None:
    tree = random_tree(rng, count)
    found, bound, on = operators(tree), {x.index: x.variables for x in leaves(tree)}, compared(tree)
    ways = plans(found, pairs_of(tree), relations(tree))
    assert ways
    for _ in range(4):
        bags = random_bags(rng, tree)
        expected = evaluated(tree, bags)
        for plan in rng.sample(ways, min(len(ways), 40)):
            assert run(plan, bags, bound, on) == expected, plan


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(2, 6))
def test_the_hypergraph_has_all_legal_pairs_and_each_once(rng: random.Random, count: int) -> None:
    tree = random_tree(rng, count)
    found = pairs_of(tree)
    assert len(found) == len(set(found))
    assert set(found) == set(by_brute_force(tree))


def orders(tree: OperatorTree) -> list[Plan]:
    return plans(operators(tree), pairs_of(tree), relations(tree))


def are_equal(plan: Plan, tree: OperatorTree, tries: int) -> bool:
    """Whether a plan gives the answers of the tree over every one of some random relations."""
    rng = random.Random(7)
    bound, on = {x.index: x.variables for x in leaves(tree)}, compared(tree)
    for _ in range(tries):
        bags = random_bags(rng, tree)
        if run(plan, bags, bound, on) != evaluated(tree, bags):
            return False
    return True


def valid(tree: OperatorTree) -> set[Plan]:
    """By brute force: all plans that are told from the tree by no random relations."""
    return {plan for plan in every_plan(tree) if are_equal(plan, tree, 60)}


def chain(*kinds: JoinKind) -> OperatorTree:
    """One operator after the other, each on what the first relation binds and with something to add."""
    tree: OperatorTree = leaf(0, "x")
    for i, kind in enumerate(kinds, 1):
        tree = Node(kind, tree, leaf(i, f"x y{i}"))
    return tree


@pytest.mark.parametrize(
    ("kinds", "count"),
    [
        (("inner", "optional", "inner"), 48),
        (("inner", "optional", "anti"), 24),
        (("optional", "anti", "semi"), 6),
        (("optional", "inner", "optional"), 16),
    ],
)
def test_a_star_with_one_centre_has_all_orders(kinds: tuple[JoinKind, ...], count: int) -> None:
    assert len(orders(chain(*kinds))) == count


@pytest.mark.long
def test_operators_on_a_variable_of_the_first_relation_alone_have_every_valid_order() -> None:
    """Each operator looks at a variable of its own: no two of them are equal by chance."""
    for kinds in product(("inner", "optional", "anti", "semi"), repeat=3):
        tree: OperatorTree = leaf(0, "a b c")
        for i, (kind, x) in enumerate(zip(kinds, "abc"), 1):
            tree = Node(kind, tree, leaf(i, f"{x} y{i}"))
        assert set(orders(tree)) == valid(tree), kinds


@pytest.mark.long
def test_the_share_of_valid_orders_that_the_rules_find() -> None:
    """All found are valid; of well-designed trees of three and four relations nearly all valid ones are found."""
    found = every = 0
    rng = random.Random(3)
    while every < 1500:
        tree = random_tree(rng, rng.choice([3, 4]), nulls=0.0)
        if is_well_designed(tree):
            mine, all_ = set(orders(tree)), valid(tree)
            assert mine <= all_
            found, every = found + len(mine), every + len(all_)
    assert found / every > 0.75


@pytest.mark.parametrize("seed", [6900, 16688, 16860, 38146, 142356])
def test_trees_that_broke_earlier_rules(seed: int) -> None:
    """Found by search, about one in twenty thousand each: operators that compare what may be unbound."""
    rng = random.Random(seed)
    tree = random_tree(rng, rng.randint(2, 5), rng.choice([0, 0.3]))
    found, bound, on = operators(tree), {x.index: x.variables for x in leaves(tree)}, compared(tree)
    ways = plans(found, pairs_of(tree), relations(tree))
    for _ in range(6):
        bags = random_bags(rng, tree)
        expected = evaluated(tree, bags)
        for plan in rng.sample(ways, min(len(ways), 20)):
            assert run(plan, bags, bound, on) == expected, plan
