"""The plans of a block's delta sources in steady batches: when a batch is one, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cqels_opt.plans.base_estimates import BaseEstimates, Followed
from cqels_opt.plans.estimate_corrections import EstimateCorrections
from cqels_opt.plans.plan_choice import PlanChoice
from cqels_opt.plans.plan_selection import PlanSelection
from cqels_opt.plans.source_plans import SourcePlans
from cqels_opt.plans.statistics import Statistics
from cqels_opt.plans.steady import row_factors


class SteadyPlans:
    """Keeps the plans of all sources in steady batches, which begin with :meth:`anchor` and last until :meth:`end`."""

    def __init__(
        self,
        base: BaseEstimates,
        selection: PlanSelection,
        plans: Mapping[str, SourcePlans],
        corrections: EstimateCorrections | None,
    ) -> None:
        self._base, self._selection, self._plans, self._corrections = base, selection, plans, corrections

    @property
    def may_last(self) -> bool:
        """Whether the next batch can be steady."""
        return all(own.steady is not None for own in self._plans.values())

    def anchor(self, choices: Mapping[str, PlanChoice]) -> None:
        """All plans stay, and have been priced from the statistics of a batch in which all sources have rows."""
        for source, own in self._plans.items():
            own.anchor(choices[source])

    def factors(self, followed: Mapping[str, Followed], statistics: Mapping[str, Statistics]) -> dict[str, dict[str, float]]:
        """For each source the factors by which the rows of relations have changed since its plan was priced; none if the batch is not
        steady, or the statistics of a source were read."""
        if len(followed) < len(self._plans) or not self.may_last or not self.keep_filters(statistics):
            return {}
        rows = np.array([followed[source].rows for source in self._plans])
        found = row_factors(self._base.raw[:, : self._base.rows_read], rows)
        names = self._base.graph.index
        return {} if found is None else {source: dict(zip(names, row)) for source, row in zip(self._plans, found.tolist())}

    def keep_filters(self, statistics: Mapping[str, Statistics]) -> bool:
        """Whether the filters keep about what they kept when the plans were priced."""
        return all(self._base.keeps_filters(source, statistics[source]) for source in self._plans)

    def anchored(self) -> dict[str, PlanChoice]:
        """The choices that were priced last, once more after a restart."""
        if any(own.anchored is None for own in self._plans.values()):
            before = {source: own.expected for source, own in self._plans.items()}
            for source, choice in self._selection.stay(self._selection.in_place()).items():
                self._plans[source].anchored = choice
            for source, own in self._plans.items():
                own.expected = before[source]
        return {source: own.anchored for source, own in self._plans.items() if own.anchored is not None}

    def keep(self, factors: Mapping[str, Mapping[str, float]]) -> dict[str, PlanChoice]:
        """The choices of a steady batch."""
        return {source: own.keep(factors[source]) for source, own in self._plans.items()}

    def end(self) -> None:
        """What follows is not steady: the rows of the steady batches before it correct the estimates."""
        for source, own in self._plans.items():
            if own.steady is not None and own.steady.batches and self._corrections is not None:
                self._corrections.observe(source, own.steady.rows, batches=own.steady.batches)
            own.steady = own.anchored = None
