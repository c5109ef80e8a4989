"""Re-optimization takes a fiftieth of what plans cost."""

import pytest

from cqels_opt.plans.reoptimization_budget import EXECUTION_PER_PLANNING, RAREST, ReoptimizationBudget


@pytest.mark.parametrize(("cost", "every"), [(100.0, 1), (50.0, 1), (25.0, 2), (6.25, 8)])
def test_it_is_due_as_often_as_plans_cost_enough(cost: float, every: int) -> None:
    pace = ReoptimizationBudget()
    assert pace.due("s", cost, 1.0)
    assert [pace.due("s", cost, 1.0) for _ in range(24)] == [number % every == every - 1 for number in range(24)]


def test_the_first_time_a_plan_must_cost_as_much_as_thinking_takes() -> None:
    pace = ReoptimizationBudget()
    assert not any(pace.due("s", 0.9, 1.0) for _ in range(100))
    assert pace.due("s", 1.0, 1.0)


def test_what_takes_nothing_is_always_due() -> None:
    pace = ReoptimizationBudget()
    assert all(pace.due("s", 0.0, 0.0) for _ in range(3))


def test_a_surprise_makes_it_the_first_time_again() -> None:
    pace = ReoptimizationBudget()
    assert pace.due("s", 2.0, 1.0)
    assert not pace.due("s", 2.0, 1.0)
    pace.reset_budget("s")
    pace.reset_budget("never seen")
    assert pace.due("s", 2.0, 1.0)


def test_what_is_confirmed_becomes_rarer_until_something_changes() -> None:
    pace, every = ReoptimizationBudget(), list[int]()
    for _ in range(RAREST + 2):
        waits = 1
        while not pace.due("s", EXECUTION_PER_PLANNING, 1.0):
            waits += 1
        every.append(waits)
        pace.note("s", True)
    assert every == [1, *(2**n for n in range(1, RAREST + 1)), 2**RAREST]
    pace.note("s", False)  # another plan
    assert pace.due("s", EXECUTION_PER_PLANNING, 1.0)
    pace.note("s", True)
    pace.reset_budget("s")  # a surprise
    assert pace.due("s", 1.0, 1.0) and pace.due("s", EXECUTION_PER_PLANNING, 1.0)


def test_sources_have_a_pace_each_and_a_restart_goes_on_with_it() -> None:
    pace, other = ReoptimizationBudget(), ReoptimizationBudget()
    pace.due("s", 2.0, 1.0)
    pace.due("s", (EXECUTION_PER_PLANNING - 2) * 1.0, 1.0)
    other.resume(pace.since, pace.confirmations)
    assert other.due("t", 1.0, 1.0)
    assert not pace.due("s", 1.0, 1.0) and not other.due("s", 1.0, 1.0)
    assert pace.due("s", 1.0, 1.0) and other.due("s", 1.0, 1.0)
