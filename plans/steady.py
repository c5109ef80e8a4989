"""Steady batches: what their plans depend on is about what it was when the plans were priced, so nothing is priced again.

The plans and their costs stay. Their estimates follow the rows of the relations in proportion, which is what pricing them would give, but
for limits, edge covers and units of OPTIONAL. The rows that operators gave correct the estimates once, after the last of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.feedback import WEIGHT
from cqels_opt.plans.relation_set import RelationSet

Floats: TypeAlias = "NDArray[np.float64]"

STEADY = 1.25
"""The greatest factor by which the estimates of a plan change in a steady batch, and the rows of its operators differ from them. Chance
alone makes tenths of some hundred rows."""


class SteadyBatches(NamedTuple):
    """The steady batches of a source since its plan was priced: how many gave rows, and the rows of each operator, as if the relations had
    not changed: the mean in the logarithm that feedback would have made of them."""

    batches: int = 0
    rows: Sequence[tuple[RelationSet, float]] = ()

    def after(self, rows: Sequence[tuple[RelationSet, float]]) -> SteadyBatches | None:
        """With one batch more; None if other operators have been counted."""
        known = dict(self.rows)
        if self.batches and [*known] != [relations for relations, _ in rows]:
            return None
        newest = WEIGHT / (1 - (1 - WEIGHT) ** (self.batches + 1))
        mean = [(s, max(known.get(s, n), 1.0) ** (1 - newest) * max(n, 1.0) ** newest) for s, n in rows]
        return SteadyBatches(self.batches + 1, mean)


def row_factors(before: Floats, now: Floats) -> Floats | None:
    """The factors by which the rows of relations have changed (1: not known), one row per source; None if they are not steady.

    They are if all factors of a source, or their inverses, together are at most :data:`STEADY`.
    """
    unknown, empty = np.isnan(before), before == 0
    if (unknown != np.isnan(now)).any() or (empty != (now == 0)).any():
        return None
    found = np.ones(before.shape)
    np.divide(now, before, out=found, where=~(unknown | empty))
    return found if (np.abs(np.log(found)).sum(axis=1) <= math.log(STEADY)).all() else None


def is_steady_share(expected: float, seen: float) -> bool:
    """Whether the share of rows that a filter keeps is about the expected one; NaN: not known."""
    return max(expected, seen) <= STEADY * min(expected, seen) or expected == seen or (expected != expected and seen != seen)
