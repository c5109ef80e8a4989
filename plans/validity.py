"""What a plan hinges on: how far each statistic must move, alone, before another plan takes over.

A plan is valid in a range of each statistic's values (the validity ranges of Markl et al. 2004, *Robust query processing through
progressive optimization*, there of one operator, here of the whole plan). The memo holds every other plan, so the range is found by
asking it: a statistic is moved step by step, the memo re-costed, and the place where the plan would be left is then bisected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from cqels_opt.plans import ranking
from cqels_opt.plans.memo import Memo
from cqels_opt.plans.plan import Plan
from cqels_opt.plans.query_graph import QueryGraph
from cqels_opt.plans.statistics import StatisticKey

FARTHEST = 2.0**20
"""The factor, up or down, to which a statistic is moved; a plan that survives that does not hinge on it."""

STEP = 2.0
"""The factor from one place to the next; a range is missed where another plan is best only between two of them."""

EXACT = 1e-3
"""How exactly, as a share of itself, the end of a range is found."""

LIMIT = 5
"""How many statistics are named, those nearest to the end of their range."""


@dataclass(frozen=True, slots=True)
class Hinge:
    """A statistic that decides: its value, and the nearest values below and above it at which another plan is chosen (None: none)."""

    statistic: str
    now: float
    below: float | None
    above: float | None

    @property
    def distance(self) -> float:
        """The logarithm of the smaller of the two factors."""
        ends = (end for end in (self.below, self.above) if end is not None)
        return min(abs(math.log(max(end, 1e-9) / max(self.now, 1e-9))) for end in ends)


def hinges(memo: Memo, source: str, plan: Plan, tie: float) -> tuple[Hinge, ...]:
    """What a delta source's ``plan`` hinges on, under the statistics that the memo last saw; nearest first.

    Another plan takes over where it is cheaper by more than the share ``tie``. The memo is the same afterwards.
    """
    leaves = memo.leaves
    number = leaves.sources.index(source)
    kept = leaves.raw

    def left(column: int, value: float) -> bool:
        """Whether the plan is left when the statistic has this value."""
        raw = kept.copy()
        raw[number, column] = value
        memo.refresh(leaves.replace(raw))
        cost = ranking.cost_of(memo, source, plan)
        return cost is not None and cost > ranking.cheapest_cost(memo, source) * (1 + tie)

    found = []
    try:
        for key in filter(partial(_moves, memo.graph), leaves.read_now(source)):
            now, column = leaves.value(source, key), leaves.column[key]
            below, above = (_end(column, places, left) for places in (_downwards(key, now), _upwards(key, now)))
            if below is not None or above is not None:
                found.append(Hinge(str(key), now, below, above))
    finally:
        memo.refresh(leaves.replace(kept))
    return tuple(sorted(found, key=lambda hinge: (hinge.distance, hinge.statistic))[:LIMIT])


def _moves(graph: QueryGraph, key: StatisticKey) -> bool:
    """Whether a statistic can become another one: that of static relations alone stays."""
    relations = {"cardinality": key.names[:1], "distinct": key.names[:1], "join_size": key.names[:2], "selectivity": ()}[key.kind]
    return key.kind == "selectivity" or any(graph.relations[graph.index[name]].dynamic for name in relations)


def _upwards(key: StatisticKey, now: float) -> Iterator[float]:
    """Values from that of now upwards: a share ends at 1, a count that is 0 goes on from 1."""
    yield now
    place = max(now, 1e-6 if key.kind == "selectivity" else 1.0)
    most = 1.0 if key.kind == "selectivity" else place * FARTHEST
    while place < most:
        place = min(place * STEP, most)
        yield place


def _downwards(key: StatisticKey, now: float) -> Iterator[float]:
    """Values from that of now downwards, not to 0: a count ends at 1."""
    yield now
    least = now / FARTHEST if key.kind == "selectivity" else max(1.0, now / FARTHEST)
    place = now
    while place > least:
        place = max(place / STEP, least)
        yield place


def _end(column: int, places: Iterator[float], left: Callable[[int, float], bool]) -> float | None:
    """The first value, on the way through ``places``, at which the plan is left."""
    inside = next(places)
    for outside in places:
        if left(column, outside):
            while abs(outside - inside) > EXACT * max(inside, outside):
                middle = math.sqrt(inside * outside) if inside > 0 else (inside + outside) / 2
                if left(column, middle):
                    outside = middle
                else:
                    inside = middle
            return outside
        inside = outside
    return None
