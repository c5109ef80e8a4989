"""Estimates of no rows, or of less than one, are corrected by observed and by sampled rows like others."""

from __future__ import annotations

import pytest

from cqels_opt.bench.shapes import chain
from cqels_opt.plans import Constants, FilterNode, KnownStatistics, Optimizer, QueryGraph, SampledCardinality
from cqels_opt.plans.feedback import FADE, Feedback

from .graphs import relation

GRAPH = chain(4)
PROBING = Constants(build=1e-6)  # no bushy parts
SIZES = {("r0", "r1", "x1"): 0.0, ("r1", "r2", "x2"): 2_000.0, ("r2", "r3", "x3"): 1_000.0}


def statistics(first_join: float) -> KnownStatistics:
    return KnownStatistics({f"r{i}": 1_000.0 for i in range(4)}, {**SIZES, ("r0", "r1", "x1"): first_join})


@pytest.mark.parametrize("estimated", [0.0, 0.001, 0.5, 40.0])
def test_an_observed_set_is_estimated_as_it_was_observed(estimated: float) -> None:
    optimizer = Optimizer(GRAPH, ["r0"], feedback=True)
    choice = optimizer.choose({"r0": statistics(estimated)})["r0"]
    seen = [1_000.0, 5_000.0, 10_000.0, 10_000.0]
    optimizer.observe("r0", seen)
    _, rows = optimizer.observed_price_of("r0", choice.plan) or (0.0, [])
    assert rows[1:] == pytest.approx(seen[1:])


def test_larger_sets_inherit_the_correction() -> None:
    """With a join size of a thousandth of a row, the joins behind it grow as the statistics say."""
    optimizer = Optimizer(GRAPH, ["r0"], feedback=True)
    optimizer.choose({"r0": statistics(0.001)})
    optimizer.observe("r0", [1_000.0, 5_000.0, None, None])
    again = optimizer.choose({"r0": statistics(0.001)})["r0"]
    found = optimizer.observed_cardinalities("r0")
    assert found[frozenset({"r0", "r1"})] == pytest.approx(5_000.0)
    assert again.estimated[-1] == pytest.approx(10_000.0)


def test_no_rows_where_none_were_expected_correct_nothing() -> None:
    optimizer = Optimizer(GRAPH, ["r0"], feedback=True)
    choice = optimizer.choose({"r0": statistics(0.0)})["r0"]
    optimizer.observe("r0", [1_000.0, 0.0, 0.0, 0.0])
    _, rows = optimizer.observed_price_of("r0", choice.plan) or (0.0, [])
    assert rows[1:] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("scale", [1.0, 4.0])
@pytest.mark.parametrize("estimated", [0.0, 0.001])
def test_a_sample_with_rows_corrects_an_estimate_of_none(estimated: float, scale: float) -> None:
    optimizer = Optimizer(GRAPH, ["r0"])
    sampled = [SampledCardinality(250, 4.0), *(SampledCardinality(int(1_200 / scale), scale) for _ in range(3))]
    choice = optimizer.choose({"r0": statistics(estimated)}, sampler=lambda source, plan: sampled)["r0"]
    assert choice.estimated[1:] == pytest.approx([1_200.0] * 3, rel=0.05)


@pytest.mark.parametrize("share", [0.0, 1e-6])
def test_a_false_share_of_a_filter_does_not_multiply_the_rows_before_it(share: float) -> None:
    """A filter had dropped all rows, and now keeps nearly all: in hindsight the plan cost about what it does with the true share."""
    graph = QueryGraph(
        [relation("d", "x u", dynamic=True), relation("a", "x y", dynamic=True), relation("b", "y")],
        [FilterNode("f", frozenset({"u", "y"}))],
    )
    sizes = {("d", "a", "x"): 180.0, ("a", "b", "y"): 32.0}
    rows = {"d": 32.0, "a": 32.0, "b": 1_000.0}
    optimizer = Optimizer(graph, ["d"], feedback=True)
    optimizer.choose({"d": KnownStatistics(rows, sizes, selectivities={"f": share})})
    optimizer.observe("d", [32.0, 163.0, 163.0])
    true = Optimizer(graph, ["d"], feedback=True).choose({"d": KnownStatistics(rows, sizes, selectivities={"f": 163 / 180})})["d"]
    assert true.cost / 2 < optimizer.hindsight()["d"].cost < 2 * true.cost


def test_rows_that_replace_an_estimate_of_zero_multiply_no_other_estimate() -> None:
    """The first batch is planned before any element was counted. What it observed says nothing about later estimates."""
    optimizer = Optimizer(GRAPH, ["r0"], feedback=True, constants=PROBING)
    optimizer.choose({"r0": statistics(0.0)})
    optimizer.observe("r0", [1_000.0, 5_000.0, None, None])
    optimizer.choose({"r0": statistics(0.0)})
    assert optimizer.observed_cardinalities("r0")[frozenset({"r0", "r1"})] == pytest.approx(5_000.0)
    later, fresh = (
        one.choose({"r0": statistics(2_000.0)})["r0"] for one in (optimizer, Optimizer(GRAPH, ["r0"], constants=PROBING))
    )
    assert (later.cost, later.estimated) == (fresh.cost, fresh.estimated)


def test_rows_that_replace_an_estimate_of_zero_fade_and_are_resumed() -> None:
    feedback = Feedback()
    feedback.observe([(0b011, 0.0, 100.0), (0b111, 10.0, 40.0)])
    assert feedback.corrections() == {0b011: pytest.approx(-100.0), 0b111: pytest.approx(4.0)}
    assert Feedback.of(feedback.state()).corrections() == feedback.corrections()
    feedback.observe([(0b111, 10.0, 40.0)])
    assert feedback.corrections()[0b011] == pytest.approx(-(100.0**FADE))
    feedback.observe([(0b011, 50.0, 100.0)])
    assert feedback.corrections()[0b011] == pytest.approx(2.0)
