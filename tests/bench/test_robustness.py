"""The study of robustness: its queries are what it says, its orders give one bag, and its false statistics are false."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

from cqels_opt.bench import bound_quality, cyclic, order_spread, robustness
from cqels_opt.bench.acyclic_queries import acyclic_query, joined_rows, prefixes
from cqels_opt.bench.bound_quality import Compared
from cqels_opt.bench.false_statistics import FALSIFIED, run_with_false, scaled, shuffled
from cqels_opt.bench.html import page
from cqels_opt.bench.tables import robustness_rows
from cqels_opt.planner.block_graph import graph_of
from cqels_opt.planner.planner_options import PlannerOptions
from cqels_opt.plans import KnownStatistics, StatisticKey


@pytest.mark.parametrize("seed", sorted({*range(14)} - {3, 7}))  # which give too many rows for a loop over all pairs
def test_queries_are_acyclic_and_have_the_rows_that_are_counted(seed: int) -> None:
    query = acyclic_query(seed, delta=4, most=5)
    for number, pair in enumerate(query.variables[1:], 1):
        before = {variable for other in query.variables[:number] for variable in other}
        assert len(before & set(pair)) == 1, "one variable of those before it, and a new one"
    rows: list[dict[int, int]] = [{}]
    for pair, columns in zip(query.variables, query.tables):
        fresh = [dict(zip(pair, values)) for values in zip(*(column.tolist() for column in columns))]
        rows = [{**a, **b} for a, b in product(rows, fresh) if all(a.get(v, x) == x for v, x in b.items())]
    assert len(rows) == joined_rows(query, range(len(query.tables))) > 0
    counted = [set(some) for some in prefixes(query)]
    for some in counted:
        assert len(some) == len(query.tables) or any(some < other and len(other) == len(some) + 1 for other in counted)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_order_gives_the_answers_of_the_independent_evaluation(seed: int, tmp_path: Path) -> None:
    query = acyclic_query(seed, delta=60, most=6)
    spreads = order_spread.measured(query, 6, tmp_path)  # raises unless all bags are equal
    assert spreads and spreads[0].first
    for spread in spreads:
        assert len(spread.orders) == 6
        assert spread.ratio("rows", "worst") >= 1.0
        assert len({order.digest for order in (spread.chosen, *spread.orders)}) == 1
        assert min(order.rows for order in spread.orders) >= spread.chosen.digest[0], "a plan gives at least its answers"


def test_random_orders_have_no_cross_products(tmp_path: Path) -> None:
    prepared = acyclic_query(5, delta=20).prepared(tmp_path / "w")
    (block,) = prepared.program.blocks
    graph, rng = graph_of(block), np.random.default_rng(1)
    drawn = {order_spread.random_order(rng, graph, block.occurrences[0].name) for _ in range(20)}
    assert len(drawn) > 1
    for order in drawn:
        assert order[-1] == graph.everything
        for before, after in pairwise(order):
            assert graph.shared(before, after & ~before)


KEYS = [StatisticKey("cardinality", (name,)) for name in "abcd"] + [
    StatisticKey("join_size", (x, y, "v")) for x, y in ("ab", "bc")
]
KNOWN = KnownStatistics({"a": 1.0, "b": 20.0, "c": 300.0, "d": 4000.0}, {("a", "b", "v"): 7.0, ("b", "c", "v"): 90.0})


def test_shuffled_statistics_are_the_same_values_under_other_names() -> None:
    lots = [shuffled(np.random.default_rng(seed), KNOWN, KEYS) for seed in range(10)]
    for found in lots:
        assert sorted(found.cardinality(name) or 0 for name in "abcd") == [1.0, 20.0, 300.0, 4000.0]
        assert {found.join_size("b", "a", "v"), found.join_size("b", "c", "v")} == {7.0, 90.0}
        assert found.join_size("c", "d", "v") is None
    assert len({tuple(found.cardinality(name) for name in "abcd") for found in lots}) > 5


def test_scaled_statistics_are_a_thousand_times_more_or_less() -> None:
    found = scaled(np.random.default_rng(3), KNOWN, KEYS)
    ratios = [(key.read(found) or 0.0) / (key.read(KNOWN) or 1.0) for key in KEYS]
    assert {round(float(np.log10(ratio)), 9) for ratio in ratios} == {-3.0, 3.0}


@pytest.mark.parametrize("kind", FALSIFIED)
def test_false_statistics_change_plans_and_no_answers(kind: str, tmp_path: Path) -> None:
    prepared = acyclic_query(4, delta=60).prepared(tmp_path / "w")
    options = PlannerOptions(view_selection=False)
    true = prepared.run("true", options)
    runs = [run_with_false(prepared, "false", FALSIFIED[kind], seed, options) for seed in range(5)]
    assert {(run.answers, run.digest) for run in runs} == {(true.answers, true.digest)}
    plans = {tuple(delta.plan for record in run.records for delta in record.deltas) for run in (true, *runs)}
    assert len(plans) > 1


def test_a_figure_has_the_median_and_the_greatest_value() -> None:
    found = robustness.Figure.of("x", [1.0, 4.0, 2.0], "≤ 3×")
    assert (found.median, found.most, found.cases) == (2.0, 4.0, 3)


def test_figures_are_shown_with_their_units_and_ratios_drawn() -> None:
    figures = [
        robustness.Figure.of("rows over the fewest", [1.0, 4.0, 2.0], "≤ 2×"),
        robustness.Figure("above", 0, 0, 3, 7, "0", ""),
    ]
    report = {"figures": [asdict(one) for one in figures]}
    assert robustness_rows(report) == [
        ("rows over the fewest", "≤ 2×", "3", "1.00×", "2.00×", "4.00×"),
        ("above", "0", "7", "0.00", "0.00", "3.00"),
    ]
    shown = page([{**report, "scenario": "robustness", "title": "Robustness", "machine": {}, "versions": {}}])
    assert shown.count('<g tabindex="0"') == 2 and "2. above" in shown, "counts are no ratios and have no bars"


def test_bounds_of_up_to_four_joins_and_by_the_number_of_relations(monkeypatch: pytest.MonkeyPatch) -> None:
    operators = [
        Compared(2, 10, 20.0),
        Compared(2, 10, 40.0),
        Compared(5, 1, 70.0),
        Compared(2, 8, 7.0),
        Compared(3, 0, 9.0),
        Compared(6, 1, 900.0),
    ]
    monkeypatch.setattr(bound_quality, "study", lambda quick: {"world": operators})
    (exceeded, within, two, five, six), found = robustness.upper_bounds(quick=True)
    assert (exceeded.most, exceeded.cases, exceeded.unit) == (1, 6, "")
    assert (within.median, within.most, within.cases, within.aim) == (3.0, 70.0, 4, "≤ 5× median")
    assert (two.median, two.least, two.most, two.aim) == (2.0, 0.875, 4.0, "")
    assert (five.median, six.median, six.aim) == (70.0, 900.0, "")
    assert found == {"operators": 6, "exceeded": 1}


def test_multiway_joins_give_fewer_rows_at_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    small = partial(cyclic.study, True, edges=400, patterns=["triangle"])  # raises unless all answers are those of DuckDB
    monkeypatch.setattr(cyclic, "study", lambda quick: small())
    (rows, *seconds), found = robustness.cycles(quick=True)
    assert (rows.cases, len(found["patterns"])) == (1, 1) and rows.most > 10.0
    assert [one.cases for one in seconds] == [1, 1]
