"""A delta that was stopped is planned again: with what was seen, compared with the batch before, and remembered for the next."""

from __future__ import annotations

import random

import pytest

from cqels_opt.bench.shapes import star
from cqels_opt.plans import KnownStatistics, Optimizer, Plan, SampledCardinality
from cqels_opt.plans.feedback import Feedback
from cqels_opt.plans.plan import operators

from .graphs import random_graph, random_statistics

GRAPH = star(4)
NAMES = ("r0", "r1", "r2", "r3")


def statistics(first: float = 50.0, second: float = 60.0, third: float = 70.0) -> dict[str, KnownStatistics]:
    """Rows of the delta with each of three relations; only those of r1 are false in these tests."""
    sizes = dict(zip((("r0", f"r{i}", f"x{i}") for i in (1, 2, 3)), (first, second, third)))
    return {"r0": KnownStatistics(dict.fromkeys(NAMES, 100.0), sizes)}


def first_joined(plan: Plan) -> str:
    return operators(plan)[1].relation


def test_the_next_plan_leaves_what_was_seen_for_later() -> None:
    optimizer = Optimizer(GRAPH, ["r0"], feedback=True)
    choice = optimizer.choose(statistics())["r0"]
    assert first_joined(choice.plan) == "r1"
    again = optimizer.replan("r0", choice.plan, [100.0, 80_000.0, None, None], None, {})
    assert first_joined(again.plan) == "r2"
    assert optimizer.current["r0"] == again.plan
    assert not again.switched, "there was no batch before"
    optimizer.observe("r0", [100.0, 60.0, 42.0, 20_000.0])
    later = optimizer.choose(statistics())["r0"]
    assert later.plan == again.plan, "what was seen is remembered"
    assert optimizer.observed_cardinalities("r0")[frozenset({"r0", "r1"})] == pytest.approx(80_000.0)


def test_what_was_seen_replaces_what_was_observed_before() -> None:
    optimizer = Optimizer(GRAPH, ["r0"], feedback=True)
    for _ in range(3):
        optimizer.choose(statistics(5.0))
        optimizer.observe("r0", [100.0, 5.0, 3.0, 2.0])
    choice = optimizer.choose(statistics(5.0))["r0"]
    optimizer.replan("r0", choice.plan, [100.0, 80_000.0, None, None], None, {})
    optimizer.observe("r0", [100.0, 60.0, 42.0, 20_000.0])
    assert optimizer.observed_cardinalities("r0")[frozenset({"r0", "r1"})] == pytest.approx(80_000.0)


def test_a_choice_after_a_stop_is_compared_with_the_batch_before() -> None:
    optimizer = Optimizer(GRAPH, ["r0"], feedback=True)
    before = optimizer.choose(statistics(900.0, 60.0, 70.0))["r0"].plan
    optimizer.observe("r0", [100.0, 60.0, 42.0, 300.0])
    choice = optimizer.choose(statistics(0.5))["r0"]
    assert choice.previous == before
    assert first_joined(choice.plan) == "r1"
    for given in ([100.0, 80_000.0, None, None], [100.0, 90_000.0, 90_000.0, None]):
        choice = optimizer.replan("r0", choice.plan, given, None, {})
        assert choice.previous == (None if choice.plan == before else before)
        assert choice.switched == (choice.plan != before)
        assert [former.plan for former in choice.former] == ([before] if choice.switched else [])


@pytest.mark.parametrize("given", [[100.0, 80_000.0, None, None], [4_000.0, 80_000.0, None, None]])
def test_a_switch_after_a_stop_names_what_the_operators_gave(given: list[float | None]) -> None:
    """The statistics are those of the same batch: only the rows that were seen have changed."""
    optimizer = Optimizer(GRAPH, ["r0"], feedback=True)
    optimizer.choose(statistics())
    optimizer.observe("r0", [100.0, 50.0, 30.0, 20.0])
    choice = optimizer.choose(statistics())["r0"]
    assert not choice.switched
    again = optimizer.replan("r0", choice.plan, given, None, statistics())
    assert again.switched
    assert "rows(r0, r1)" in {reason.statistic for reason in again.reason if reason.now == pytest.approx(80_000.0)}


