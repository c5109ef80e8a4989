from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.plans import Assumptions, FilterNode, JoinKind, KnownStatistics, QueryGraph, StatisticKey
from cqels_opt.plans.base_estimates import BaseEstimates
from cqels_opt.plans.cardinality import anchor_ranks

from .graphs import RowsEstimator, q2, random_graph, random_statistics, relation, unit, with_units


def estimator(graph: QueryGraph, source: str, statistics: KnownStatistics) -> RowsEstimator:
    base = BaseEstimates(graph, [source])
    base.read({source: statistics})
    return RowsEstimator(base)


def test_one_relation_and_a_pair_are_exact() -> None:
    graph = q2()
    known = KnownStatistics({"lsnow": 7.0, "ls30": 150_001.0}, {("ls30", "lsnow", "loc"): 1234.0})
    found = estimator(graph, "lsnow", known)
    assert found.rows(0, 0b01) == 7.0
    assert found.rows(0, 0b11) == 1234.0


def test_a_variable_of_three_relations_counts_two_edges_from_the_delta() -> None:
    graph = QueryGraph([relation("a", "x"), relation("d", "x", dynamic=True), relation("c", "x")])
    rows = {"a": 100.0, "d": 10.0, "c": 50.0}
    joins = {("a", "d", "x"): 20.0, ("d", "c", "x"): 40.0, ("a", "c", "x"): 999.0}
    # each row of the delta finds 2 in a and 4 in c; the join of a and c is not needed
    assert estimator(graph, "d", KnownStatistics(rows, joins)).rows(0, 0b111) == pytest.approx(10 * 2 * 4)


def test_later_hops_multiply_the_fan_out_of_each() -> None:
    graph = QueryGraph([relation("d", "x", dynamic=True), relation("a", "x y"), relation("b", "y z")])
    known = KnownStatistics({"d": 10.0, "a": 1000.0, "b": 500.0}, {("d", "a", "x"): 30.0, ("a", "b", "y"): 2000.0})
    assert estimator(graph, "d", known).rows(0, 0b111) == pytest.approx(30 * 2)


def test_of_several_shared_variables_the_most_selective_counts() -> None:
    """What a triple is about says what else it shares: ?o alone tells which row of b belongs to which of d."""
    graph = QueryGraph([relation("d", "o v", dynamic=True), relation("b", "o v r"), relation("c", "o l"), relation("far", "v w")])
    rows = {"d": 10.0, "b": 1000.0, "c": 1000.0, "far": 50.0}
    joins = {("d", "b", "o"): 10.0, ("d", "b", "v"): 400.0, ("d", "c", "o"): 10.0, ("b", "c", "o"): 1000.0}
    found = estimator(graph, "d", KnownStatistics(rows, {**joins, ("d", "far", "v"): 20.0, ("b", "far", "v"): 2000.0}))
    assert found.rows(0, 0b0011) == pytest.approx(10)
    assert found.rows(0, 0b0111) == pytest.approx(10)
    assert found.rows(0, 0b1111) == pytest.approx(20)
    assert found.rows(0, 0b1011) == pytest.approx(20)


def test_seen_from_a_third_relation_they_count_once_as_well() -> None:
    graph = QueryGraph([relation("d", "o l", dynamic=True), relation("a", "o v"), relation("b", "o v r")])
    rows = {"d": 10.0, "a": 1000.0, "b": 1000.0}
    joins = {("d", "a", "o"): 10.0, ("d", "b", "o"): 10.0, ("a", "b", "o"): 1000.0, ("a", "b", "v"): 40_000.0}
    assert estimator(graph, "d", KnownStatistics(rows, joins)).rows(0, 0b111) == pytest.approx(10)


def test_variables_that_are_shared_with_different_relations_are_independent() -> None:
    """The report's Q2: a pair of persons, each at a place."""
    graph = QueryGraph([relation("d", "p l", dynamic=True), relation("w", "q l", dynamic=True), relation("pairs", "p q")])
    rows = {"d": 10.0, "w": 100.0, "pairs": 1000.0}
    joins = {("d", "w", "l"): 200.0, ("d", "pairs", "p"): 50.0, ("w", "pairs", "q"): 500.0}
    assert estimator(graph, "d", KnownStatistics(rows, joins)).rows(0, 0b111) == pytest.approx(200 * 1000 * 0.005 * 0.005)


def test_a_reason_names_all_that_an_edge_of_several_hangs_on() -> None:
    graph = QueryGraph([relation("d", "o v", dynamic=True), relation("b", "o v")])
    base = BaseEstimates(graph, ["d"])
    names = {str(key) for key in base.statistics_of(base.edge_factor(0))}
    assert {"join_size(d, b, ?o)", "join_size(d, b, ?v)"} <= names


