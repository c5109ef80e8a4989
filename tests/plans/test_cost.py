"""The model in seconds: what its constants decide."""

from __future__ import annotations

import numpy as np
import pytest

from cqels_opt.plans import Constants, JoinOperator, SecondsCost
from cqels_opt.plans.cost import Shuffled
from cqels_opt.plans.join_methods import REPLICATED, JoinInputs, Machine, PhysicalCostModel, RelationPlacement

DEFAULTS = Constants()
LEFT, RIGHT, PRODUCED, NONE = (np.array([x]) for x in (1000.0, 4096.0, 500.0, 0.0))


def join(operator: JoinOperator, shuffled: Shuffled = "nothing", constants: Constants = DEFAULTS) -> float:
    return float(SecondsCost(constants, shuffled).join(operator, LEFT, RIGHT, PRODUCED, NONE)[0])


@pytest.mark.parametrize(
    ("operator", "shuffled", "rows"),
    [
        (JoinOperator.PROBE, "left", 1000),
        (JoinOperator.PROBE, "both", 5096),
        (JoinOperator.HASH, "left", 5096),  # of a bushy part both sides must meet
        (JoinOperator.HASH, "both", 5096),
        (JoinOperator.LOOP, "both", 0),
    ],
)
def test_rows_that_are_shuffled_cost_that_much_more(operator: JoinOperator, shuffled: Shuffled, rows: int) -> None:
    assert join(operator, shuffled) - join(operator) == pytest.approx(rows * Constants().shuffle)


@pytest.mark.parametrize("name", ["operator", "probe", "step", "produce"])
def test_a_dearer_unit_makes_a_probe_dearer(name: str) -> None:
    assert join(JoinOperator.PROBE, constants=Constants(**{name: 1.0})) > 1.0


def test_a_probe_has_one_price() -> None:
    """The search of the join order and the choice of the join method use the same formula."""
    prices = PhysicalCostModel(Machine(), 1, relations={"a": RelationPlacement(4096.0, 2)})
    probe = REPLICATED.cost(JoinInputs("probe", "a", 1000.0, 4096.0, 500.0), prices)
    assert probe == pytest.approx(join(JoinOperator.PROBE))
    assert DEFAULTS.look_up(RIGHT) == pytest.approx(DEFAULTS.look_up(4096.0))


def test_work_is_shared_where_that_saves_more_than_the_stage_it_adds() -> None:
    constants = Constants(stage=0.3)
    assert [constants.shares(seconds, 4) for seconds in (0.0, 0.39, 0.41, 100.0)] == [1, 1, 4, 4]
    assert constants.shares(1e9, 1) == 1
