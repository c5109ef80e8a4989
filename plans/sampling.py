"""Corrections of estimates for one delta, from a sample of it (DESIGN §5; Wu, Naughton & Singh 2016).

A sampler runs the operators of a plan on a sample of the delta (index-based join sampling, Leis et al. 2017). The rows of each operator
correct the estimate of its sub-pattern, and of every larger one without a correction of its own, for this delta alone. Few sampled rows
are weak evidence, so they are combined with the estimate so far, as a gamma prior worth :data:`PRIOR` rows (Gelman et al., Bayesian
Data Analysis, §2.6). If the whole delta was sampled, the rows are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from cqels_opt.plans.feedback import LEAST, inherited, ratio
from cqels_opt.plans.plan import Plan
from cqels_opt.plans.relation_set import RelationSet

PRIOR = 2.0
"""The weight of an estimate, in rows of a sample."""

ENOUGH = 32
"""Rows of a sample that outweigh an estimate of less than one of them."""


class SampledCardinality(NamedTuple):
    """The sampled rows of an operator, and the weight of each of them in rows of the whole (1: the sample is the whole)."""

    rows: int
    scale: float


Sampler: TypeAlias = Callable[[str, Plan], Sequence["SampledCardinality | None"]]
"""Samples a plan of a delta source: the rows of each of its operators, in their order; None if unknown."""


class Corrections:
    """The corrections of one delta source, from feedback and from samples. ``known`` has both, one factor per sub-pattern."""

    def __init__(self, before: Mapping[RelationSet, float]) -> None:
        self.before = before
        self.known: dict[RelationSet, float] = dict(before)
        self._moved: dict[RelationSet, float] = {}

    def learn(self, relations: RelationSet, uncorrected: float, found: SampledCardinality) -> None:
        """Adds a sample; ``uncorrected`` is the estimate from the statistics alone. Smaller sub-patterns must be added first."""
        if relations in self._moved:
            return
        uncorrected = max(uncorrected, LEAST)
        if found.scale == 1:
            factor = found.rows / uncorrected
        elif (prior := self._prior(relations)) == 0:  # a smaller sub-pattern had no rows at all
            factor = found.rows * found.scale / uncorrected
        else:
            expected = uncorrected * prior / found.scale
            weight = expected / ENOUGH if expected < 1 and found.rows >= ENOUGH else PRIOR
            factor = prior * (found.rows + weight) / (expected + weight)
        self.known[relations] = factor
        self._moved[relations] = factor / inherited(self.before, relations, 1.0)

    @property
    def counted(self) -> Iterable[RelationSet]:
        """The sub-patterns of this delta that were sampled or observed."""
        return self._moved.keys()

    def observe(self, relations: RelationSet, uncorrected: float, rows: float) -> None:
        """Adds rows that an operator gave for the delta itself; they replace a sample."""
        self.known[relations] = factor = ratio(rows, uncorrected)
        self._moved[relations] = factor / inherited(self.before, relations, 1.0)

    def _prior(self, relations: RelationSet) -> float:
        """The expected factor: that of before, times the change that the sample has made to the largest sub-pattern inside."""
        return inherited(self.before, relations, 1.0) * inherited(self._moved, relations, 1.0)