def test_unknown_join_sizes_use_the_larger_distinct_count() -> None:
    graph = QueryGraph([relation("d", "x", dynamic=True), relation("a", "x")])
    known = KnownStatistics({"d": 10.0, "a": 1000.0}, {}, {("d", "x"): 5.0, ("a", "x"): 200.0})
    assert estimator(graph, "d", known).rows(0, 0b11) == pytest.approx(10 * 1000 / 200)


def test_unknown_is_not_zero_and_what_is_assumed_is_said() -> None:
    graph = QueryGraph(
        [relation("d", "x", dynamic=True), relation("w", "x", dynamic=True), relation("a", "x")],
        [FilterNode("f", frozenset("x"))],
    )
    assume = Assumptions()
    found = estimator(graph, "d", KnownStatistics())
    assert [found.rows(0, 1 << i, filters=0) for i in range(3)] == [assume.delta, assume.dynamic, assume.static]
    assert found.rows(0, 1) == pytest.approx(assume.delta * assume.selectivity)
    assert {str(key) for key in found.base.assumed("d")} == {
        *("cardinality(d)", "cardinality(w)", "cardinality(a)"),
        *("distinct(d, ?x)", "distinct(w, ?x)", "distinct(a, ?x)"),
        "selectivity(f)",
    }
    known = KnownStatistics(
        {"d": 0.0, "w": 5.0, "a": 9.0}, {("d", "w", "x"): 0.0, ("d", "a", "x"): 0.0, ("w", "a", "x"): 3.0}, {}, {"f": 1.0}
    )
    observed = estimator(graph, "d", known)
    assert observed.rows(0, 0b111) == 0.0
    assert observed.base.assumed("d") == ()


def test_a_selectivity_known_in_advance_is_not_an_assumption() -> None:
    graph = QueryGraph([relation("d", "x", dynamic=True)], [FilterNode("f", frozenset("x"), 0.25)])
    found = estimator(graph, "d", KnownStatistics({"d": 8.0}))
    assert found.rows(0, 1) == 2.0
    assert found.base.assumed("d") == ()
    assert estimator(graph, "d", KnownStatistics({"d": 8.0}, {}, {}, {"f": 0.5})).rows(0, 1) == 4.0


def test_a_filter_multiplies_once_its_variables_are_bound() -> None:
    graph = QueryGraph([relation("d", "x y", dynamic=True), relation("a", "x z")], [FilterNode("f", frozenset({"y", "z"}))])
    known = KnownStatistics({"d": 10.0, "a": 10.0}, {("d", "a", "x"): 50.0}, {}, {"f": 0.1})
    found = estimator(graph, "d", known)
    assert (found.rows(0, 0b01), found.rows(0, 0b10)) == (10.0, 10.0)
    assert found.rows(0, 0b11) == pytest.approx(5.0)
    assert found.rows(0, 0b11, filters=0) == 50.0


def test_figures_that_contradict_each_other_do_not_explode() -> None:
    graph = QueryGraph([relation("d", "x", dynamic=True), relation("a", "x y"), relation("b", "y")])
    known = KnownStatistics({"d": 1.0, "a": 1.0, "b": 1.0}, {("d", "a", "x"): 1e30, ("a", "b", "y"): 1e30})
    assert estimator(graph, "d", known).rows(0, 0b111) == 1.0


@pytest.mark.parametrize("matches", [0.0, 1e9])
def test_the_rows_of_many_large_relations_are_numbers(matches: float) -> None:
    """The product of the rows of forty relations alone would be infinite, and its product with a selectivity of zero no number."""
    chain = [relation("d", "x0", dynamic=True), *(relation(f"r{i}", f"x{i} x{i + 1}") for i in range(40))]
    known = KnownStatistics({"d": 10.0} | {f"r{i}": 1e9 for i in range(40)})
    joins = {(f"r{i}", f"r{i + 1}", f"x{i + 1}"): matches for i in range(39)}
    known = replace(known, join_sizes=joins | {("d", "r0", "x0"): min(matches, 10.0)})
    with np.errstate(all="raise", under="ignore"):
        rows = estimator(QueryGraph(chain), "d", known).rows(0, (1 << 41) - 1)
    assert rows == pytest.approx(10.0 if matches else 0.0)


def test_anchors_begin_at_the_delta_and_go_outwards() -> None:
    graph = q2()
    names = [r.name for r in graph.relations]
    ranks = anchor_ranks(graph, "ls30")
    assert sorted(names, key=lambda name: ranks[names.index(name)]) == [
        "ls30",
        "lsnow",
        "loc_name",
        "coauthor",
        "name#2",
        "name#1",
    ]


