"""What sampled walks say of the delta at hand, as corrections of estimates (DESIGN §5; Wu, Naughton & Singh 2016).

A walk does the operators of a plan on a sample of the delta. What came out of each corrects the estimate of its sub-pattern, and of every
larger one without a correction of its own, for this delta alone. Few rows in the sample say little, so they are weighed against what
was expected of them: the estimate so far is taken for a gamma distribution worth :data:`PRIOR` rows (Gelman et al., Bayesian Data
Analysis, §2.6). Where the whole delta was walked the rows are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from cqels_opt.plans.feedback import inherited
from cqels_opt.plans.plan import Plan
from cqels_opt.plans.relation_set import RelationSet

SAMPLING_ROUNDS = 4
"""Rounds of walks before the cheapest plan is taken as it is."""

PRIOR = 2.0
"""How many rows of a sample an estimate is worth."""


class SampledCardinality(NamedTuple):
    """What an operator gave in a walk: rows of the sample, and how many rows of the whole each of them stands for (1: it is the whole)."""

    rows: int
    scale: float


Sampler: TypeAlias = Callable[[str, Plan], Sequence["SampledCardinality | None"]]
"""Walks a plan of a delta source: what each of its operators gave, in their order; None where that is not known."""


class Corrections:
    """The corrections of one delta source: those that it had, and what walks add. ``known`` has both, the factor of each sub-pattern."""

    def __init__(self, before: Mapping[RelationSet, float]) -> None:
        self.before = before
        self.known: dict[RelationSet, float] = dict(before)
        self._moved: dict[RelationSet, float] = {}

    def learn(self, relations: RelationSet, uncorrected: float, found: SampledCardinality) -> None:
        """A walk came by; ``uncorrected`` is what the statistics alone say. Smaller sub-patterns must have been learnt before."""
        if uncorrected <= 0 or relations in self._moved:
            return
        if found.scale == 1:
            factor = found.rows / uncorrected
        else:
            prior = self._prior(relations)
            expected = uncorrected * prior / found.scale
            factor = prior * (found.rows + PRIOR) / (expected + PRIOR)
        self.known[relations] = factor
        self._moved[relations] = factor / inherited(self.before, relations, 1.0)

    def _prior(self, relations: RelationSet) -> float:
        """The factor that is expected: as before the walk, moved as far as the walk has moved the largest sub-pattern inside."""
        return inherited(self.before, relations, 1.0) * inherited(self._moved, relations, 1.0)
