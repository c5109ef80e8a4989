"""What does the joins of a plan: for given rows, tasks and memory, and against all ways by brute force."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqels_opt.plans import parse_plan
from cqels_opt.plans.cost import Constants
from cqels_opt.plans.join_methods import (
    BROADCAST,
    CHOSEN_FROM,
    LOOP,
    METHODS,
    PARTITIONED,
    REPLICATED,
    SHUFFLE_HASH,
    SORT_MERGE,
    JoinInputs,
    JoinMethod,
    Machine,
    PhysicalCostModel,
    RelationPlacement,
)
from cqels_opt.plans.physical import GAIN, PhysicalPlan, physical, size
from cqels_opt.plans.plan import Join, Plan, Probe, Scan, operators, relations

PROBES = "d » a[?x] » b[?y] » c[?z]"
BUSHY = "d » a[?x] » (b » c[?z])[?y]"
M = 1_000_000
ALIKE = JoinInputs("probe", "a", 1e6, 1e6, 1e6)


def chosen(
    text: str,
    rows: list[float],
    machine: Machine,
    held: dict[str, RelationPlacement] | None = None,
    tasks: int | None = None,
    allowed: tuple[JoinMethod, ...] = CHOSEN_FROM,
) -> PhysicalPlan:
    """The operators of a plan whose own operators give these rows."""
    plan = parse_plan(text)
    known = held or {name: RelationPlacement(M, 2) for name in relations(plan)}
    prices = PhysicalCostModel(machine, tasks or machine.slots, relations=known)
    return physical(plan, operators(plan), rows, prices, allowed)


def bytes_of(known: dict[str, RelationPlacement]) -> float:
    return sum(relation.bytes for relation in known.values())


@pytest.mark.parametrize("delta", [100, 10_000, M, 100 * M])
def test_probes_into_indexes_that_fit_stay_one_stage(delta: float) -> None:
    """Two slots: nothing that goes through a shuffle is cheaper than looking rows up where they are."""
    assert chosen(PROBES, [delta] * 4, Machine(2)).by == (None, *[REPLICATED] * 3)


def test_an_index_that_does_not_fit_is_shared_out_once_the_delta_is_large() -> None:
    large = {
        "a": RelationPlacement(100 * M, 2),
        "b": RelationPlacement(1_000, 2),
        "c": RelationPlacement(1_000, 2),
        "d": RelationPlacement(M, 2),
    }
    machine = Machine(slots=8, executors=4, memory=bytes_of(large) / 2)
    few, many = (chosen(PROBES, [rows] * 4, machine, large).by for rows in (100, M))
    assert few == (None, *[REPLICATED] * 3)
    assert many == (None, PARTITIONED, REPLICATED, REPLICATED)


def test_memory_for_all_of_them_together_brings_the_one_stage_back() -> None:
    large = {name: RelationPlacement(100 * M, 2) for name in "abcd"}
    assert chosen(PROBES, [M] * 4, Machine(8, 4, bytes_of(large)), large).fused
    assert not chosen(PROBES, [M] * 4, Machine(8, 4, bytes_of(large) / 2), large).fused


def test_a_large_bushy_part_is_joined_by_spark_where_many_tasks_would_each_build_it() -> None:
    rows = [10.0 * M, 10.0 * M, 30.0 * M, 30.0 * M, 10.0 * M]
    assert chosen(BUSHY, rows, Machine(2)).fused
    wide = chosen(BUSHY, rows, Machine(100))
    assert wide.by[:2] == (None, REPLICATED)
    assert wide.by[-1] == SHUFFLE_HASH
    assert chosen(BUSHY, [row / 1000 for row in rows], Machine(100)).fused


def test_probes_before_and_after_one_join_by_spark() -> None:
    rows = [10.0 * M, 10.0 * M, 30.0 * M, 30.0 * M, 10.0 * M, 10.0 * M]
    found = chosen(f"{BUSHY} » e[?w]", rows, Machine(100)).by
    assert (found[1], found[4], found[5]) == (REPLICATED, SHUFFLE_HASH, REPLICATED)


def test_sides_too_alike_to_hash_are_merged_where_sorting_is_cheap() -> None:
    prices = PhysicalCostModel(Machine(100), 100)
    assert SHUFFLE_HASH.cost(ALIKE, prices) < SORT_MERGE.cost(ALIKE, prices)


def test_a_broadcast_is_never_chosen_but_can_be_asked_for() -> None:
    free = PhysicalCostModel(
        Machine(2), 2, Constants(broadcast=0.0, job=0.0, stage=10.0, probe=1e-5), relations={"a": RelationPlacement(10, 1)}
    )
    join = JoinInputs("probe", "a", M, 10, M)
    assert BROADCAST.cost(join, free) < REPLICATED.cost(join, free)
    plan = parse_plan("d » a[?x]")
    way = physical(plan, operators(plan), [M, M], free)
    assert way.by == (None, REPLICATED)
    assert chosen(PROBES, [100] * 4, Machine(2), allowed=(BROADCAST,)).by == (None, *[BROADCAST] * 3)


@pytest.mark.parametrize("by", METHODS)
def test_one_way_does_all_that_it_can(by: JoinMethod) -> None:
    found = chosen("d » a[?x] » k[] » (b » c[?z])[?y]", [10.0] * 6, Machine(4), allowed=(by,))
    spark = by in (SHUFFLE_HASH, SORT_MERGE, BROADCAST)
    first = REPLICATED if by == LOOP else by
    assert found.by[:3] == (None, first, LOOP)
    assert found.by[-1] is (by if spark else REPLICATED)


ROWS = st.sampled_from([10.0, 10_000.0, 10.0 * M])
MEMORY = st.sampled_from([None, 1e6, 1e9])


@pytest.mark.long
@given(st.lists(ROWS, min_size=6, max_size=6), st.sampled_from([1, 2, 64]), st.sampled_from([1, 8]), MEMORY, ROWS)
def test_no_way_is_cheaper(rows: list[float], tasks: int, executors: int, memory: float | None, held: float) -> None:
    plan = parse_plan(f"{BUSHY} » e[?w]")
    known = {name: RelationPlacement(held, 2) for name in relations(plan)}
    prices = PhysicalCostModel(Machine(tasks, executors, memory), tasks, relations=known)
    found = physical(plan, operators(plan), rows, prices)
    ways = dict(every(plan, rows, prices))
    plain = ways[None, REPLICATED, None, REPLICATED, REPLICATED, REPLICATED]
    assert found.cost == pytest.approx(ways[found.by])
    least = min(ways.values())
    assert found.cost == pytest.approx(least if least < plain * (1 - GAIN) else plain)


def every(plan: Plan, rows: list[float], prices: PhysicalCostModel) -> list[tuple[tuple[JoinMethod | None, ...], float]]:
    """All ways, each priced on its own: operators by lot, rows moved when they must be."""
    steps = operators(plan)
    some = [[None] if step.op == "scan" else list(CHOSEN_FROM) for step in steps]
    found = []
    for by in product(*some):
        cost = priced(plan, 0, by, rows, prices)
        if cost is not None:
            seconds, place = cost
            back = prices.joins.hop + prices.moved(rows[-1]) if place == "spark" else 0.0
            found.append((by, seconds + back))
    return found


def priced(
    plan: Plan, at: int, by: tuple[JoinMethod | None, ...], rows: list[float], prices: PhysicalCostModel
) -> tuple[float, str] | None:
    """What a part costs, and where its rows are."""
    c = prices.constants
    if isinstance(plan, Scan):
        return rows[at] * c.scan / prices.tasks, "python"
    middle, place = at + size(plan.input), at + size(plan) - 1
    left = priced(plan.input, at, by, rows, prices)
    if left is None:
        return None
    seconds, there = left
    before, after = rows[middle - 1], rows[place]
    if by[place] == REPLICATED:
        if there == "spark":
            seconds += prices.joins.hop + prices.moved(before)
        if isinstance(plan, Probe):
            return seconds + prices.probe(before, plan.relation, after), "python"
        if any(b not in (None, REPLICATED) for b in by[middle:place]):
            return None  # a part that every task makes for itself is made in the task
        built = priced(plan.build, middle, by, rows, replace(prices, tasks=1))
        assert built is not None
        return seconds + built[0] + prices.held(before, rows[place - 1], after), "python"
    if there == "python":
        seconds += prices.moved(before)
    if by[place] == PARTITIONED:
        if isinstance(plan, Join):
            return None
        return seconds + PARTITIONED.cost(JoinInputs("probe", plan.relation, before, 0.0, after), prices), "python"
    if isinstance(plan, Probe):
        right = prices.rows(plan.relation)
        seconds += right * c.scan / prices.tasks + prices.moved(right)
    else:
        right = rows[place - 1]
        other = priced(plan.build, middle, by, rows, prices)
        if other is None:
            return None
        seconds += other[0] + (prices.moved(right) if other[1] == "python" else 0.0)
    spark = by[place]
    assert spark is not None
    return seconds + spark.cost(JoinInputs("hash", None, before, right, after), prices), "spark"
