"""The limits on the rows of a plan's operators, and what a stopped delta shows of them."""

from __future__ import annotations

from math import inf

import pytest

from cqels_opt.bench.shapes import chain
from cqels_opt.operators.row_limit import StoppedDelta
from cqels_opt.planner.row_limits import FEWEST, TIMES, limits_of, rows_seen
from cqels_opt.plans import KnownStatistics, Optimizer, parse_plan

SIZES = {("r0", "r1", "x1"): 50_000.0, ("r1", "r2", "x2"): 2_000.0, ("r2", "r3", "x3"): 1_000.0}
KNOWN = KnownStatistics({f"r{i}": 1_000.0 for i in range(4)}, SIZES)


def test_only_operators_that_other_plans_can_avoid_have_limits() -> None:
    choice = Optimizer(chain(4), ["r0"], mode={"r0": parse_plan("r0 » r1[?x1] » r2[?x2] » r3[?x3]")}).choose({"r0": KNOWN})["r0"]
    limits = limits_of(choice)
    assert limits is not None
    assert limits[0] == inf, "the scan of the delta"
    assert limits[1] == pytest.approx(TIMES * 50_000)
    assert limits[2] == pytest.approx(max(FEWEST, TIMES * choice.estimated[2]))
    assert limits[3] == inf, "the join of all relations"


def test_small_operators_have_the_least_limit() -> None:
    choice = Optimizer(chain(4), ["r0"]).choose({"r0": KnownStatistics(dict.fromkeys(("r0", "r1", "r2", "r3"), 2.0))})["r0"]
    assert set(limits_of(choice) or ()) == {inf, FEWEST}


def test_a_plan_without_an_alternative_has_no_limits() -> None:
    choice = Optimizer(chain(2), ["r0"]).choose({"r0": KnownStatistics({"r0": 5.0, "r1": 5.0})})["r0"]
    assert choice.runner_up is None
    assert limits_of(choice) is None


def test_a_stopped_delta_shows_what_was_finished_and_what_was_more_than_expected() -> None:
    stopped = StoppedDelta("b", "r0", 3, 70_000.0, (10, 500, 20, 1_024, 0), (True, False, False, False, False))
    assert rows_seen(stopped, [1_000.0, 30.0, 80.0, 5.0, 9.0]) == [10.0, 500.0, None, 70_000.0, None]
