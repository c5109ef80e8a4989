"""When re-optimization pays off: its time stays a small share of the estimated cost of the plans."""

from __future__ import annotations

from collections.abc import Mapping

EXECUTION_PER_PLANNING = 50.0
"""Plans must cost this multiple of a re-optimization before the next one: it may take a fiftieth of the time."""

SURPRISE = 2.0
"""Rows that differ from the estimate by more than this factor trigger a re-optimization at once."""

FEW = 32.0
"""Row counts below this number are not significant."""


class ReoptimizationBudget:
    """For each delta source, the estimated cost of its plans since its last re-optimization; no entry before the first one.

    The first re-optimization is due if a plan costs as much as it, because no other plan could save more.
    """

    def __init__(self) -> None:
        self.since: dict[str, float] = {}

    def due(self, source: str, cost: float, takes: float) -> bool:
        """Whether one is due for a batch whose plan costs ``cost``, in the unit of ``takes``; it then counts as done."""
        if source not in self.since:
            due = cost >= takes
        else:
            self.since[source] += cost
            due = self.since[source] >= EXECUTION_PER_PLANNING * takes
        if due:
            self.since[source] = 0.0
        return due

    def reset_budget(self, source: str) -> None:
        """The estimates of a source were wrong: its next re-optimization follows the rule of the first one."""
        self.since.pop(source, None)

    def resume(self, since: Mapping[str, float]) -> None:
        """Continues with the :attr:`since` of an earlier run."""
        self.since = dict(since)


def is_surprising(expected: float, observed: float) -> bool:
    """Whether an observed row count differs so much from the estimate that the plan should be optimized again."""
    least, most = sorted((max(expected, FEW), max(observed, FEW)))
    return most > SURPRISE * least
