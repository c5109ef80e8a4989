"""When re-optimization pays off: its time stays a small share of the estimated cost of the plans."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

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


class Reading(NamedTuple):
    """The rows of relations when statistics were read (NaN: not known), and the estimated cost of the plans since."""

    rows: list[float]
    spent: float


class ReadingBudget:
    """The last reading of the statistics of each delta source; no entry if they are to be read at once."""

    def __init__(self) -> None:
        self.last: dict[str, Reading] = {}

    def due(self, source: str, takes: float, rows: Sequence[float]) -> bool:
        """Whether the statistics are to be read again: plans have cost enough, in the unit of ``takes``, estimates were wrong, or the
        ``rows`` of a relation have changed by a factor after which the selectivities of its joins may differ."""
        last = self.last.get(source)
        return last is None or last.spent >= EXECUTION_PER_READING * takes or any(map(_moved, last.rows, rows))

    def spend(self, source: str, cost: float, rows: Sequence[float] | None) -> None:
        """Adds the cost of a plan that is about to run. With ``rows`` the statistics were read for it."""
        read, spent = (rows, 0.0) if rows is not None else self.last[source]
        self.last[source] = Reading(list(read), spent + cost)

    def read_next(self, source: str) -> None:
        """The statistics are read for the next batch."""
        self.last.pop(source, None)


def _moved(before: float, now: float) -> bool:
    if now == before or math.isnan(now):
        return False
    return math.isnan(before) or before == 0 or is_surprising(before, now)


def is_surprising(expected: float, observed: float) -> bool:
    """Whether an observed row count differs so much from the estimate that the plan should be optimized again."""
    least, most = sorted((max(expected, FEW), max(observed, FEW)))
    return most > SURPRISE * least
