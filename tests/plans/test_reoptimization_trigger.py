"""When plans are kept: the ranges are those of the memo, and a count beyond its range makes a new choice due."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from cqels_opt.plans import Optimizer, ReoptimizationTrigger, plan_extraction
from cqels_opt.plans import plan as planning
from cqels_opt.plans.reoptimization_trigger import EXECUTION_PER_CHOICE, SECONDS, Basis
from cqels_opt.plans.what_if import FACTORS, LEAST, TOLERANCE, safe_factors

from .graphs import random_graph, random_statistics

EDGE = ("d", "w", "x")


def basis(plan: str = "d » w[?x]") -> Basis:
    """100 rows of the delta, 1,000 of a window, 10 matches per row of the delta."""
    return Basis(plan, {"d": (100.0, 4.0), "w": (1_000.0, 2.0)}, {EDGE: (10.0, 2.0)}, [(1.0, 4.0), (10.0, 1.5)])


def armed() -> ReoptimizationTrigger:
    """A trigger after two equal choices."""
    trigger = ReoptimizationTrigger()
    trigger.chosen({"d": basis()})
    trigger.chosen({"d": basis()})
    return trigger


def due(trigger: ReoptimizationTrigger, delta: float = 100.0, window: float = 1_000.0, joined: float = 10.0) -> bool:
    """Whether a choice is due for a batch with ``joined`` matches per row of the delta."""
    return trigger.is_due({"d": {"d": delta, "w": window}}, lambda _: {EDGE: joined * delta})


@pytest.mark.parametrize("seed", range(40))
def test_within_its_factor_a_plan_costs_little_more_than_the_cheapest(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_graph(rng, most=5)
    optimizer = Optimizer(graph, ["r0"])
    plan = optimizer.choose({"r0": random_statistics(rng, graph)})["r0"].plan
    memo, root = optimizer.memo, optimizer.memo.root("r0")
    sets = [graph.set_of(step.covers) for step in planning.operators(plan, graph)]
    for relations, safe in zip(sets, safe_factors(memo, "r0", plan, TOLERANCE, sets), strict=True):
        good = []
        for factor in FACTORS:
            kept = True
            for change in (factor, 1 / factor):  # one case at a time, priced without the other cases
                other = memo.of_source("r0").under(memo.of_source("r0").table.rows_if([(relations, change)])[0])
                cost = plan_extraction.cost_of(other, "r0", plan)
                assert cost is not None
                kept &= cost <= float(other.psi[root]) * (1 + TOLERANCE)
            good.append(kept)
        until = good.index(False) if False in good else len(good)
        assert safe == ((LEAST, *FACTORS)[until])


def test_a_memo_that_is_priced_for_its_own_rows_has_its_own_costs() -> None:
    rng = random.Random(1)
    graph = random_graph(rng, most=5)
    optimizer = Optimizer(graph, ["r0"])
    optimizer.choose({"r0": random_statistics(rng, graph)})
    memo = optimizer.memo
    again = memo.under(memo.table.rows[None, :])
    assert (again.psi[0] == memo.psi).all() and (again.total[0] == memo.total).all()


def test_plans_are_kept_while_all_rows_are_within_their_factors() -> None:
    trigger = armed()
    assert not due(trigger)
    assert not due(trigger, delta=390.0)
    assert not due(trigger, window=1_990.0)
    assert not due(trigger, joined=19.0)


@pytest.mark.parametrize("change", [{"delta": 410.0}, {"window": 2_010.0}, {"window": 490.0}, {"joined": 21.0}, {"joined": 4.9}])
def test_a_count_beyond_its_factor_makes_a_choice_due(change: dict[str, float]) -> None:
    assert due(armed(), **change)


def test_few_rows_are_not_significant() -> None:
    trigger = ReoptimizationTrigger()
    for _ in range(2):
        trigger.chosen({"d": replace(basis(), joins={EDGE: (0.1, 1.25)})})
    assert not due(trigger, joined=0.3)
    assert due(trigger, joined=0.5)


def test_a_plan_without_rows_is_kept() -> None:
    assert not due(armed(), delta=0.0, window=1.0)


def test_a_first_or_changed_plan_is_chosen_again() -> None:
    trigger = ReoptimizationTrigger()
    assert due(trigger)
    trigger.chosen({"d": basis()})
    assert due(trigger)
    trigger.chosen({"d": basis()})
    assert not due(trigger)
    trigger.chosen({"d": basis("d » v » w")})
    assert due(trigger)


def test_rows_of_operators_are_compared_with_what_was_observed_if_the_plan_stays() -> None:
    trigger = armed()
    trigger.observe("d", 100.0, [100, 1_400])
    assert not due(trigger)
    trigger.observe("d", 100.0, [100, 1_600])
    assert due(trigger)
    trigger.chosen({"d": basis()})
    trigger.observe("d", 100.0, [100, 1_700])
    assert not due(trigger)
    trigger.observe("d", 100.0, [100, 1_000])
    assert due(trigger)


def test_plans_that_have_cost_a_multiple_of_a_choice_are_chosen_again() -> None:
    trigger = armed()
    trigger.spend(EXECUTION_PER_CHOICE * SECONDS * 2 * 0.9)
    assert not due(trigger)
    trigger.spend(EXECUTION_PER_CHOICE * SECONDS * 2 * 0.2)
    assert due(trigger)


@pytest.mark.parametrize("observed", [False, True])
def test_a_restart_goes_on(observed: bool) -> None:
    trigger, again = armed(), ReoptimizationTrigger()
    trigger.spend(0.01)
    if observed:
        trigger.observe("d", 100.0, [100, 9_000])
    again.resume(json.loads(json.dumps(trigger.state())))
    assert json.dumps(again.state()) == json.dumps(trigger.state())
    assert due(again) == observed
    assert again.share("d", 50.0) == 0.5
