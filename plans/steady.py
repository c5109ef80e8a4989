"""Steady batches: what their plans depend on is about what it was when the plans were priced, so nothing is priced again.

The plans and their costs stay. Their estimates follow the rows of the relations in proportion, which is what pricing them would give, but
for limits, edge covers and units of OPTIONAL. The rows that operators gave correct the estimates once, after the last of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.relation_set import RelationSet
from cqels_opt.plans.reoptimization_budget import FEW

Floats: TypeAlias = "NDArray[np.float64]"

STEADY = 1.25
"""The greatest factor by which rows, or what a filter keeps, change in a steady batch. Chance alone makes tenths of some hundred rows."""


class SteadyBatches(NamedTuple):
    """The steady batches of a source since its plan was priced: how many gave rows, and the rows of its operators in the last of them, as
    if its relations had not changed."""

    batches: int = 0
    rows: Sequence[tuple[RelationSet, float]] = ()


def row_factors(before: Floats, now: Floats) -> Floats | None:
    """The factors by which rows of relations have changed (1: not known); None if they are not steady."""
    unknown = np.isnan(before)
    if (unknown != np.isnan(now)).any() or ((before == 0) != (now == 0)).any():
        return None
    least, most = np.maximum(np.fmin(before, now), FEW), np.maximum(np.fmax(before, now), FEW)
    if (most > STEADY * least).any():
        return None
    found = np.ones(before.shape)
    np.divide(now, before, out=found, where=~unknown & (before != 0))
    return found


def is_steady(expected: float, seen: float) -> bool:
    """Whether a number of rows is about the expected one."""
    least, most = sorted((max(expected, FEW), max(seen, FEW)))
    return most <= STEADY * least


def is_steady_share(expected: float, seen: float) -> bool:
    """The same of the share of rows that a filter keeps; NaN: not known."""
    return max(expected, seen) <= STEADY * min(expected, seen) or expected == seen or (expected != expected and seen != seen)