def test_plans_are_sampled_until_the_cheapest_has_been() -> None:
    """r2 is as bad as r1, which only a sample shows."""
    optimizer = Optimizer(GRAPH, ["r0"], feedback=True)
    choice = optimizer.choose(statistics())["r0"]
    true = {"r1": 800.0, "r2": 900.0, "r3": 0.7}
    sampled: list[str] = []

    def sampler(source: str, plan: Plan) -> list[SampledCardinality | None]:
        sampled.append(str(plan))
        rows, found = 100.0, list[SampledCardinality | None]()
        for step in operators(plan):
            rows *= true.get(step.relation, 1.0) if step.op == "probe" else 1.0
            found.append(SampledCardinality(round(rows), 1.0))
        return found

    again = optimizer.replan("r0", choice.plan, [100.0, 80_000.0, None, None], sampler, {})
    assert first_joined(again.plan) == "r3"
    assert str(again.plan) in sampled and len(sampled) == len(set(sampled))
    optimizer.observe("r0", [100.0, 70.0, None, None])
    assert optimizer.observed_cardinalities("r0")[frozenset({"r0", "r2"})] == pytest.approx(90_000.0)


@pytest.mark.parametrize("seed", range(40))
def test_the_choice_is_the_cheapest_under_what_was_seen(seed: int) -> None:
    """Against an optimizer that has observed the same rows before it chooses for the first time."""
    rng = random.Random(seed)
    graph = random_graph(rng, 5)
    source = graph.relations[0].name
    known = {source: random_statistics(rng, graph)}
    optimizer = Optimizer(graph, [source], feedback=True)
    choice = optimizer.choose(known)[source]
    seen = [rows * 10 ** rng.uniform(0, 4) + 2 for rows in choice.estimated]
    again = optimizer.replan(source, choice.plan, [*seen[:-1], None], None, {})
    fresh = Optimizer(graph, [source], feedback=True)
    fresh.choose(known)
    fresh.observe(source, [*seen[:-1], None])
    assert again.cost == pytest.approx(fresh.observed_price_of(source, again.plan)[0])  # type: ignore[index]
    assert again.cost == pytest.approx(fresh.alternatives(source, 1)[0].cost)


def test_the_excess_cost_includes_stopped_plans() -> None:
    optimizer = Optimizer(GRAPH, ["r0"], feedback=True)
    choice = optimizer.choose(statistics())["r0"]
    optimizer.replan("r0", choice.plan, [100.0, 80_000.0, None, None], None, {})
    optimizer.observe("r0", [100.0, 60.0, 42.0, 20_000.0])
    without, nothing, rows = (
        optimizer.hindsight({"r0": [(choice.plan, given)]} if given else None)["r0"]
        for given in (None, [100.0, 0.0, 0.0, 0.0], [100.0, 16_000.0, 0.0, 0.0])
    )
    assert without.least == nothing.least == rows.least
    assert without.cost < nothing.cost < rows.cost
    assert rows.cost - nothing.cost > 16_000 * optimizer.model.constants.produce  # type: ignore[attr-defined]


def test_refuted_observations_do_not_count_any_more() -> None:
    smoothed, replaced = Feedback.of([(0b11, 0.0), (0b111, 1.0)]), Feedback.of([(0b11, 0.0), (0b111, 1.0)])
    smoothed.observe([(0b11, 1.0, 100.0)])
    replaced.observe([(0b11, 1.0, 100.0)], refuted=[0b11])
    assert smoothed.corrections()[0b11] == pytest.approx(10.0)
    assert replaced.corrections()[0b11] == pytest.approx(100.0)


def test_the_first_plan_is_the_first_that_was_chosen_from_rows() -> None:
    """It is the plan that ``static`` keeps; one that was chosen before any rows is not compared with later ones."""
    optimizer, static = Optimizer(GRAPH, ["r0"], feedback=True), Optimizer(GRAPH, ["r0"], mode="static")
    full, other = statistics(70.0, 900.0, 60.0), statistics(900.0, 5.0, 60.0)
    batches = [{"r0": KnownStatistics({}, {})}, full, other, full]
    found = [optimizer.choose(known)["r0"] for known in batches]
    kept = [static.choose(known)["r0"].plan for known in batches]
    assert [choice.first for choice in found] == [False, True, False, False]
    assert found[1].switched and found[2].switched and found[3].switched
    assert [[former.plan for former in choice.former] for choice in found] == [[], [], [found[1].plan], [found[2].plan]]
    assert kept[1:] == [found[1].plan] * 3
