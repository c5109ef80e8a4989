"""When thinking longer about a plan is due: what it takes stays a small share of what the plans are estimated to cost."""

from __future__ import annotations

from collections.abc import Mapping

EXECUTION_PER_PLANNING = 16.0
"""Plans must cost so many times what thinking takes before it is done again: it may take a sixteenth of the time."""


class ReoptimizationBudget:
    """How much the plans of each delta source were estimated to cost since they were last thought about; nothing where they never were.

    The first time is due where a plan costs as much as thinking takes, as no other could save more.
    """

    def __init__(self) -> None:
        self.since: dict[str, float] = {}

    def due(self, source: str, cost: float, takes: float) -> bool:
        """Whether it is due for a batch whose plan costs ``cost``, in the unit of ``takes``; it counts as done then."""
        if source not in self.since:
            due = cost >= takes
        else:
            self.since[source] += cost
            due = self.since[source] >= EXECUTION_PER_PLANNING * takes
        if due:
            self.since[source] = 0.0
        return due

    def reset_budget(self, source: str) -> None:
        """What was known of a source has proved wrong: the next time is as the first."""
        self.since.pop(source, None)

    def resume(self, since: Mapping[str, float]) -> None:
        """Goes on from what an earlier run had as :attr:`since`."""
        self.since = dict(since)
