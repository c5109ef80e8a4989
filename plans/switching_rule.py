"""When another plan is worth a switch: it must save enough, in one batch or over several."""

from __future__ import annotations

NEAR_TIE = 0.05
"""The current plan is kept while no other one saves more than this share of its own cost."""

WORTH = 0.1
"""A switch must save this share of the cheapest plan's cost, in one batch or added up over successive ones.

Estimates of one batch are noisy. A small saving is worth a switch if it lasts (CUSUM, Page 1954).
"""


class SwitchingRule:
    """For each delta source, what the cheapest plans of the last batches would have saved, added up as shares of their costs."""

    def __init__(self) -> None:
        self.saved: dict[str, float] = {}

    def is_due(self, source: str, cost: float, least: float) -> bool:
        """Whether the plan that costs ``least`` is worth a switch from the current one; to be asked once per batch."""
        saving = cost - least
        if saving <= least * NEAR_TIE:
            self.saved[source] = 0.0
            return False
        self.saved[source] = self.saved.get(source, 0.0) + saving / (least or saving)
        if self.saved[source] <= WORTH:
            return False
        self.saved[source] = 0.0
        return True
