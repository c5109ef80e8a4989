"""Validity ranges: how far each statistic must change, alone, until another plan is chosen.

A plan is optimal in a range of each statistic's values (Markl et al. 2004, *Robust query processing through progressive optimization*, for
one operator; here for the whole plan). The memo has every other plan, so the range is found by bisection: change the statistic, price
the memo again, and compare the plan with the cheapest one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from cqels_opt.plans import plan_extraction
from cqels_opt.plans.memo import Memo
from cqels_opt.plans.plan import Plan
from cqels_opt.plans.plan_pricing import cost_of
from cqels_opt.plans.query_graph import QueryGraph
from cqels_opt.plans.statistics import StatisticKey
from cqels_opt.plans.switching_rule import greatest_kept

FARTHEST = 2.0**20
"""The largest factor, up or down, by which a statistic is changed; a plan that stays optimal does not depend on it."""

STEP = 2.0
"""The factor between two values that are tried."""

EXACT = 1e-3
"""The relative precision of the end of a range."""

COSTINGS = 2_000
"""The number of costings for one plan after which no other statistic is tried; filters come last."""

LIMIT = 5
"""The number of statistics that are named: those nearest to the end of their range."""


@dataclass(frozen=True, slots=True)
class ValidityRange:
    """A statistic's value, and the nearest values below and above it at which another plan is chosen (None: there is none)."""

    statistic: str
    now: float
    below: float | None
    above: float | None

    @property
    def distance(self) -> float:
        """The logarithm of the smaller of the two factors."""
        return min(_factor(self.now, end) for end in (self.below, self.above) if end is not None)


def validity_ranges(memo: Memo, source: str, plan: Plan) -> tuple[ValidityRange, ...]:
    """The validity ranges of a delta source's ``plan`` around the statistics that the memo last read; nearest ends first.

    Another plan is chosen if this one is no near tie (``switching_rule.py``). The memo is unchanged afterwards.
    """
    if len(memo.graph.relations) < 2 or plan_extraction.runner_up(memo, source) is None:
        return ()
    search = _Search(memo, source, plan)
    try:
        places = [
            found for key in filter(partial(_moves, memo.graph), memo.base.read_now(source)) if (found := search.places(key))
        ]
        farthest = sorted(place.farthest for place in places)[:LIMIT]
        near = [place for place in places if place.nearest <= farthest[-1]]
        ranges = [ValidityRange(str(p.key), p.now, search.end(p.column, p.below), search.end(p.column, p.above)) for p in near]
    finally:
        search.close()
    return tuple(sorted(ranges, key=lambda valid: (valid.distance, valid.statistic))[:LIMIT])


Between: TypeAlias = "tuple[float, float] | None"
"""A value at which the plan is kept, and one at which it is replaced; None: it is kept at all values that were tried."""


@dataclass(frozen=True, slots=True)
class _Places:
    """The values of a statistic between which the plan is replaced, downwards and upwards."""

    key: StatisticKey
    column: int
    now: float
    below: Between
    above: Between

    @property
    def nearest(self) -> float:
        """The least possible distance of the end of the range."""
        return min(_factor(self.now, ends[0]) for ends in (self.below, self.above) if ends is not None)

    @property
    def farthest(self) -> float:
        """The greatest possible distance."""
        return min(_factor(self.now, ends[1]) for ends in (self.below, self.above) if ends is not None)


class _Search:
    """Changes statistics and checks with a memo of one delta source whether its plan is replaced.

    The cost of a plan is nearly linear in each statistic, so the least cost of all plans is concave, and a plan is optimal in one interval.
    A statistic at whose farthest value the plan is kept therefore needs one costing; otherwise bisection finds the end.
    """

    def __init__(self, memo: Memo, source: str, plan: Plan) -> None:
        self.memo, self.source, self.plan = memo.of_source(source), source, plan
        self.base = memo.base
        self.number, self.kept = self.base.sources.index(source), self.base.raw
        self.costings = 0

    def close(self) -> None:
        """Restores the statistics."""
        self.base.replace(self.kept)

    def left(self, column: int, value: float) -> bool:
        """Whether the plan is replaced if the statistic has this value."""
        self.costings += 1
        raw = self.kept.copy()
        raw[self.number, column] = value
        self.memo.refresh(self.base.replace(raw))
        cost = cost_of(self.memo, self.source, self.plan)
        return cost is not None and cost > greatest_kept(self.memo, self.source)

    def places(self, key: StatisticKey) -> _Places | None:
        """Where a change of a statistic replaces the plan; None if it does not, or if :data:`COSTINGS` is used up."""
        if self.costings >= COSTINGS:
            return None
        now, column = self.base.value(self.source, key), self.base.column[key]
        below, above = (self._between(column, list(values)) for values in (_downwards(key, now), _upwards(key, now)))
        return _Places(key, column, now, below, above) if below or above else None

    def _between(self, column: int, values: Sequence[float]) -> Between:
        if len(values) < 2 or not self.left(column, values[-1]):
            return None
        inside, outside = 0, len(values) - 1
        while outside - inside > 1:
            middle = (inside + outside) // 2
            inside, outside = (inside, middle) if self.left(column, values[middle]) else (middle, outside)
        return values[inside], values[outside]

    def end(self, column: int, between: Between) -> float | None:
        """The value at which the plan is replaced."""
        if between is None:
            return None
        inside, outside = between
        while abs(outside - inside) > EXACT * max(inside, outside):
            middle = math.sqrt(inside * outside) if inside > 0 else (inside + outside) / 2
            inside, outside = (inside, middle) if self.left(column, middle) else (middle, outside)
        return outside


def _factor(now: float, value: float) -> float:
    return abs(math.log(max(value, 1e-9) / max(now, 1e-9)))


def _moves(graph: QueryGraph, key: StatisticKey) -> bool:
    """Whether a statistic can change: those of static relations alone cannot."""
    relations = {"cardinality": key.names[:1], "distinct": key.names[:1], "join_size": key.names[:2], "selectivity": ()}[key.kind]
    return key.kind == "selectivity" or any(graph.relations[graph.index[name]].dynamic for name in relations)


def _upwards(key: StatisticKey, now: float) -> Iterator[float]:
    """Values from the current one upwards: shares up to 1, counts of 0 continue at 1."""
    yield now
    place = max(now, 1e-6 if key.kind == "selectivity" else 1.0)
    most = 1.0 if key.kind == "selectivity" else place * FARTHEST
    while place < most:
        place = min(place * STEP, most)
        yield place


def _downwards(key: StatisticKey, now: float) -> Iterator[float]:
    """Values from the current one downwards, without 0: counts down to 1."""
    yield now
    least = now / FARTHEST if key.kind == "selectivity" else max(1.0, now / FARTHEST)
    place = now
    while place > least:
        place = max(place / STEP, least)
        yield place
