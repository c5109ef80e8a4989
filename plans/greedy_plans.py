"""Plans of a block that has too many pairs for one memo: of each delta source only the joins of its greedy trees are alternatives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from cqels_opt.plans import plan as planning
from cqels_opt.plans.base_estimates import BaseEstimates
from cqels_opt.plans.cardinality import Estimator
from cqels_opt.plans.cost import CostModel
from cqels_opt.plans.dpccp import Pair
from cqels_opt.plans.greedy import GreedySearch
from cqels_opt.plans.memo import Memo
from cqels_opt.plans.plan import Plan
from cqels_opt.plans.plan_pricing import cost_of
from cqels_opt.plans.plan_selection import PlanSelection
from cqels_opt.plans.query_graph import QueryGraph
from cqels_opt.plans.reoptimization_budget import ReoptimizationBudget
from cqels_opt.plans.source_plans import SourcePlans


class GreedyPlans:
    """Searches greedy trees for the delta sources of a block. ``budget`` is that of each of them; ``priced`` counts joins."""

    def __init__(
        self,
        model: CostModel,
        base: BaseEstimates,
        plans: Mapping[str, SourcePlans],
        selection: PlanSelection,
        budget: ReoptimizationBudget,
    ) -> None:
        self._model, self._base, self._plans = model, base, plans
        self._selection, self._budget = selection, budget
        self.priced = 0

    def search(self, moved: NDArray[np.bool_], seconds: float) -> None:
        """Searches trees for the sources without a plan, and for those whose budget allows it; the others keep their plans.

        ``moved`` are the statistics that have changed, ``seconds`` is what a search takes.
        """
        search: GreedySearch | None = None
        for own in self._plans.values():
            own.memo.refresh(moved)
        for number, (source, own) in enumerate(self._plans.items()):
            own.stays = own.current
            if own.current is not None and own.priced is None and cost_of(own.memo, source, own.current) is None:
                own.memo = self._memo(Estimator(self._base), source, ())  # after a restart it has no joins
            if own.kept is not None:
                continue
            current = None if self._selection.mode != "adaptive" else own.current
            if current is None or self._budget.due(source, self._selection.current_cost(source, current), seconds):
                search = search or GreedySearch(Estimator(self._base))  # which takes as long as many batches of such a block
                own.memo, own.stays = self._memo(search.estimator, source, search.pairs(number)), None
        self.priced += search.candidates if search else 0

    def _memo(self, estimator: Estimator, source: str, found: Iterable[Pair]) -> Memo:
        own = self._plans[source]
        pairs = pairs_of([own.kept, own.current], self._selection.graph)
        memo = Memo(estimator, [*found, *pairs], self._model, [source])
        memo.set_filter_weights(self._selection.weights)
        return memo


def pairs_of(plans: Iterable[Plan | None], graph: QueryGraph) -> list[Pair]:
    """The pairs of plans that a memo must have at any cost."""
    return [pair for plan in plans if plan is not None for pair in planning.pairs_with_builds(plan, graph)]
