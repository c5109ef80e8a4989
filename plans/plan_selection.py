"""Which plan a delta source uses: the cheapest one, or the current one while no other is worth a switch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from operator import is_

import numpy as np

from cqels_opt.plans import plan as planning
from cqels_opt.plans import plan_extraction
from cqels_opt.plans.base_estimates import BaseEstimates
from cqels_opt.plans.bounded_choice import LIMITED_FROM, least_risky, limit_estimates
from cqels_opt.plans.memo import Places
from cqels_opt.plans.plan import Plan, PlanError
from cqels_opt.plans.plan_changes import Reason, corrected, reasons
from cqels_opt.plans.plan_choice import PlanChoice
from cqels_opt.plans.plan_extraction import Ranked
from cqels_opt.plans.plan_pricing import PlanPlaces, PricedPlan, cost_of
from cqels_opt.plans.predicate_placement import filter_order
from cqels_opt.plans.query_graph import QueryGraph
from cqels_opt.plans.size_bounds import SizeBounds
from cqels_opt.plans.source_plans import SourcePlans
from cqels_opt.plans.switching_rule import SwitchingRule, compared_cost, greatest_kept


def without_bounds(source: str) -> None:
    """No upper bounds are known."""


class PlanSelection:
    """Chooses among the plans of each delta source, in a mode of the optimizer. ``greedy``: plans were found by greedy search.

    ``bounds`` gives the upper bounds of a source in this batch, if there are any; ``weights`` are what the filters cost.
    """

    def __init__(self, graph: QueryGraph, mode: str, base: BaseEstimates, plans: Mapping[str, SourcePlans], greedy: bool) -> None:
        self.graph, self.mode, self.base, self._plans, self._greedy = graph, mode, base, plans, greedy
        self.bounds: Callable[[str], SizeBounds | None] = without_bounds
        self.weights = graph.weights
        self.switching = SwitchingRule()
        self._placed: tuple[list[PlanPlaces], Places] | None = None  # the last plans that were priced in place

    @property
    def filter_order(self) -> tuple[str, ...]:
        """All filters in the order in which those at one place are evaluated."""
        return filter_order(self.base, self.weights)

    def best(self, source: str) -> Ranked:
        """The cheapest plan."""
        return plan_extraction.cheapest(self._plans[source].memo, source)

    def cheapest(self, source: str) -> Plan:
        """The cheapest plan, or the current one if that costs as much."""
        own = self._plans[source]
        if own.current is not None and self.cost(source, own.current) <= greatest_kept(own.memo, source):
            return own.current
        return self.best(source).plan

    def choice(self, source: str, sampled: bool, plan: Plan | None = None, *, stays: bool = False) -> PlanChoice:
        """The choice of a ``plan``, or of the one that the mode takes. The current one ``stays`` where statistics were not read."""
        own = self._plans[source]
        memo, before, last = own.memo, own.current, own.choice
        if stays:
            plan = before
        elif before is not None:
            limit_estimates(own.placed(source, before), self.bounds(source), LIMITED_FROM, own.confirmed)
        plan = plan or self._plan(source)
        reason: tuple[Reason, ...] = ()
        if (previous := own.replaces(plan, self.base.has_rows(source))) is not None:
            assert own.seen is not None
            reason = reasons(memo, source, previous, plan, own.seen) + corrected(memo, source, own.estimated)
            if not reason:  # a delta that was stopped has the statistics of the same batch: what its operators gave is the reason
                reason = corrected(memo, source, own.estimated, least=1, moved=1.0)
        priced = own.placed(source, plan)
        if plan != before:
            own.current, last = plan, None
            limit_estimates(priced, self.bounds(source), LIMITED_FROM if sampled else 0.0)
        return self._described(priced, priced.cheapest_other(), last, previous, reason)

    def in_place(self) -> list[PricedPlan]:
        """The current plans of all sources, which have one memo, priced at their places alone: the memo is not refreshed."""
        placed = [own.placed(source, own.current) for source, own in self._plans.items() if own.current is not None]
        plans = [places for priced in placed for places in priced.all_places()]
        if self._placed is None or len(plans) != len(self._placed[0]) or not all(map(is_, plans, self._placed[0])):
            alternatives = np.concatenate([places.alternatives for places in plans])
            states = np.concatenate([priced.states for priced in placed])
            self._placed = plans, placed[0].memo.places(alternatives, states)
        now = placed[0].memo.priced_at(self._placed[1])
        return [replace(priced, memo=now) for priced in placed]

    def stay(self, plans: Iterable[PricedPlan]) -> dict[str, PlanChoice]:
        """The choices of a batch in which all plans stay, which are priced :meth:`in_place`."""
        found = {}
        for priced in plans:
            own = self._plans[priced.source]
            own.replaces(priced.plan, self.base.has_rows(priced.source))
            found[priced.source] = self._described(priced, priced.last_runner_up(), own.choice)
        return found

    def _described(
        self,
        priced: PricedPlan,
        runner_up: Ranked | None,
        last: PlanChoice | None,
        previous: Plan | None = None,
        reason: tuple[Reason, ...] = (),
    ) -> PlanChoice:
        """The choice of a plan; ``last`` is the last one, if it is of the same plan."""
        source, own = priced.source, self._plans[priced.source]
        return PlanChoice(
            source,
            priced.plan,
            priced.cost,
            priced.operators,
            self._filters_of(priced, last.filters if last else ()),
            own.estimate(priced),
            runner_up,
            previous,
            reason,
            self.base.assumed(source),
            priced.memo.retained(source),
            self._greedy,
            priced.former_costs(),
            own.before[2] is None and own.first == priced.plan,
        )

    def _plan(self, source: str) -> Plan:
        """The plan to use: the current one, unless another is worth a switch. To be called once per batch."""
        own = self._plans[source]
        if own.current is not None and self.mode == "adaptive" and own.stays is None:
            saving = self.current_cost(source, own.current) - plan_extraction.cheapest_cost(own.memo, source)
            if not self.switching.is_due(source, saving, compared_cost(own.memo, source)):
                return own.current
        return self.select(source, self.best(source)).plan

    def _filters_of(self, priced: PricedPlan, last: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
        """The filters that each operator of a plan evaluates, in their order; the ``last`` ones if there is no choice of order."""
        if last and all(len(names) < 2 for names in last):
            return last
        order = self.filter_order
        return tuple(tuple(name for name in order if name in names) for names in planning.filters(priced.plan, self.graph))

    def select(self, source: str, best: Ranked) -> Ranked:
        """The plan that the mode takes, where ``best`` is the cheapest one."""
        own = self._plans[source]
        if (stays := own.kept or own.stays) is not None:
            return Ranked(stays, self.cost(source, stays))
        if self.mode == "worst":
            return plan_extraction.most_expensive(own.memo, source)
        if self.mode == "static" and self.base.has_rows(source):
            own.kept = best.plan
        current = own.current
        if self.mode != "adaptive" or current == best.plan:
            return best
        if current is not None and (cost := self.cost(source, current)) <= greatest_kept(own.memo, source):
            return Ranked(current, cost)
        return least_risky(own.memo, source, best, self.bounds(source))

    def selected_cost(self, source: str, *, stays: bool) -> float:
        """The cost of the plan that :meth:`select` takes in adaptive mode, or of the current one if it ``stays``."""
        own = self._plans[source]
        if own.current is not None:
            cost = self.current_cost(source, own.current)
            if stays or cost <= greatest_kept(own.memo, source):
                return cost
        return plan_extraction.cheapest_cost(own.memo, source)

    def current_cost(self, source: str, current: Plan) -> float:
        """The cost of the current plan; see :meth:`cost`."""
        own = self._plans[source]
        return own.priced.cost if own.priced is not None and own.priced.memo is own.memo else self.cost(source, current)

    def cost(self, source: str, plan: Plan) -> float:
        """The cost of a plan. Raises :class:`PlanError` if the memo does not have its joins."""
        if (cost := cost_of(self._plans[source].memo, source, plan)) is None:
            raise PlanError(f"plan of {source}: the memo has no such joins: {plan}")
        return cost
