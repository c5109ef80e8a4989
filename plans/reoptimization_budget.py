"""When re-optimization pays off: its time stays a small share of the estimated cost of the plans."""

from __future__ import annotations

from collections.abc import Mapping

EXECUTION_PER_PLANNING = 50.0
"""Plans must cost this multiple of a re-optimization before the next one: it may take a fiftieth of the time."""

SURPRISE = 2.0
"""Rows that differ from the estimate by more than this factor trigger a re-optimization at once."""

FEW = 32.0
"""Row counts below this number are not significant."""

EXECUTION_PER_READING = 2.0
"""Plans must cost this multiple of reading their statistics before these are read again: no more can be lost by not reading."""

READING_SECONDS = 0.0002
"""Seconds per edge of the query graph that reading its statistics takes, and pricing the plans again."""


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


class ReadingBudget:
    """For each delta source, the estimated cost of its plans since its statistics were read; no entry if they are to be read at once."""

    def __init__(self) -> None:
        self.since: dict[str, float] = {}

    def due(self, source: str, takes: float) -> bool:
        """Whether the statistics are to be read again, in the unit of the costs: plans have cost enough, or estimates were wrong."""
        return source not in self.since or self.since[source] >= EXECUTION_PER_READING * takes

    def spend(self, source: str, cost: float, read: bool) -> None:
        """Adds the cost of a plan that is about to run; ``read``: for which statistics were read."""
        self.since[source] = cost + (0.0 if read else self.since[source])

    def read_next(self, source: str) -> None:
        """The statistics are read for the next batch."""
        self.since.pop(source, None)


def is_surprising(expected: float, observed: float) -> bool:
    """Whether an observed row count differs so much from the estimate that the plan should be optimized again."""
    least, most = sorted((max(expected, FEW), max(observed, FEW)))
    return most > SURPRISE * least
