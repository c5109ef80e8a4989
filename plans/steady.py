"""Steady batches: what their plans depend on is about what it was when the plans were priced, so nothing is priced again.

The plans and their costs stay. Their estimates follow the rows of the relations in proportion, which is what pricing them would give, but
for limits, edge covers and units of OPTIONAL. The rows that operators gave correct the estimates once, after the last of them: when those
that were not expected have taken as much time as pricing takes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans.feedback import WEIGHT
from cqels_opt.plans.relation_set import RelationSet
from cqels_opt.plans.reoptimization_budget import FEW, ROW_SECONDS, is_surprising

Floats: TypeAlias = "NDArray[np.float64]"

STEADY = 1.25
"""The greatest factor by which the estimates of a plan change in a steady batch. Rows of operators that differ from them by more are
unexpected. Chance alone makes tenths of some hundred rows."""

PRICING_SECONDS = 4e-4
"""Seconds per delta source that pricing its plans takes."""


class SteadyBatches(NamedTuple):
    """The steady batches of a source since its plan was priced: how many gave rows, and the rows of each operator, as if the relations had
    not changed: the mean in the logarithm that feedback would have made of them. ``unexpected`` is the time, in seconds, that rows took by
    which operators differed from their estimates."""

    batches: int = 0
    rows: Sequence[tuple[RelationSet, float]] = ()
    unexpected: float = 0.0

    def after(self, rows: Sequence[tuple[RelationSet, float]]) -> SteadyBatches | None:
        """With one batch more; None if other operators have been counted."""
        known = dict(self.rows)
        if self.batches and [*known] != [relations for relations, _ in rows]:
            return None
        newest = WEIGHT / (1 - (1 - WEIGHT) ** (self.batches + 1))
        mean = [(s, max(known.get(s, n), 1.0) ** (1 - newest) * max(n, 1.0) ** newest) for s, n in rows]
        return SteadyBatches(self.batches + 1, mean, self.unexpected)


def unexpected_seconds(rows: Iterable[tuple[float, float]]) -> float:
    """The time that rows take by which operators differ from their estimates; ``rows`` has the expected and the observed ones."""
    return ROW_SECONDS * sum(abs(seen - expected) for expected, seen in rows if is_surprising(expected, seen, STEADY))


def row_factors(before: Floats, now: Floats) -> Floats | None:
    """The factors by which the rows of relations have changed (1: not known), one row per source; None if they are not steady.

    They are if all factors of a source, or their inverses, together are at most :data:`STEADY`; fewer rows than
    :data:`FEW` count as this number.
    """
    unknown = np.isnan(before)
    if (unknown != np.isnan(now)).any():
        return None
    changed = np.ones(before.shape)
    np.divide(np.maximum(now, FEW), np.maximum(before, FEW), out=changed, where=~unknown)
    if (np.abs(np.log(changed)).sum(axis=1) > math.log(STEADY)).any():
        return None
    found = np.ones(before.shape)
    np.divide(now, before, out=found, where=(before > 0) & (now > 0))
    return found


def is_steady_share(expected: float, seen: float) -> bool:
    """Whether the share of rows that a filter keeps is about the expected one; NaN: not known."""
    return max(expected, seen) <= STEADY * min(expected, seen) or expected == seen or (expected != expected and seen != seen)
