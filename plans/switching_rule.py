"""When another plan is worth a switch: it must save enough, in one batch or over several.

Savings are shares of the cheapest plan's cost. Where that is large, the part of it that every plan has does not count: all plans write
the same answers, and if many are expected, a plan that wastes seconds in the joins before the last one would be a tie.
"""

from __future__ import annotations

from cqels_opt.plans import plan_extraction
from cqels_opt.plans.cost_models.seconds import SecondsCost
from cqels_opt.plans.memo import Memo

NEAR_TIE = 0.05
"""The current plan is kept while no other one saves more than this share."""

WORTH = 0.1
"""A switch must save this share, in one batch or added up over successive ones.

Estimates of one batch are noisy. A small saving is worth a switch if it lasts (CUSUM, Page 1954).
"""

LARGE = 0.2
"""Seconds: of cheaper plans, savings are shares of the whole cost."""


def compared_cost(memo: Memo, source: str) -> float:
    """What savings are shares of: the cost of the cheapest plan, or the part of it in which plans differ, if it is large.

    Every plan ends with a join that gives the answers, so all cost at least as much as the cheapest one of these joins. Only a plan of
    the project's own operators costs nothing to begin; Spark compiles code for a new one.
    """
    least = plan_extraction.cheapest_cost(memo, source)
    if not isinstance(memo.model, SecondsCost) or least <= LARGE:
        return least
    return max(LARGE, least - memo.cheapest_join(memo.root(source)))


def greatest_kept(memo: Memo, source: str) -> float:
    """The greatest cost of a current plan that is a near tie of the cheapest one, and is kept."""
    return plan_extraction.cheapest_cost(memo, source) + NEAR_TIE * compared_cost(memo, source)


class SwitchingRule:
    """For each delta source, what the cheapest plans of the last batches would have saved, added up as shares."""

    def __init__(self) -> None:
        self.saved: dict[str, float] = {}

    def is_due(self, source: str, saving: float, compared: float) -> bool:
        """Whether a plan that saves this is worth a switch from the current one; to be asked once per batch. ``compared`` is the
        :func:`compared_cost`."""
        if saving <= compared * NEAR_TIE:
            self.saved[source] = 0.0
            return False
        self.saved[source] = self.saved.get(source, 0.0) + saving / (compared or saving)
        if self.saved[source] <= WORTH:
            return False
        self.saved[source] = 0.0
        return True