def test_statistic_keys_read_and_print_themselves() -> None:
    known = KnownStatistics({"a": 1.0}, {("a", "b", "x"): 2.0}, {("a", "x"): 3.0}, {"f": 4.0})
    keys = {
        StatisticKey("cardinality", ("a",)): ("cardinality(a)", 1.0),
        StatisticKey("join_size", ("b", "a", "x")): ("join_size(b, a, ?x)", 2.0),
        StatisticKey("distinct", ("a", "x")): ("distinct(a, ?x)", 3.0),
        StatisticKey("selectivity", ("f",)): ("selectivity(f)", 4.0),
        StatisticKey("cardinality", ("b",)): ("cardinality(b)", None),
    }
    assert {key: (str(key), key.read(known)) for key in keys} == keys


# ------------------------------------------------------------------ units
def test_rows_of_a_unit_are_those_that_its_join_size_says() -> None:
    """Statistics give, over the rows of the left relation, Σ max(f, 1), Σ [f = 0] and Σ [f > 0]."""
    graph = QueryGraph(
        [relation("d", "x", True), unit("o", "optional", "x", "z"), unit("m", "anti", "x"), unit("e", "semi", "x")]
    )
    joins = {("d", "o", "x"): 14.0, ("d", "m", "x"): 6.0, ("d", "e", "x"): 4.0}
    found = estimator(graph, "d", KnownStatistics({"d": 10.0, "o": 9.0, "m": 5.0, "e": 5.0}, joins))
    assert [found.rows(0, 0b0001 | 1 << k) for k in (1, 2, 3)] == pytest.approx([14.0, 6.0, 4.0])
    assert found.rows(0, 0b1111) == pytest.approx(10 * 1.4 * 0.6 * 0.4)


def test_an_empty_right_side_takes_nothing_away() -> None:
    graph = QueryGraph([relation("d", "x", True), relation("a", "x"), unit("o", "optional", "x", "z"), unit("m", "anti", "x")])
    joins = {("d", "a", "x"): 30.0, ("d", "o", "x"): 10.0, ("d", "m", "x"): 10.0}
    found = estimator(graph, "d", KnownStatistics({"d": 10.0, "a": 7.0, "o": 0.0, "m": 0.0}, joins))
    assert found.rows(0, 0b1111) == pytest.approx(30.0)


def test_a_unit_is_seen_from_the_anchor_of_its_variable() -> None:
    graph = QueryGraph([relation("d", "x", True), relation("a", "x y"), unit("m", "anti", "x")])
    joins = {("d", "a", "x"): 50.0, ("d", "m", "x"): 2.0, ("a", "m", "x"): 90.0}
    found = estimator(graph, "d", KnownStatistics({"d": 10.0, "a": 100.0, "m": 1.0}, joins))
    assert found.rows(0, 0b111) == pytest.approx(50 * 0.2)
    assert found.rows(0, 0b110) == pytest.approx(90.0)


def test_units_on_two_variables_take_the_nearest_bound() -> None:
    kinds: list[tuple[JoinKind, float]] = [("optional", 20.0), ("semi", 3.0), ("anti", 8.0)]
    for kind, rows in kinds:
        graph = QueryGraph([relation("d", "x y", True), unit("u", kind, "x y", "z" if kind == "optional" else "")])
        sizes = {"optional": (40.0, 20.0), "semi": (3.0, 9.0), "anti": (1.0, 8.0)}[kind]
        known = KnownStatistics({"d": 10.0, "u": 50.0}, {("d", "u", "x"): sizes[0], ("d", "u", "y"): sizes[1]})
        assert estimator(graph, "d", known).rows(0, 0b11) == pytest.approx(rows), kind


@pytest.mark.long
@given(st.randoms(use_true_random=False))
def test_an_optional_never_takes_rows_away_and_the_others_never_add_any(rng: random.Random) -> None:
    graph = with_units(rng, random_graph(rng, most=3), 3)
    source = next(r.name for r in graph.relations if r.kind == "inner")
    found = estimator(graph, source, random_statistics(rng, graph, unknown=0.4))
    for k in range(len(graph.relations)):
        kind = graph.relations[k].kind
        for left in range(1, graph.everything + 1):
            if kind == "inner" or left >> k & 1 or not left & graph.inner or not graph.fits(left, 1 << k):
                continue
            before, after = found.rows(0, left, 0), found.rows(0, left | 1 << k, 0)
            assert after >= before * (1 - 1e-9) if kind == "optional" else after <= before * (1 + 1e-9)
