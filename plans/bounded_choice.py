"""Upper bounds in the choice of a plan: they decide between plans of equal cost, and limit the estimates of the plan that is chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice, takewhile
from types import MappingProxyType
from typing import Final

from cqels_opt.plans import plan as planning
from cqels_opt.plans import plan_extraction
from cqels_opt.plans.memo import Memo
from cqels_opt.plans.plan_extraction import Ranked
from cqels_opt.plans.plan_pricing import PricedPlan
from cqels_opt.plans.relation_set import RelationSet
from cqels_opt.plans.reoptimization_budget import SURPRISE
from cqels_opt.plans.size_bounds import SizeBounds

EQUAL: Final = 0.01
"""Plans cost the same if they differ by at most this share: their greatest bounds then decide when a plan is chosen."""

MOST_EQUAL: Final = 4
"""The most plans whose bounds are compared."""

LIMITED_FROM: Final = 10_000.0
"""Estimates of a plan that stays, or that was sampled, are compared with their bounds from this number of rows on: a bound costs about as
much as these, and samples are counted on the delta itself."""


def least_risky(memo: Memo, source: str, best: Ranked, bounds: SizeBounds | None) -> Ranked:
    """Of the cheapest plans that cost the same, the one whose greatest bound is smallest; of equals the cheapest."""
    if bounds is None:
        return best
    most = best.cost * (1 + EQUAL)
    equal = [*takewhile(lambda other: other.cost <= most, islice(plan_extraction.ranked(memo, source), MOST_EQUAL))]
    if len(equal) < 2:
        return best
    chosen, least = best, math.inf
    for one in equal:
        covered = (memo.graph.set_of(operator.covers) for operator in planning.operators(one.plan, memo.graph))
        if (greatest := bounds.greatest(covered, below=least)) < least:
            chosen, least = one, greatest
    return chosen


def limit_estimates(
    priced: PricedPlan, bounds: SizeBounds | None, least: float, confirmed: Mapping[RelationSet, float] = MappingProxyType({})
) -> None:
    """Reduces the estimates of a plan's operators, from ``least`` rows on, that exceed their bounds to these, in the memo.

    ``confirmed`` are the rows that operators gave in the last batch, where these were about the expected ones: an estimate that is not
    surprisingly greater is not compared with its bound.
    """
    if priced.limit(bounds, {relations: max(least, SURPRISE * confirmed.get(relations, 0.0)) for relations in priced.covered}):
        priced.memo.refresh()
