"""How far row counts may move, each alone, before a plan costs noticeably more than the cheapest one.

Validity ranges (``validity_ranges.py``) are exact and are found by bisection, for EXPLAIN. Here a few factors per set of relations are
tried, all in one pass over the arrays of the memo, so that the result is cheap enough for every choice.
"""

from __future__ import annotations

from collections.abc import Sequence

from cqels_opt.plans import plan_extraction
from cqels_opt.plans.memo import Memo
from cqels_opt.plans.plan import Plan
from cqels_opt.plans.relation_set import RelationSet

FACTORS = (1.25, 1.5, 2.0, 4.0)
"""The factors, up and down, by which rows are changed."""

TOLERANCE = 0.02
"""The share by which a plan may cost more than the cheapest one before plans are chosen again."""

LEAST = 1.1
"""The safe factor of a set for which not even the first of :data:`FACTORS` is safe."""

CELLS = 1_000_000
"""The numbers of one array of costs; more cases take several passes."""


def safe_factors(memo: Memo, source: str, plan: Plan, tie: float, sets: Sequence[RelationSet]) -> list[float]:
    """For each set the largest factor by which the rows of all joins that contain it may grow or shrink.

    The plan then costs at most the share ``tie`` more than the cheapest plan. The memo is unchanged.
    """
    one = memo.of_source(source)
    cases = [(relations, change) for relations in sets for factor in FACTORS for change in (factor, 1 / factor)]
    at_once = max(1, CELLS // max(1, len(one.phi)))
    safe: list[bool] = []
    for start in range(0, len(cases), at_once):
        priced = one.under(one.table.rows_if(cases[start : start + at_once]))
        cost = plan_extraction.costs_of(priced, source, plan)
        safe += (
            (cost <= priced.psi[..., memo.root(source)] * (1 + tie)).tolist() if cost is not None else [False] * len(priced.psi)
        )
    found = []
    for i in range(len(sets)):
        pairs = zip(safe[i * 2 * len(FACTORS) :: 2], safe[i * 2 * len(FACTORS) + 1 :: 2], strict=False)
        found.append(_last_safe([up and down for (up, down), _ in zip(pairs, FACTORS)]))
    return found


def _last_safe(safe: Sequence[bool]) -> float:
    """The largest factor up to which all are safe."""
    found = LEAST
    for factor, kept in zip(FACTORS, safe):
        if not kept:
            break
        found = factor
    return found
