"""Statistics are read again once plans have cost more than reading them, or where estimates were false; rows of relations always are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf

import pytest

from cqels_opt.bench.shapes import relation
from cqels_opt.plans import KnownStatistics, Optimizer, QueryGraph
from cqels_opt.plans.plan import operators
from cqels_opt.plans.plan_choice import PlanChoice
from cqels_opt.plans.plan_text import parse_plan
from cqels_opt.plans.relation_set import RelationSet
from cqels_opt.plans.reoptimization_budget import (
    EXECUTION_PER_READING,
    EXECUTION_PER_SURPRISE,
    MOST_DOUBLINGS,
    ROW_SECONDS,
    WINDOW_JOIN_FACTOR,
    Reading,
    ReadingBudget,
)
from cqels_opt.plans.size_bounds import SizeBounds

GRAPH = QueryGraph([relation("s", "x y", True), relation("a", "x u"), relation("b", "y v")])
SIZES = {("s", "a", "x"): 500.0, ("s", "b", "y"): 900.0}


@dataclass(frozen=True)
class Counted(KnownStatistics):
    """Counts how often join sizes are read."""

    reads: list[tuple[str, str, str]] = field(default_factory=list)

    def join_size(self, left: str, right: str, variable: str) -> float | None:
        self.reads.append((left, right, variable))
        return super().join_size(left, right, variable)


def counted(rows: float = 100.0, x: float = 80.0, **sizes: float) -> Counted:
    """The delta has ``rows``, and ``x`` values of the variable on which it is joined with ``a``."""
    joins = {key: sizes.get(key[1], size) for key, size in SIZES.items()}
    return Counted({"s": rows, "a": 1e4, "b": 1e4}, joins, {("s", "x"): x})


class Run:
    """An optimizer whose reading costs ``share`` of the first plan."""

    def __init__(self, share: float) -> None:
        self.optimizer = Optimizer(GRAPH, ["s"], feedback=True)
        first = Optimizer(GRAPH, ["s"]).choose({"s": counted()})["s"]
        self.seconds = share * first.cost / len(GRAPH.edges)

    def batch(self, statistics: Counted, factor: float = 1.0, bounds: SizeBounds | None = None) -> PlanChoice:
        """A batch whose last operator gives ``factor`` times the estimate."""
        choice = self.optimizer.choose({"s": statistics}, bounds=lambda _: bounds, reading_seconds=self.seconds)["s"]
        self.optimizer.observe("s", [*choice.estimated[:-1], choice.estimated[-1] * factor])
        return choice


def read_in(run: Run, batches: int, statistics: Counted) -> list[int]:
    """The batches in which statistics were read."""
    found, before = [], len(statistics.reads)
    for number in range(batches):
        run.batch(statistics)
        if len(statistics.reads) > before:
            found.append(number)
        before = len(statistics.reads)
    return found


@pytest.mark.parametrize("batches", (1, 2, 5))
def test_statistics_are_read_once_plans_have_cost_a_multiple_of_reading_that_doubles(batches: int) -> None:
    """Each reading that confirms the plan doubles it, up to a limit."""
    run = Run(share=batches / EXECUTION_PER_READING - 1e-9)
    gaps = [*(2**n for n in range(MOST_DOUBLINGS + 1)), *[2**MOST_DOUBLINGS] * 2]
    at = [batches * sum(gaps[:n]) for n in range(len(gaps))]
    assert read_in(run, at[-1] + 1, counted()) == at


@pytest.mark.parametrize("change", ("rows", "values", "estimates"))
def test_after_a_change_the_multiple_is_small_again(change: str) -> None:
    run, statistics = Run(share=1.0 - 1e-9), counted(x=200.0)
    assert read_in(run, 31, statistics) == [0, 2, 6, 14, 30]
    if change == "estimates":
        run.batch(statistics, factor=0.01)
    other = counted(250.0 if change == "rows" else 100.0, x=50.0 if change == "values" else 200.0)
    assert read_in(run, 1, other) == [0]
    reading = run.optimizer.state()["s"].reading
    assert isinstance(reading, Reading) and reading.multiple(False) == EXECUTION_PER_READING


def test_without_a_price_they_are_read_for_each_batch() -> None:
    run, statistics = Run(share=0.0), counted()
    for _ in range(5):
        run.batch(statistics)
    assert len(statistics.reads) == 5 * len(GRAPH.edges)


def test_until_then_estimates_follow_the_rows_and_keep_the_selectivities() -> None:
    run = Run(share=1e6)
    before = run.batch(counted())
    after = run.batch(unread := counted(rows=150.0))
    assert not unread.reads
    assert after.estimated == pytest.approx([1.5 * rows for rows in before.estimated])


def test_until_then_the_memo_is_priced_only_where_the_plans_are() -> None:
    run = Run(share=1e6)
    run.batch(counted())
    memo = run.optimizer.memo
    before, costs = run.optimizer.alternatives("s"), memo.total.copy()
    for rows in (110.0, 120.0, 130.0):
        run.batch(counted(rows=rows))
        assert run.optimizer.memo is memo and (memo.total == costs).all()
    assert [one.plan for one in run.optimizer.alternatives("s")] == [one.plan for one in before]
    assert (memo.total != costs).any(), "a list of all plans has their current costs"


def test_estimates_that_are_false_each_time_are_not_read_more_often_than_others() -> None:
    """The multiple rises to that of a reading without a surprise: statistics that change with each batch cannot be followed."""
    assert [Reading([], confirmations=-n).multiple(True) for n in (0, 1, 2, 3, 5_000)] == [
        EXECUTION_PER_SURPRISE * k for k in (1, 2, 4, 4, 4)
    ]


@pytest.mark.parametrize(("share", "batches"), ((0.9, 1), (1.9, 2)))
def test_after_rows_that_differ_from_the_estimate_a_smaller_multiple_is_enough(share: float, batches: int) -> None:
    run = Run(share=share / EXECUTION_PER_SURPRISE)
    unread = counted()
    for factor in (1.0,) * (batches - 1) + (0.01,):
        run.batch(unread, factor)
    run.batch(again := counted())
    assert len(unread.reads) == len(GRAPH.edges) and again.reads


def test_more_rows_than_expected_count_as_cost() -> None:
    run = Run(share=1e3)
    run.batch(counted())
    takes = run.seconds * len(GRAPH.edges)
    run.batch(unread := counted(), factor=1 + EXECUTION_PER_SURPRISE * takes / ROW_SECONDS)
    run.batch(again := counted())
    assert not unread.reads and again.reads


def test_surprises_of_a_cheap_plan_have_nothing_read() -> None:
    run = Run(share=1e6)
    run.batch(counted())
    for _ in range(10):
        run.batch(statistics := counted(), factor=0.01)
        assert not statistics.reads


@pytest.mark.parametrize(
    ("rows", "share", "reads"), ((40.0, 1.3, True), (40.0, 1.5, False), (250.0, 3.4, True), (250.0, 3.6, False))
)
def test_far_more_or_fewer_rows_count_as_false_estimates_and_the_plan_to_come_as_cost(
    rows: float, share: float, reads: bool
) -> None:
    run = Run(share=share / EXECUTION_PER_SURPRISE)
    run.batch(counted())
    run.batch(other := counted(rows=rows))
    assert bool(other.reads) == reads


def test_few_rows_are_not_many_times_fewer() -> None:
    """From 2 rows to 66 is twice, because numbers below 32 are not significant."""
    run = Run(share=1e3)
    run.batch(counted(rows=2.0))
    run.batch(other := counted(rows=66.0))
    assert not other.reads


@pytest.mark.parametrize("is_false", [False, True])
def test_the_reading_after_a_switch_is_early_and_confirms_unless_an_estimate_was_false(is_false: bool) -> None:
    """Plans of about the same cost take turns, though nothing changes."""
    budget, rows, values = ReadingBudget(2), [100.0, 1e4], [80.0]
    for _ in range(4):
        budget.read("s", rows, values)
    budget.spend("s", 1.0, switched=False)
    assert not budget.due(1.0, {"s": rows}, {"s": values})
    budget.spend("s", 1.0, switched=True)
    assert budget.due(1.0, {"s": rows}, {"s": values})
    if is_false:
        budget.observe("s", [(100.0, 1000.0)])
    budget.read("s", rows, values)
    assert budget.last["s"].confirmations == (-1 if is_false else 4)


def test_a_burst_has_them_read_at_once() -> None:
    run = Run(share=1e3)
    run.batch(counted())
    run.batch(other := counted(rows=1e5))
    assert other.reads


def test_a_delta_that_is_stopped_has_them_read_for_its_next_plan() -> None:
    run = Run(share=1e6)
    run.batch(counted())
    stopped, now = run.optimizer.choose({"s": counted()}, reading_seconds=run.seconds)["s"], counted(a=9_000.0)
    assert str(stopped.plan).startswith("s » a")
    again = run.optimizer.replan("s", stopped.plan, [100.0, 9_000.0, None], None, {"s": now})
    assert now.reads and str(again.plan).startswith("s » b")


def test_a_restart_keeps_what_was_read_and_what_plans_have_cost() -> None:
    run, restarted = Run(share=4 / EXECUTION_PER_READING - 1e-9), Run(share=4 / EXECUTION_PER_READING - 1e-9)
    for rows in (100.0, 110.0):
        run.batch(counted(rows))
    restarted.optimizer.resume(run.optimizer.state())
    for rows in (120.0, 130.0, 140.0, 150.0):
        one, other = counted(rows), counted(rows)
        assert run.batch(one).estimated == pytest.approx(restarted.batch(other).estimated)
        assert one.reads == other.reads


def test_a_slow_change_has_them_read_once_it_adds_up() -> None:
    """No batch has twice the rows of the batch before."""
    run, read = Run(share=1 / EXECUTION_PER_SURPRISE), []
    for rows in (100.0, 150.0, 190.0, 210.0, 390.0, 430.0):
        run.batch(statistics := counted(rows))
        read.append(bool(statistics.reads))
    assert read == [True, False, False, True, False, True]


def test_rows_that_become_known_have_them_read_at_once() -> None:
    run = Run(share=1e6)
    run.batch(replace(known := counted(), cardinalities={"s": 100.0, "a": 1e4}))
    run.batch(known)
    assert known.reads


class Bounds(SizeBounds):
    """One bound of the rows of the delta with ``a``; nothing else is known."""

    def __init__(self) -> None:
        """Reads no degrees."""

    def rows(self, relations: RelationSet) -> float:
        return 500.0 if relations == GRAPH.set_of(("s", "a")) else inf


def test_a_plan_that_its_bound_keeps_stays_where_bounds_are_not_read() -> None:
    """The estimate of the current plan is above its bound; without the bound the other plan would be cheaper."""
    run, grown = Run(share=1e6), {"a": 12_000.0, "b": 450.0}
    slow, run.seconds = run.seconds, 0.0
    first = run.batch(counted(), bounds=Bounds())
    kept = run.batch(counted(**grown), bounds=Bounds())
    without = Run(share=0.0)
    assert without.batch(counted()).plan == first.plan == kept.plan != without.batch(counted(**grown)).plan
    run.seconds = slow
    assert run.batch(unread := counted(**grown), bounds=Bounds()).plan == first.plan
    assert not unread.reads


def test_estimates_that_the_last_batch_confirmed_are_not_compared_with_bounds() -> None:
    asked: list[RelationSet] = []

    class Asked(Bounds):
        def rows(self, relations: RelationSet) -> float:
            asked.append(relations)
            return super().rows(relations)

    run, many = Run(share=0.0), {"a": 12_000.0, "b": 450.0}
    run.batch(counted(**many), bounds=Asked())
    asked.clear()
    run.batch(counted(**many), bounds=Asked())
    run.batch(counted(**many), bounds=Asked(), factor=0.1)
    assert not asked
    run.batch(counted(**many), bounds=Asked())
    assert asked, "an operator gave other rows than expected"


@pytest.mark.parametrize("observed", (None, "nothing", "all"))
def test_estimates_without_observed_rows_are_compared_with_bounds(observed: str | None) -> None:
    """A kept batch between two readings does not limit its estimates; only rows that operators gave confirm them."""
    plan = parse_plan("s » a[?x] » b[?y]")
    optimizer = Optimizer(GRAPH, ["s"], feedback=True, mode={"s": plan})
    for seconds in (0.0, 1e9, 0.0):
        known = {"s": counted(a=12_000.0, b=450.0)}
        choice = optimizer.choose(known, bounds=lambda _: Bounds(), reading_seconds=seconds)["s"]
        if observed is not None:
            rows = [100.0, 480.0, 40_000.0]
            optimizer.observe("s", rows if observed == "all" else [100.0, None, None])
    assert choice.estimated[1] <= 500.0


def test_a_stop_counts_as_a_reading_that_found_the_one_before_false() -> None:
    run = Run(share=1.0)
    assert read_in(run, 7, counted()) == [0, 2, 6]
    choice = run.optimizer.choose({"s": counted()}, reading_seconds=run.seconds)["s"]
    run.optimizer.replan("s", choice.plan, [100.0, 50_000.0, None], None, {"s": counted()})
    reading = run.optimizer.state()["s"].reading
    assert isinstance(reading, Reading) and reading.confirmations < 0


def test_a_switch_after_a_sample_has_a_reason_where_no_statistics_were_read() -> None:
    """The reason compares with what was estimated for the batch before."""
    optimizer = Optimizer(GRAPH, ["s"], feedback=True)
    for takes in (1e9, 1e9, 1e-9):
        known = {"s": counted()}
        choice = optimizer.choose(
            known, sampler=lambda _, plan: [None] * len(operators(plan)), sampling_seconds=takes, reading_seconds=1e9
        )["s"]
        optimizer.observe("s", [choice.estimated[0], 100 * choice.estimated[1], choice.estimated[2]])
    assert not known["s"].reads
    assert choice.switched and [reason.statistic for reason in choice.reason] == ["rows(s, a)"]


def test_what_a_checkpoint_says_does_not_change_by_resuming() -> None:
    run = Run(share=1e6)
    for rows in (100.0, 110.0):
        run.batch(counted(rows))
    restarted = Optimizer(GRAPH, ["s"], feedback=True)
    restarted.resume(run.optimizer.state())
    assert restarted.state()["s"].runner_up == run.optimizer.state()["s"].runner_up is not None
    assert restarted.state()["s"].confirmed == run.optimizer.state()["s"].confirmed != []


def test_without_rows_of_the_delta_nothing_is_read() -> None:
    """There is nothing to plan for, and the next rows are followed from the last reading."""
    run, read = Run(share=1e6), []
    for rows in (100.0, 0.0, 0.0, 150.0):
        choice = run.batch(statistics := counted(rows))
        read.append(bool(statistics.reads))
    assert read == [True, False, False, False]
    assert choice.estimated == pytest.approx(Run(share=0.0).batch(counted(150.0, a=750.0, b=1_350.0)).estimated)


def test_sources_are_read_together_once_their_plans_have_cost_enough_in_all() -> None:
    graph = QueryGraph([relation("s", "x y", True), relation("t", "y z", True), relation("a", "x u")])

    def known() -> Counted:
        sizes = {("s", "t", "y"): 500.0, ("s", "a", "x"): 900.0}
        return Counted({"s": 100.0, "t": 100.0, "a": 1e4}, sizes)

    first = Optimizer(graph, ["s", "t"]).choose({"s": known(), "t": known()})
    cost = sum(choice.cost for choice in first.values())
    optimizer, read = Optimizer(graph, ["s", "t"], feedback=True), []
    for _ in range(7):
        statistics = {"s": known(), "t": known()}
        seconds = 3 / EXECUTION_PER_READING * cost / (len(first) * (1 + WINDOW_JOIN_FACTOR)) - 1e-12  # s-a and s-t
        found = optimizer.choose(statistics, reading_seconds=seconds)
        for source, choice in found.items():
            optimizer.observe(source, choice.estimated)
        read.append([source for source, one in statistics.items() if one.reads])
    assert read == [["s", "t"], [], [], ["s", "t"], [], [], []]


def test_a_stop_counts_as_a_reading_and_its_other_plan_as_a_change() -> None:
    run = Run(share=0.9 / EXECUTION_PER_SURPRISE)
    run.batch(counted())
    stopped = run.optimizer.choose({"s": counted(190.0)}, reading_seconds=run.seconds)["s"]
    again = run.optimizer.replan("s", stopped.plan, [190.0, 9_000.0, None], None, {"s": counted(190.0, a=9_000.0)})
    assert again.plan != stopped.plan
    run.batch(other := counted(190.0, a=9_000.0))
    assert other.reads


def test_a_relation_that_had_no_rows_has_its_joins_read_once_it_has_some() -> None:
    """Sizes follow the rows of the last reading in proportion."""
    run, read = Run(share=1e6), []
    for rows in (0.0, 15.0, 0.0, 16.0):
        run.batch(statistics := replace(counted(), cardinalities={"s": 100.0, "a": rows, "b": 1e4}))
        read.append(bool(statistics.reads))
    assert read == [True, True, False, False]


@pytest.mark.parametrize("reading", (0.001, ([100.0, 1e4, 1e4], 0.001)))
def test_a_checkpoint_of_an_earlier_version_has_its_statistics_read(reading: float | tuple[list[float], float]) -> None:
    """It has what plans have cost since the last reading, and not the statistics at that time."""
    run, restarted = Run(share=1e6), Run(share=1e6)
    run.batch(counted())
    state = {source: known._replace(reading=reading) for source, known in run.optimizer.state().items()}
    restarted.optimizer.resume(state)
    restarted.batch(statistics := counted())
    assert statistics.reads
