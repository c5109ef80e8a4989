"""The reason of a plan switch: the statistics with the largest changes, among those that only one of the two plans depends on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.memo import Memo
from cqels_opt.plans.plan import Plan, pairs
from cqels_opt.plans.relation_set import RelationSet, size
from cqels_opt.plans.statistics import StatisticKey

LIMIT = 5
"""How many statistics a reason names."""

SETS = 2
"""How many sets of more than two relations it names in addition."""

MOVED = 1.5
"""The factor by which the correction of such a set must have changed to be named."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A changed statistic: its name as in :meth:`StatisticKey.__str__`, its value before and now (None: not observed)."""

    statistic: str
    was: float | None
    now: float | None


def reasons(memo: Memo, source: str, old: Plan, new: Plan, was: NDArray[np.float64]) -> tuple[Reason, ...]:
    """The statistics behind a switch, largest changes first. ``was`` is the source's row of raw statistics at the last choice.

    The two plans differ in the sub-patterns that only one of them computes. The statistics that the rows of those are estimated from come
    first; the others are used only if none of the first has changed.
    """
    base, shape = memo.base, memo.shape
    number = shape.sources.index(source)
    computed = [{left | right for left, right in pairs(plan, memo.graph)} for plan in (old, new)]
    states = [shape.state_of[relations, shape.covered[relations]] for relations in computed[0] ^ computed[1]]
    telling = {key for factor in memo.table.factors_of(number, states) for key in base.statistics_of(factor)}
    now = base.raw[base.sources.index(source)]
    return _moved(telling, memo, was, now) or _moved(base.keys, memo, was, now)


def rows_and_factor(memo: Memo, source: str, relations: RelationSet) -> tuple[float, float]:
    """The estimated rows of a set, and the factor by which sampling and feedback correct the statistics."""
    rows, (alone,) = memo.rows(source, relations), memo.uncorrected_rows(source, [relations])
    return rows, max(rows, 1.0) / max(alone, 1.0)


def corrected(
    memo: Memo, source: str, was: Mapping[RelationSet, tuple[float, float]], *, least: int = 3, moved: float = MOVED
) -> tuple[Reason, ...]:
    """The sets of at least ``least`` relations whose correction by sampling and feedback has changed by more than a factor.

    ``was`` has their rows and corrections before.
    """
    found = []
    for relations, (before, factor) in was.items():
        now, other = rows_and_factor(memo, source, relations)
        distance = abs(math.log(other / factor))
        if size(relations) >= least and distance > math.log(moved):
            names = ", ".join(memo.graph.names(relations))
            found.append((-distance, Reason(f"rows({names})", before, now)))
    return tuple(reason for _, reason in sorted(found, key=lambda entry: (entry[0], entry[1].statistic))[:SETS])


def _moved(keys: Iterable[StatisticKey], memo: Memo, was: NDArray[np.float64], now: NDArray[np.float64]) -> tuple[Reason, ...]:
    found = []
    for key in keys:
        column = memo.base.column[key]
        before, after = float(was[column]), float(now[column])
        if before != after and not (math.isnan(before) and math.isnan(after)):
            found.append((-_distance(key, before, after), key, Reason(str(key), _known(before), _known(after))))
    return tuple(reason for _, _, reason in sorted(found, key=lambda entry: entry[:2])[:LIMIT])


def _distance(key: StatisticKey, before: float, after: float) -> float:
    """The change of a statistic as the logarithm of a ratio; infinite from or to "not observed"."""
    if math.isnan(before) or math.isnan(after):
        return math.inf
    least = 0.001 if key.kind == "selectivity" else 1.0
    return abs(math.log((after + least) / (before + least)))


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
