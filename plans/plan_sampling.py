"""Samples the plans that would be chosen, until the cheapest one has been sampled (sampling-based re-optimization, Wu, Naughton & Singh
2016). The sampled rows correct the estimates on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from cqels_opt.plans import plan as planning
from cqels_opt.plans.base_estimates import BaseEstimates
from cqels_opt.plans.cost import JoinOperator
from cqels_opt.plans.cycles import multiway_keys
from cqels_opt.plans.estimate_corrections import EstimateCorrections
from cqels_opt.plans.plan import Plan
from cqels_opt.plans.plan_pricing import PricedPlan, cost_of
from cqels_opt.plans.plan_selection import PlanSelection
from cqels_opt.plans.relation_set import members
from cqels_opt.plans.reoptimization_budget import ReoptimizationBudget
from cqels_opt.plans.sampling import Sampler
from cqels_opt.plans.source_plans import SourcePlans

SAMPLING_ROUNDS = 4
"""Rounds of sampling after which the cheapest plan is taken without further samples."""

WASTE = 4.0
"""How many times more rows than the delta and the answers an operator gives if plans are sampled that begin with other joins."""


class PlanSampling:
    """Samples the plans of a block's delta sources. ``budget`` is that of each of them."""

    def __init__(
        self,
        corrections: EstimateCorrections,
        selection: PlanSelection,
        base: BaseEstimates,
        plans: Mapping[str, SourcePlans],
        budget: ReoptimizationBudget,
    ) -> None:
        self.corrections, self.selection, self.base, self.budget = corrections, selection, base, budget
        self.memo, self.graph, self._plans = corrections.memo, selection.graph, plans
        self._has_multiway = bool((self.memo.shape.alternatives.operator == JoinOperator.MULTIWAY).any())

    def due(self, seconds: float, costs: Mapping[str, float]) -> list[str]:
        """The sources whose budget allows a sample, by the costs of their plans; ``seconds`` is that of a sample, in the same unit."""
        return [s for s, cost in costs.items() if self.base.has_rows(s) and self.budget.due(s, cost, seconds)]

    def sample(self, sampler: Sampler, due: Sequence[str]) -> None:
        """Samples the plans of the sources for which that is due."""
        first = {source: (*self._first_joins(source),) for source in due}
        for source in due:
            self.corrections.start_sample(source)
        for source, plans in first.items():
            for plan in plans:
                self._sample(sampler, source, plan)
        if any(first.values()):
            self.memo.refresh()
        self.until_cheapest(sampler, due, lambda s: self.selection.select(s, self.selection.best(s)).plan)

    def until_cheapest(self, sampler: Sampler, due: Sequence[str], select: Callable[[str], Plan]) -> None:
        """Samples the plan that ``select`` takes for each source, and corrects the estimates, until it has been sampled."""
        sampled: set[tuple[str, Plan]] = set()
        for _ in range(SAMPLING_ROUNDS):
            before = len(sampled)
            for source in due:
                plan = select(source)
                if (source, plan) not in sampled:
                    sampled.add((source, plan))
                    self._sample(sampler, source, plan)
            if len(sampled) == before:
                return
            self.memo.refresh()

    def _sample(self, sampler: Sampler, source: str, plan: Plan) -> None:
        """Samples a plan; the rows of its operators correct the estimates."""
        covered = [self.graph.set_of(step.covers) for step in planning.operators(plan, self.graph)]
        self.corrections.add_sample(source, zip(covered, sampler(source, plan), strict=True))

    def _wastes_rows(self, source: str) -> bool:
        """Whether an operator of the current plan gives many times the rows of the delta and of the answers."""
        current = self._plans[source].current
        if current is None or cost_of(self.memo, source, current) is None:
            return False
        scanned, *between, joined = PricedPlan.of(self.memo, source, current, ()).rows()[0]
        return max(between, default=0.0) > WASTE * max(scanned, joined)

    def _first_joins(self, source: str) -> Iterator[Plan]:
        """The joins of a source's delta that are sampled before its cheapest plan.

        Where the current plan wastes rows, they are the joins with one relation: if the estimates of other plans are too high, their rows
        are never observed. The joins that close a triangle with the delta always are: the sides of a triangle are far from independent,
        and an estimate that is too high would hide all plans that begin with it.

        None of them where filters are operators: a sample of a plan without these evaluates them at once.
        """
        if any(relation.kind == "filter" for relation in self.graph.relations):
            return
        own = self.graph.set_of([source])
        neighbours = [*members(self.graph.neighbourhood(own) & ~self.graph.units)]
        for i in neighbours if self._wastes_rows(source) else ():
            yield planning.Probe(planning.Scan(source), self.graph.relations[i].name, self.graph.shared(own, 1 << i))
        for i, j in combinations(neighbours, 2) if self._has_multiway else ():
            if (keys := multiway_keys(self.graph, own, 1 << i | 1 << j)) is not None:
                yield planning.Multiway.of(planning.Scan(source), keys)
