"""Multiway joins in plans: where they are enumerated, how they are priced, written and checked."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cqels_opt.bench.shapes import chain, star
from cqels_opt.plans import (
    KnownStatistics,
    Multiway,
    Optimizer,
    PlanError,
    QueryGraph,
    RelationNode,
    Scan,
    check,
    dot,
    parse_plan,
)
from cqels_opt.plans.cost_models.seconds import SecondsCost
from cqels_opt.plans.cycles import is_cyclic, multiway_keys
from cqels_opt.plans.memo import candidates
from cqels_opt.plans.plan import joins, pairs_with_builds

from . import brute_force
from .graphs import random_graph


def graph_of(text: str) -> QueryGraph:
    """``ab bc ca``: a relation per word, over the variables that are its letters."""
    return QueryGraph([RelationNode(word, frozenset(word), i == 0) for i, word in enumerate(text.split())])


def known(graph: QueryGraph, rows: float, fan_out: float) -> KnownStatistics:
    """The delta ``rows``, a thousand times that in the others, and a fan-out between any two relations."""
    names = [r.name for r in graph.relations]
    sizes = {name: rows * (1 if i == 0 else 1000) for i, name in enumerate(names)}
    return KnownStatistics(
        sizes, {(names[e.left], names[e.right], e.variable): sizes[names[e.left]] * fan_out for e in graph.edges}
    )


def multiway(plans: Iterable[object]) -> list[Multiway]:
    return [join for plan in plans for join in joins(plan) if isinstance(join, Multiway)]  # type: ignore[arg-type]


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_graph_is_cyclic_if_it_has_no_join_tree(rng: random.Random) -> None:
    graph = random_graph(rng, most=6, units=rng.choice([0, 2]))
    assert is_cyclic(graph) == brute_force.is_cyclic([r.variables for r in graph.relations if r.kind == "inner"])


@pytest.mark.parametrize("text, expected", [("ab bc", False), ("ab bc ca", True), ("ab bc ca abc", False), ("ab bc cd da", True)])
def test_the_cycles_that_everyone_knows(text: str, expected: bool) -> None:
    assert is_cyclic(graph_of(text)) == expected


def test_relations_that_close_a_cycle() -> None:
    graph = graph_of("ab bc ca cd abc")

    def keys(left: str, right: str) -> object:
        return multiway_keys(graph, *(graph.set_of(text.split()) for text in (left, right)))

    assert keys("ab", "bc ca") == {"bc": ("b",), "ca": ("a",)}
    assert keys("ab", "bc cd") is None  # other new variables
    assert keys("ab", "bc abc") is None  # abc alone has the fewest matches
    assert keys("bc", "ca") is None  # one relation is a probe
    assert keys("cd", "bc ca") is None  # b and a are different new variables


@pytest.mark.parametrize("graph", [chain(5), star(5), graph_of("ab bc ca abc")])
def test_acyclic_graphs_have_no_multiway_joins(graph: QueryGraph) -> None:
    source = graph.relations[0].name
    optimizer = Optimizer(graph, [source])
    optimizer.choose({source: KnownStatistics()})
    assert not multiway(ranked.plan for ranked in optimizer.alternatives(source, 10_000))


def test_a_triangle_is_closed_at_once_where_fan_outs_are_large() -> None:
    graph = graph_of("ab bc ca")
    optimizer = Optimizer(graph, ["ab"])
    many = optimizer.choose({"ab": known(graph, 100, 500)})["ab"]
    assert str(many.plan) == "ab » bc[?b] & ca[?a]"
    assert [(step.op, step.relation, step.on) for step in many.operators] == [
        ("scan", "ab", ()),
        ("multiway", "bc[?b] & ca[?a]", ("a", "b")),
    ]
    few = Optimizer(graph, ["ab"]).choose({"ab": known(graph, 100, 0.1)})["ab"]
    assert not multiway([few.plan])


def test_a_clique_is_closed_variable_by_variable() -> None:
    graph = graph_of("ab bc ca ad bd cd")
    optimizer = Optimizer(graph, ["ab"])
    best = optimizer.choose({"ab": known(graph, 100, 500)})["ab"].plan
    assert sorted(len(join.relations) for join in multiway([best])) == [2, 3]


@pytest.mark.parametrize("model", ["paper", SecondsCost(shuffled="left")])
def test_models_without_multiway_joins(model: object) -> None:
    graph = graph_of("ab bc ca")
    optimizer = Optimizer(graph, ["ab"], model)  # type: ignore[arg-type]
    optimizer.choose({"ab": known(graph, 100, 500)})
    assert not multiway(ranked.plan for ranked in optimizer.alternatives("ab", 1000))


@given(st.lists(st.lists(st.just(0.0) | st.floats(1e-6, 1e9), min_size=3, max_size=3), min_size=1, max_size=5))
def test_candidates_are_never_more_than_those_of_any_relation(cases: list[list[float]]) -> None:
    proposed = np.array(cases)
    for added in (2, 3):
        found = candidates(proposed, np.full(len(cases), added))
        least = proposed[:, :added].min(axis=1)
        assert (found <= least * (1 + 1e-9)).all() and (found >= least / added * (1 - 1e-9)).all()


def test_the_text_of_a_multiway_join() -> None:
    plan = Multiway.of(Scan("ab"), {"ca": ("a",), "bc": ("b",)})
    assert str(plan) == "ab » bc[?b] & ca[?a]"
    assert parse_plan("ab >> ca[?a]&bc[?b]") == plan == parse_plan(str(plan))
    nested = "x » (ab » bc[?b] & ca[?a] » d[?c])[?d]"
    assert str(parse_plan(nested)) == nested
    assert str(parse_plan("a » b&c[?x]")) == "a » b&c[?x]"  # the name of one relation
    with pytest.raises(PlanError, match="names a relation twice"):
        parse_plan("ab » bc[?b] & bc[?c]")


@pytest.mark.parametrize(
    "text, wrong",
    [
        ("ab » bc[?b] & ca[?c]", r"must be bc\[\?b\] & ca\[\?a\]"),
        ("ab » bc[?b] & cd[?c] » ca[?a ?c]", "is no multiway join"),
    ],
)
def test_what_is_no_multiway_join(text: str, wrong: str) -> None:
    with pytest.raises(PlanError, match=wrong):
        check(parse_plan(text), graph_of("ab bc ca cd" if "cd" in text else "ab bc ca"), "ab")


def test_a_given_plan_is_kept_and_priced_whatever_the_budget() -> None:
    graph = graph_of("ab bc ca")
    plan = parse_plan("ab » bc[?b] & ca[?a]")
    for budget in (0, 1000):
        choice = Optimizer(graph, ["ab"], mode={"ab": plan}, pair_budget=budget).choose({"ab": known(graph, 100, 0.1)})["ab"]
        assert choice.plan == plan and choice.cost > 0
    assert len(pairs_with_builds(plan, graph)) == 2
    with pytest.raises(PlanError, match="no such joins"):
        Optimizer(graph, ["ab"], "paper", {"ab": plan}).choose({"ab": known(graph, 1, 1)})


def test_the_drawing_has_an_edge_per_relation() -> None:
    graph = graph_of("ab bc ca")
    choice = Optimizer(graph, ["ab"]).choose({"ab": known(graph, 100, 500)})
    drawn = dot(choice)
    assert all(f'[label="{name}", shape=ellipse]' in drawn for name in ("ab", "bc", "ca"))


def test_a_clique_that_is_planned_greedily_is_closed_variable_by_variable() -> None:
    graph = graph_of("ab bc ca ad bd cd ae be ce de")
    optimizer = Optimizer(graph, ["ab"], pair_budget=0)
    choice = optimizer.choose({"ab": known(graph, 100, 500)})["ab"]
    assert choice.fallback and sorted(len(join.relations) for join in multiway([choice.plan])) == [2, 3, 4]
    paper = Optimizer(graph, ["ab"], "paper", pair_budget=0)
    assert not multiway([paper.choose({"ab": known(graph, 100, 500)})["ab"].plan])


def test_estimates_of_a_cycle_are_at_most_those_of_an_edge_cover_until_they_are_observed() -> None:
    """Two opposite edges of a clique bind all of its nodes. By pairs it would have a billion times as many rows."""
    graph = graph_of("ab ac bc ad bd cd")
    optimizer = Optimizer(graph, ["ab"], feedback=True)
    statistics = {"ab": known(graph, 1000, 10_000)}
    optimizer.choose(statistics)
    for relations, most in (("ab ac bc ad bd cd", 1e9), ("ab ac bc", 1e9), ("ac bc ad bd cd", 1e12)):
        assert optimizer.memo.rows("ab", graph.set_of(relations.split())) <= most
    assert optimizer.memo.uncorrected_rows("ab", [graph.everything])[0] > 1e13
    for _ in range(20):  # what was observed may be more: a triple can be in a window many times
        choice = optimizer.choose(statistics)["ab"]
        optimizer.observe("ab", [*choice.estimated[:-1], 1e10])
    assert optimizer.choose(statistics)["ab"].estimated[-1] == pytest.approx(1e10, rel=0.01)


def test_estimates_of_acyclic_queries_have_no_edge_cover() -> None:
    graph = graph_of("ab bc cd")
    optimizer = Optimizer(graph, ["ab"])
    optimizer.choose({"ab": known(graph, 10, 1e3)})
    assert optimizer.memo.rows("ab", graph.everything) == pytest.approx(10 * 1e3 * 1e3)  # ab and cd have 10 · 10,000
