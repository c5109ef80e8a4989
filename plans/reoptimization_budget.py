"""When re-optimization pays off: its time stays a small share of the estimated cost of the plans."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import starmap
from typing import NamedTuple

EXECUTION_PER_PLANNING = 50.0
"""Plans must cost this multiple of a re-optimization before the next one: it may take a fiftieth of the time."""

RAREST = 3
"""How often that multiple doubles at most: once for each re-optimization in a row that left a plan as it was. A surprise ends that."""

SURPRISE = 2.0
"""Rows that differ from the estimate by more than this factor trigger a re-optimization at once."""

FEW = 32.0
"""Row counts below this number are not significant."""

EXECUTION_PER_READING = 2.0
"""Plans must cost this multiple of reading their statistics before these are read again, at first."""

EXECUTION_PER_SURPRISE = 0.5
"""The same where estimates were false: a plan that costs less than half of reading its statistics cannot be worth a reading."""

MOST_DOUBLINGS = 7
"""How often :data:`EXECUTION_PER_READING` doubles at most, once for each reading that confirms the one before. Readings that find it false,
one after the other, double :data:`EXECUTION_PER_SURPRISE` up to the former: what changes with each batch cannot be followed."""

READING_SECONDS = 8e-5
"""Seconds per delta source and edge with a static relation that reading statistics takes, and pricing the plans again."""

WINDOW_JOIN_FACTOR = 3.5
"""The same for an edge between two windows, as a multiple: both of its frequency tables change."""

ROW_SECONDS = 3e-7
"""Seconds per row that an operator gives more than expected: what looking it up and producing it takes."""


def reading_price(edges: int, between_windows: int) -> float:
    """The price of reading the sizes of the joins of a source, in :data:`READING_SECONDS`; some edges are between two windows."""
    return edges + (WINDOW_JOIN_FACTOR - 1) * between_windows


class ReoptimizationBudget:
    """For each delta source, the estimated cost of its plans ``since`` its last re-optimization (no entry before the first one), and the
    ``confirmations``: how many in a row have left its plan as it was.

    The first re-optimization is due if a plan costs as much as it, because no other plan could save more.
    """

    def __init__(self) -> None:
        self.since: dict[str, float] = {}
        self.confirmations: dict[str, int] = {}

    def due(self, source: str, cost: float, takes: float) -> bool:
        """Whether one is due for a batch whose plan costs ``cost``, in the unit of ``takes``; it then counts as done."""
        if source not in self.since:
            due = cost >= takes
        else:
            self.since[source] += cost
            due = self.since[source] >= EXECUTION_PER_PLANNING * takes * 2.0 ** min(self.confirmations.get(source, 0), RAREST)
        if due:
            self.start(source)
        return due

    def start(self, source: str) -> None:
        """A re-optimization of a source begins."""
        self.since[source] = 0.0

    def note(self, source: str, confirmed: bool) -> None:
        """Notes whether a re-optimization has left the plan of a source as it was."""
        self.confirmations[source] = self.confirmations.get(source, 0) + 1 if confirmed else 0

    def reset_budget(self, source: str) -> None:
        """The estimates of a source were wrong: its next re-optimization follows the rule of the first one."""
        self.since.pop(source, None)
        self.confirmations.pop(source, None)

    def resume(self, since: Mapping[str, float], confirmations: Mapping[str, int]) -> None:
        """Continues with the :attr:`since` and the :attr:`confirmations` of an earlier run."""
        self.since, self.confirmations = dict(since), dict(confirmations)


class Reading(NamedTuple):
    """The last reading of the statistics of a delta source, and what has happened since.

    ``statistics`` are as they were read, the rows of relations first (NaN: not known). ``spent`` is the estimated cost of the plans since,
    ``first`` that of the first of them; ``doubted``: an estimate was false; ``switched``: the plan is another one. ``values`` are the
    distinct values of the variables on which the delta is joined. ``confirmations`` counts the readings in a row that confirmed the one
    before; below zero those that found it false. The reading that follows a switch early confirms too, if no estimate was false: plans of
    about the same cost take turns, though nothing changes.
    """

    statistics: list[float]
    spent: float = 0.0
    doubted: bool = False
    first: float = 0.0
    values: Sequence[float] = ()
    confirmations: int = 0
    switched: bool = False

    def multiple(self, is_false: bool) -> float:
        """How many times as much as reading the plans must cost before the next reading, which may follow a false estimate."""
        doubled = 2.0 ** min(MOST_DOUBLINGS, max(0, -self.confirmations if is_false else self.confirmations))
        return min(EXECUTION_PER_READING, EXECUTION_PER_SURPRISE * doubled) if is_false else EXECUTION_PER_READING * doubled

    def changed_rows(self, rows: Sequence[float]) -> list[float]:
        """The factors by which rows of relations have changed, where that is much."""
        return [factor for before, now in zip(self.statistics, rows) if (factor := _changed(before, now)) is not None]

    def is_false(self, changed: Sequence[float], values: Sequence[float]) -> bool:
        """Whether an estimate was false, rows have ``changed``, or the delta has far more or fewer distinct ``values``."""
        return self.doubted or bool(changed) or any(_changed(*pair) is not None for pair in zip(self.values, values))


class ReadingBudget:
    """The last reading of the statistics of each delta source; no entry before the first one. ``relations`` are those of the block."""

    def __init__(self, relations: int) -> None:
        self.relations = relations
        self.last: dict[str, Reading] = {}

    def due(self, seconds: float, rows: Mapping[str, Sequence[float]], values: Mapping[str, Sequence[float]]) -> bool:
        """Whether the statistics of some sources are to be read again, all of them together, because they share sizes of joins.

        So it is if their plans have cost a multiple of ``seconds``, which a source takes. The multiple grows with each reading that
        confirms the one before. Less is enough where estimates were false, or where the ``rows`` of a relation, or the distinct ``values``
        of the delta, have changed by a factor after which the selectivities of joins may differ. If rows have, the plan of the batch to
        come counts too, as many times the first one. Sizes of joins with a relation that had no rows are not known.
        """
        worth = 0.0
        for source, now in rows.items():
            if (known := self.last.get(source)) is None:
                return True
            changed = known.changed_rows(now)
            if math.inf in changed:
                return True
            spent = known.spent + known.first * max(changed, default=0.0)
            worth += spent / known.multiple(known.switched or known.is_false(changed, values[source]))
        return worth >= seconds * len(rows)

    def read(self, source: str, statistics: Sequence[float], values: Sequence[float]) -> None:
        """The statistics of a source were read."""
        known = self.last.get(source)
        confirmations = 0
        if known is not None:
            is_false = known.is_false(known.changed_rows(statistics[: self.relations]), values)
            confirmations = min(known.confirmations, 0) - 1 if is_false else max(known.confirmations, 0) + 1
        self.last[source] = Reading([*statistics], values=[*values], confirmations=confirmations)

    def doubt(self, source: str) -> None:
        """An estimate of a source was false."""
        if (known := self.last.get(source)) is not None:
            self.last[source] = known._replace(doubted=True)

    def spend(self, source: str, cost: float, switched: bool) -> None:
        """Adds the cost of a plan that is about to run, and whether it is another one than before."""
        if (known := self.last.get(source)) is not None:
            spent, switched = known.spent + cost, known.switched or switched
            self.last[source] = known._replace(spent=spent, switched=switched, first=known.first or cost)

    def observe(self, source: str, rows: Sequence[tuple[float, float]]) -> bool:
        """Takes the expected and the observed rows of each operator of the last plan; returns whether an estimate was false."""
        surprised = any(starmap(is_surprising, rows))
        if surprised and (known := self.last.get(source)) is not None:
            more = max(0.0, sum(seen - expected for expected, seen in rows))
            self.last[source] = known._replace(spent=known.spent + more * ROW_SECONDS, doubted=True)
        return surprised


def _changed(before: float, now: float) -> float | None:
    """The factor by which a number of rows has changed; None if that is little, infinite if it was not known."""
    if now == before or math.isnan(now):
        return None
    if math.isnan(before) or before == 0:
        return math.inf
    return max(now, FEW) / max(before, FEW) if is_surprising(before, now) else None


def is_surprising(expected: float, observed: float, factor: float = SURPRISE) -> bool:
    """Whether an observed row count differs so much from the estimate, by more than ``factor``, that it must not be ignored."""
    least, most = sorted((max(expected, FEW), max(observed, FEW)))
    return most > factor * least
