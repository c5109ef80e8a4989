"""Designs: every step from one to another, and when a step is taken."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.plans import KnownStatistics, Optimizer, QueryGraph, RelationNode, parse_plan
from cqels_opt.plans.plan_extraction import cheapest_cost
from cqels_opt.plans.view_selection import MARGIN, PATIENCE, Design, ViewBenefits, design_of, neighbours, suggested

CHAIN = [0b0010, 0b0101, 0b1010, 0b0100]
APART: Design = (1, 2, 4, 8)


def test_the_neighbours_of_a_chain() -> None:
    assert set(neighbours(APART, CHAIN)) == {(3, 4, 8), (1, 6, 8), (1, 2, 12)}
    assert set(neighbours((1, 14), CHAIN)) == {(15,), APART, (1, 2, 12), (1, 6, 8)}, "what is left of a group is connected"


@given(st.integers(1, 6), st.integers(0, 1 << 15))
def test_designs_are_partitions_into_connected_groups_and_lead_to_each_other(parts: int, edges: int) -> None:
    pairs = [(i, j) for i in range(parts) for j in range(i)]
    linked = [pair for place, pair in enumerate(pairs) if edges >> place & 1]
    adjacent = [sum(1 << (a + b - i) for a, b in linked if i in (a, b)) for i in range(parts)]
    design = design_of([1 << i for i in range(parts)])
    rng = random.Random(edges)
    for _ in range(6):
        found = neighbours(design, adjacent)
        assert len(set(found)) == len(found)
        assert design not in found
        for other in found:
            assert sum(other) == (1 << parts) - 1 and sum(group.bit_count() for group in other) == parts
            assert list(other) == sorted(other)
            assert all(connected(group, linked) for group in other)
        design = rng.choice(found) if found else design


def connected(group: int, linked: list[tuple[int, int]]) -> bool:
    """By colouring."""
    colour = {i: i for i in range(group.bit_length()) if group >> i & 1}
    for _ in colour:
        for a, b in linked:
            if a in colour and b in colour:
                colour[a] = colour[b] = min(colour[a], colour[b])
    return len(set(colour.values())) == 1


# ------------------------------------------------------------------ when one is taken
def test_a_design_is_taken_when_it_has_paid_for_itself() -> None:
    """It saves half of a cost of 1 a batch, less the margin, and takes 3 to build: due after (3 + patience) / 0.4 batches."""
    ledger, half = ViewBenefits(), (3, 4)
    batches = 0
    while ledger.due({half: 3.0}, 1.0) is None:
        ledger.record(half, 0.5, 1.0)
        batches += 1
    assert ledger.due({half: 3.0}, 1.0) == half
    assert batches == int((3 + PATIENCE) / (0.5 - MARGIN)) + 1


def test_near_ties_and_changing_luck_take_nothing() -> None:
    ledger, other = ViewBenefits(), (3, 4)
    for batch in range(200):
        ledger.record(other, 0.95 if batch % 2 else 0.91, 1.0)
        assert ledger.due({other: 0.0}, 1.0) is None
    for batch in range(200):
        ledger.record(other, 0.2 if batch % 3 else 3.0, 1.0)
        assert ledger.due({other: 0.0}, 1.0) is None
    assert ledger.saved[other] >= 0


def test_one_that_was_taken_and_left_must_show_twice_as_much() -> None:
    def batches(ledger: ViewBenefits) -> int:
        for batch in range(1, 100):
            ledger.record((3, 4), 0.4, 1.0)
            if ledger.due({(3, 4): 0.0}, 1.0):
                return batch
        raise AssertionError("never due")

    ledger = ViewBenefits()
    waited = []
    for _ in range(3):
        waited.append(batches(ledger))
        ledger.take((3, 4))
        assert not ledger.saved
    assert waited == [5, 9, 17]


def test_the_best_of_several_is_taken() -> None:
    ledger = ViewBenefits()
    for design, cost in (((3, 4), 0.5), ((1, 6), 0.1), ((7,), 0.05)):
        ledger.record(design, cost, 1.0, batches=10)
    assert ledger.due({(3, 4): 0.0, (1, 6): 1.0, (7,): 5.0}, 1.0) == (1, 6)
    assert ledger.due({(7,): 50.0}, 1.0) is None


# ------------------------------------------------------------------ prices, and observed rows
def optimizer(**options: bool) -> Optimizer:
    relations = [RelationNode(n, frozenset(x), n == "d") for n, x in (("d", "x"), ("r", "xy"), ("s", "yz"))]
    return Optimizer(QueryGraph(relations), ["d"], **options)


KNOWN = KnownStatistics({"d": 50, "r": 1000, "s": 5000}, {("d", "r", "x"): 200, ("r", "s", "y"): 40_000})


def test_a_price_is_the_cost_of_the_plan_that_would_be_chosen() -> None:
    priced, chosen = optimizer(), optimizer()
    assert priced.price({"d": KNOWN}) == chosen.choose({"d": KNOWN})["d"].cost
    assert not priced.current


def test_what_was_learnt_elsewhere_prices_as_if_it_had_been_observed_here() -> None:
    one, other = optimizer(feedback=True), optimizer(feedback=True)
    choice = one.choose({"d": KNOWN})["d"]
    seen = [50.0, 200.0, 90_000.0]
    one.observe("d", seen)
    observed = one.observed_cardinalities("d")
    assert observed == {step.covers: pytest.approx(rows) for step, rows in zip(choice.operators, seen)}
    price = other.price({"d": KNOWN}, {"d": observed})
    again = one.choose({"d": KNOWN})["d"]
    assert price == pytest.approx(cheapest_cost(one.memo, "d"))
    other.seed_feedback({"d": observed})
    assert other.choose({"d": KNOWN})["d"].estimated == pytest.approx(again.estimated)
    assert other.price({"d": KNOWN}) == pytest.approx(optimizer().price({"d": KNOWN})), "without it, as the statistics say"


def test_what_a_plan_joins_with_every_batch_is_suggested() -> None:
    """The bushy part as a whole, what is in it, and what follows on it along the spine; never across a stream or what is not connected."""
    groups = {"a": 1, "b": 2, "c": 4, "d": 8}
    plan = parse_plan("u » a[?x] » (c » b[?y])[?z]")
    assert set(suggested((1, 2, 4, 8), plan, groups, CHAIN)) == {(1, 6, 8), (7, 8)}
    plan = parse_plan("u » a[?x] » v[?x] » b[?y] » c[?z] » d[?w]")
    assert set(suggested((1, 2, 4, 8), plan, groups, CHAIN)) == {(1, 6, 8), (1, 2, 12), (1, 14)}
    assert not suggested((1, 2, 4, 8), parse_plan("u » a[?x] » c[] » v[?x] » (w » b[?y])[?z] » d[]"), groups, CHAIN)
    assert suggested((3, 4, 8), parse_plan("u » ab[?x] » c[?y] » d[?z]"), {"ab": 3, "c": 4, "d": 8}, CHAIN) == [
        (7, 8),
        (15,),
        (3, 12),
    ]
